from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from pathlib import Path

import pytest

from prompt_coevo.markers import PROJECT
from prompt_coevo.report.differences import pieces
from prompt_coevo.visible import in_a_line, visible

ACTING = ["\x00", "\x1b", "\x7f", "\x9b", "\u202e", "\u2066"]
UNSEEN = ["\u200b", "\u3164", "\u2800", "\U000e0101"]


@pytest.mark.parametrize("char", [*ACTING, *UNSEEN])
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


ROOT = Path(__file__).parents[2]
ATTACK = "\x1b]0;owned\x07 \x9b2J\u202e"


@pytest.fixture
def log() -> Iterator[io.StringIO]:
    """Capture what the package's own logger prints to a terminal."""
    stream = io.StringIO()
    handler = logging.StreamHandler(stream)
    logger = logging.getLogger(PROJECT)
    logger.addHandler(handler)
    yield stream
    logger.removeHandler(handler)


def test_a_log_line_cannot_act_on_a_terminal(log: io.StringIO) -> None:
    logging.getLogger(PROJECT).warning("no new templates from %d calls: %s", 3, ATTACK)
    assert log.getvalue() == (
        "no new templates from 3 calls: ⟨U+001B⟩]0;owned⟨U+0007⟩ ⟨U+009B⟩2J⟨U+202E⟩\n"
    )


def test_an_error_below_a_log_line_cannot_either(log: io.StringIO) -> None:
    try:
        raise ValueError(ATTACK)
    except ValueError as error:
        logging.getLogger(PROJECT).error("a search failed: 100 %", exc_info=error)
    said = log.getvalue()
    assert said.startswith("a search failed: 100 %\nTraceback")
    assert said.endswith("ValueError: ⟨U+001B⟩]0;owned⟨U+0007⟩ ⟨U+009B⟩2J⟨U+202E⟩\n")


def test_every_part_of_the_package_logs_there() -> None:
    """Logger names come from `markers`, which also installs the filter."""
    for folder in ("prompt_coevo", "adapters", "retrieval"):
        for path in (ROOT / folder).rglob("*.py"):
            text = path.read_text("utf-8")
            if "logging.getLogger(" in text and "logging.getLogger(PROJECT)" not in text:
                assert 'getLogger("trl")' in text, path
            if "getLogger(PROJECT)" in text and path.name != "markers.py":
                assert "from prompt_coevo.markers import" in text, path


def test_no_other_function_makes_texts_visible() -> None:
    found = [
        path.name
        for folder in ("prompt_coevo", "adapters", "retrieval")
        for path in (ROOT / folder).rglob("*.py")
        if "def visible(" in path.read_text("utf-8")
    ]
    assert found == ["visible.py"]
