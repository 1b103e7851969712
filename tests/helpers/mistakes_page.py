"""Read and write `docs/mistakes.md`: mistakes and their messages. Tests make each mistake for real.

Each part of the page belongs to one test file. `COEVO_WRITE_MISTAKES=1` writes what they found.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

PAGE: Final = Path(__file__).parents[2] / "docs" / "mistakes.md"
_MARKS: Final = r"(<!-- mistakes: {part} -->\n).*?(<!-- end -->)"


def parts() -> list[str]:
    """Return the names of the page's parts."""
    return re.findall(r"<!-- mistakes: (.+?) -->", PAGE.read_text("utf-8"))


def read(part: str) -> dict[str, str]:
    """Return the part's rows: the mistake and its message."""
    found = re.search(_MARKS.format(part=part), PAGE.read_text("utf-8"), re.DOTALL)
    assert found, f"docs/mistakes.md has no part {part!r}"
    rows = [line for line in found[0].splitlines() if line.startswith("| ")][1:]
    cells = [re.split(r"(?<!\\) \| ", row[2:-2]) for row in rows]
    return {done: _plain(said) for done, said in cells}


def compare(part: str, found: Mapping[str, str]) -> None:
    """Compare the part with the real messages, or write it."""
    if os.environ.get("COEVO_WRITE_MISTAKES"):
        _write(part, found)
    assert read(part) == dict(found), "COEVO_WRITE_MISTAKES=1 writes docs/mistakes.md anew"


def told(error: BaseException, *folders: Path) -> str:
    """Return an error's sentence, without what differs between machines."""
    text = str(error)
    for folder in folders:
        text = text.replace(str(folder), "FOLDER")
    assert "\n" not in text
    return text


def _write(part: str, found: Mapping[str, str]) -> None:
    rows = [f"| {done} | {_code(said)} |" for done, said in found.items()]
    table = "\n".join(["", "| what is done | what is said |", "|---|---|", *rows, "", ""])
    page = PAGE.read_text("utf-8")
    marks = _MARKS.format(part=part)
    PAGE.write_text(re.sub(marks, lambda m: m[1] + table + m[2], page, flags=re.DOTALL), "utf-8")


def _code(text: str) -> str:
    ticks = "``" if "`" in text else "`"
    return ticks + text.replace("|", "\\|") + ticks


def _plain(cell: str) -> str:
    return cell.strip("`").replace("\\|", "|")
