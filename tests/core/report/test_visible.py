from __future__ import annotations

import pytest

from prompt_coevo.report.differences import pieces
from prompt_coevo.report.visible import in_a_line, visible


@pytest.mark.parametrize("char", ["\x00", "\x1b", "\x7f", "\x9b", "\u202e", "\u2066", "\u200b"])
def test_what_acts_or_hides_is_written_as_its_number(char: str) -> None:
    assert visible(f"a{char}b") == f"a⟨U+{ord(char):04X}⟩b"


def test_lone_surrogates_and_tags_are_written_as_numbers() -> None:
    assert visible("\ud800 \U000e0041").encode("utf-8").decode() == "⟨U+D800⟩ ⟨U+E0041⟩"


@pytest.mark.parametrize("text", ["naïve Ω 漢字 العربية 👩‍🔬", "a\tb\nc", "a b"])
def test_other_texts_stay(text: str) -> None:
    assert visible(text) == text


def test_a_carriage_return_cannot_overwrite_a_line() -> None:
    assert visible("good\rbad\r\n") == "good\nbad\n"
    assert in_a_line("good\rbad\u2028x\n") == "good bad x"


def test_a_cut_text_says_by_how_much() -> None:
    assert visible("abcdef", 4) == "abcd [2 characters more]"


@pytest.mark.parametrize(
    ("old", "new"), [("", "a"), ("a b", ""), ("one two\nthree", "one 2\n three!"), ("x", "x")]
)
def test_a_difference_holds_both_texts(old: str, new: str) -> None:
    found = pieces(old, new)
    assert "".join(text for manner, text in found if manner != "new") == old
    assert "".join(text for manner, text in found if manner != "gone") == new


def test_long_texts_are_compared_line_by_line() -> None:
    old = "word " * 5000 + "\nend\n"
    assert [one.manner for one in pieces(old, old + "more\n")] == ["same", "new"]
