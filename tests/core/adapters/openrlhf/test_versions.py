from __future__ import annotations

from importlib.metadata import PackageNotFoundError

import pytest

from prompt_coevo.adapters.openrlhf import contract
from prompt_coevo.errors import HostError


@pytest.mark.parametrize("found", ["0.11.2", "0.11.10", "0.11.3.dev1", "0.11.2+cu12"])
def test_what_fits(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    monkeypatch.setattr(contract, "version", lambda name: found)
    contract.check_version()


@pytest.mark.parametrize("found", ["0.11.1", "0.12", "0.12.0", "1.0"])
def test_what_does_not(monkeypatch: pytest.MonkeyPatch, found: str) -> None:
    monkeypatch.setattr(contract, "version", lambda name: found)
    with pytest.raises(
        HostError, match=f"openrlhf {found} is not supported.*install openrlhf==0.11.2"
    ):
        contract.check_version()


def test_what_is_there_and_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> str:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(contract, "version", missing)
    with pytest.raises(
        HostError, match="of an unknown version is not supported.*install openrlhf=="
    ):
        contract.check_version()
