"""Provide third-party modules: those that docs/search-agent.md shows, in an import folder."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "search-agent.md"


@pytest.fixture
def strangers(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    """Return a folder to import from, with the documented `letters.py` and `words.py`."""
    folder = tmp_path_factory.mktemp("strangers")
    module = r"<!-- prepared: module -->\n```python\n# (\w+\.py)(.*?)```"
    blocks = re.findall(module, DOCUMENT.read_text("utf-8"), re.DOTALL)
    assert [name for name, _ in blocks] == ["letters.py", "words.py"]
    for name, code in blocks:
        (folder / name).write_text(f"#{code}", "utf-8")
    before = set(sys.modules)
    monkeypatch.syspath_prepend(folder)
    yield folder
    for name in set(sys.modules) - before:
        if str(folder) in str(getattr(sys.modules[name], "__file__", "")):
            del sys.modules[name]


@pytest.fixture
def installed(strangers: Path) -> Callable[[str, str], None]:
    """Make a package of these modules with an entry point."""

    def install(group: str, entry: str) -> None:
        information = strangers / "strange-1.0.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(
            "Metadata-Version: 2.1\nName: strange\nVersion: 1.0\n"
        )
        (information / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")

    return install
