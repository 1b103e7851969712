from __future__ import annotations

import pytest

from prompt_coevo.adapters.openrlhf import versions
from prompt_coevo.adapters.openrlhf.versions import check_version
from prompt_coevo.errors import HostError
from prompt_coevo.extras import MissingExtraError


@pytest.mark.parametrize("found", ["1.2.3", "1.2.10", "1.3.0.dev1", "1.2.3+cu12"])
def test_what_fits(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    monkeypatch.setattr(versions, "version", lambda name: found)
    check_version("host", "1.2.3", "1.4")


@pytest.mark.parametrize("found", ["1.2.2", "1.4", "1.4.0", "2.0"])
def test_what_does_not(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    monkeypatch.setattr(versions, "version", lambda name: found)
    with pytest.raises(HostError, match=f"host {found} is not supported.*install host>=1.2.3,<1.4"):
        check_version("host", "1.2.3", "1.4")


def test_what_is_not_there() -> None:
    with pytest.raises(MissingExtraError, match=r"pip install 'prompt-coevo\[no-such-host\]'"):
        check_version("no-such-host", "1", "2")
