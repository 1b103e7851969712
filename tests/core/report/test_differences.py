"""Check texts that are shown side by side."""

from __future__ import annotations

import difflib

import pytest

from prompt_coevo.report.differences import pieces


@pytest.mark.parametrize(
    ("old", "new"),
    [("a " * 1900, "a b " * 950), ("a\n" * 3000, "b a\n" * 3000), ("x\n\n" * 3000, "\n" * 9000)],
)
def test_texts_that_repeat_themselves_are_not_compared_word_by_word(
    old: str, new: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = difflib.SequenceMatcher

    def small(junk: None, before: list[str], after: list[str], autojunk: bool) -> object:
        assert sum(after.count(one) for one in before) <= 10_000
        return real(junk, before, after, autojunk)

    monkeypatch.setattr(difflib, "SequenceMatcher", small)
    found = pieces(old, new)
    assert "".join(one.text for one in found if one.manner != "new") == old
    assert "".join(one.text for one in found if one.manner != "gone") == new


def test_ordinary_texts_are_compared_word_by_word() -> None:
    rest = " ".join(f"word{number}" for number in range(600))
    assert [one for one in pieces(f"a b {rest}", f"a c {rest}") if one.manner != "same"] == [
        ("gone", "b"),
        ("new", "c"),
    ]
