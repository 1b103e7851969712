"""Read and write `tests/mistakes.toml`: mistakes and their messages. Tests make each mistake for real.

Each table of the file belongs to one test. `COEVO_WRITE_MISTAKES=1` writes what they found.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

FILE: Final = Path(__file__).parents[1] / "mistakes.toml"
_HEAD: Final = """\
# Typical mistakes and their messages. Tests make every mistake and compare what is said.
# `COEVO_WRITE_MISTAKES=1 python dev.py test` writes the messages anew. FOLDER and ADDRESS stand for what
# differs between machines.
"""


def parts() -> dict[str, dict[str, str]]:
    """Return all tables: mistakes and messages, by the name of their part."""
    return tomllib.loads(FILE.read_text("utf-8"))


def read(part: str) -> dict[str, str]:
    """Return the part's rows: the mistake and its message."""
    return parts()[part]


def compare(part: str, found: Mapping[str, str]) -> None:
    """Compare the part with the real messages, or write it."""
    if os.environ.get("COEVO_WRITE_MISTAKES"):
        write({**parts(), part: dict(found)})
    assert read(part) == dict(found), "COEVO_WRITE_MISTAKES=1 writes tests/mistakes.toml anew"


def told(error: BaseException, *folders: Path) -> str:
    """Return an error's sentence, without what differs between machines."""
    text = str(error)
    for folder in folders:
        text = text.replace(str(folder), "FOLDER")
    assert "\n" not in text
    return text


def write(tables: Mapping[str, Mapping[str, str]]) -> None:
    """Write the file. A JSON string is a TOML string, too."""
    text = _HEAD
    for part, rows in tables.items():
        lines = [f"{_quoted(done)} = {_quoted(said)}" for done, said in rows.items()]
        text += "\n".join(["", f"[{part}]", *lines, ""])
    FILE.write_text(text, "utf-8")


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
