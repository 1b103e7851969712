"""Check that only line feeds end a line of a file, not other characters that Unicode breaks lines at."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from prompt_coevo.cli import retrieval_serve
from prompt_coevo.errors import SettingsError

ROOT = Path(__file__).parents[3]
ODD = "who\u2028wrote\x0bMoby\x0c\x1c\x1d\x1e\x85Dick\u2029?"
OF_A_TEXT = {"differences.py", "encoders.py"}
"""Files that cut a text in lines, to compare or to show it; none of them reads records."""


def test_a_query_may_hold_what_unicode_takes_for_a_line_end(tmp_path: Path) -> None:
    path = tmp_path / "queries.txt"
    path.write_bytes(f"{ODD}\r\n\n  \nsecond\n".encode())
    assert retrieval_serve._read_queries(path) == [ODD, "second"]


def test_queries_of_another_encoding_are_refused_in_a_sentence(tmp_path: Path) -> None:
    path = tmp_path / "queries.txt"
    path.write_bytes("Köln\n".encode("latin-1"))
    with pytest.raises(SettingsError, match="is not UTF-8"):
        retrieval_serve._read_queries(path)


def test_no_reader_of_records_splits_at_other_characters() -> None:
    found = {
        path.name
        for folder in ("prompt_coevo", "adapters", "retrieval")
        for path in (ROOT / folder).rglob("*.py")
        if re.search(r"\.splitlines\(", path.read_text("utf-8"))
    }
    assert found == OF_A_TEXT
