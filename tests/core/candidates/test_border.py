"""Check that a model's text is normalised or refused."""

from __future__ import annotations

import string
import unicodedata

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from prompt_coevo import Candidate, hookimpl
from prompt_coevo.candidates.border import cross
from prompt_coevo.candidates.leaks import LeakGuard
from prompt_coevo.candidates.source import CandidateSource
from prompt_coevo.proposals import Proposal, ProposalRequest, Reply
from prompt_coevo.types import EMPTY_TEMPLATE

NUMBER_SIGNS = (
    "\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u0890\u0891\u08e2\U000110bd\U000110cd"
)
SWORD, WARRIOR = "Think \u2694\ufe0f.", "\U0001f469\U0001f3fd\u200d\U0001f680"


@pytest.mark.parametrize(
    ("text", "normal"),
    [
        ("zero\u200bwidth", "zerowidth"),
        ("\ufeffThink.", "Think."),
        ("no\u2060break", "nobreak"),
        ("soft\u00adhyphen", "softhyphen"),
        ("Le\u200do To\u200clstoy", "Leo Tolstoy"),
        ("Think\ufe0f.", "Think."),
        ("\u8fbb\U000e0100", "\u8fbb"),
        ("one\u2028two\u2029three", "one\ntwo\nthree"),
        ("one\rtwo\r\nthree\x0bfour\x0cfive\x85six", "one\ntwo\nthree\nfour\nfive\nsix"),
        ("cafe\u0301", "caf\u00e9"),
        ("cafe\u034f\u0301", "caf\u00e9"),
        ("\u3164\uffa0", ""),
        ("\u0645\u200d\u200c\u200d\u0645", "\u0645\u200d\u0645"),
    ],
)
def test_noise_goes_out(text: str, normal: str) -> None:
    crossed = cross(text)
    assert (crossed.text, crossed.refusal) == (normal, None)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("Think.\u202e", "control character U+202E"),
        ("Think.\u200f", "control character U+200F"),
        ("Think.\u2066", "control character U+2066"),
        ("Think." + "".join(chr(0xE0000 + ord(c)) for c in "obey"), "tag character U+E006F"),
        ("Think.\x00", "control character U+0000"),
        ("Think. \x1b[2J", "control character U+001B"),
        ("Think.\x7f", "control character U+007F"),
        ("Think.\x9b", "control character U+009B"),
        ("Think.\ud800", "control character U+D800"),
        ("Think.\ue000", "private character U+E000"),
        ("Think.\U0010fffd", "private character U+10FFFD"),
        ("Think.\ufdd0", "unknown character U+FDD0"),
    ],
)
def test_what_hides_something_is_refused(text: str, reason: str) -> None:
    assert cross(text).refusal == f"it contains the {reason}"


@pytest.mark.parametrize(
    "text",
    [
        string.printable.replace("\r", "").replace("\x0b", "").replace("\x0c", ""),
        "Naïve café, 数学, Ω, ½ — “quoted” ‘so’ …\n\ttabbed",
        SWORD,
        WARRIOR,
        "1\ufe0f\u20e3 first",
        "\u2764\ufe0f\u200d\U0001f525",
        "\u0646\u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645",  # Persian
        "\u0915\u094d\u200d\u0937",  # Devanagari
        "\u0661\u0602",  # an Arabic number sign
        "\U0001faef",  # an emoji that Python 3.11 does not know
    ],
)
def test_what_people_write_stays_as_it_is(text: str) -> None:
    crossed = cross(text)
    assert (crossed.text, crossed.refusal) == (text, None)


ANY_TEXT = st.text(st.characters(exclude_categories=()))
ODD = st.lists(
    st.sampled_from(
        "a=é\u0301\u0338\u200b\u200c\u200d\ufe0e\ufe0f\u034f\u20e3\u2028\r\n\x85\u202e\x00\ue000"
        "\u2694\u0645\u1100\u1161\u1160\U000e0041\ud8001"
    )
).map("".join)


@given(ANY_TEXT | ODD)
@example("a\u200d\u200b\u0645\u200c\u0645")
@example("=\ufe0f\u0338\ufe0f")
@example("\u1100\u1160\u1161")
def test_crossing_never_raises_and_twice_changes_nothing(text: str) -> None:
    once = cross(text)
    assert cross(once.text) == once
    assert unicodedata.is_normalized("NFC", once.text)
    assert not set(once.text) & set("\r\x0b\x0c\x85\u2028\u2029\u200b\u2060\ufeff\u00ad\u034f")
    if once.refusal is None:
        odd = {char for char in once.text if unicodedata.category(char) in ("Cc", "Cs", "Co")}
        assert odd <= {"\n", "\t"}
        assert not any("\U000e0000" <= char <= "\U000e01ef" for char in once.text)
        assert not set(once.text) & set("\u061c\u200e\u200f\u202a\u202e\u2066\u2069")
        formats = {char for char in once.text if unicodedata.category(char) == "Cf"}
        assert formats <= {*"\u200c\u200d", *NUMBER_SIGNS}


@given(st.text(st.sampled_from(string.printable), max_size=200))
def test_plain_text_is_not_touched(text: str) -> None:
    plain = text.replace("\r", "").replace("\x0b", "").replace("\x0c", "")
    assert cross(plain).text == plain
    assert cross(plain).refusal is None


class Proposing:
    """A proposer that answers with these texts, and a gate that records what it sees."""

    def __init__(self, *texts: str) -> None:
        self._texts = texts
        self.seen: list[str] = []

    @hookimpl
    def coevo_propose(self, requests: list[ProposalRequest]) -> list[Proposal]:
        return [Proposal(request, self._texts, Reply("")) for request in requests]

    @hookimpl(tryfirst=True)
    def coevo_check_candidate(self, candidate: Candidate) -> str | None:
        self.seen.append(candidate.text)
        return None


def test_every_candidate_crosses_before_any_gate(make_engine: object) -> None:
    texts = ("Thi\u200bnk \u2028twice.", "Tags \U000e0041", "Think \ntwice.\ufeff")
    plugin = Proposing(*texts)
    engine = make_engine(plugins={"mine": plugin})  # type: ignore[operator]
    known: set[str] = set()
    source = CandidateSource(engine.context, LeakGuard())
    [found] = source.ask([ProposalRequest("template", (EMPTY_TEMPLATE,), ())], known)
    assert [candidate.text for candidate in found] == ["Think \ntwice."]
    assert known == {"Think \ntwice."}
    assert plugin.seen == ["Think \ntwice.", "Think \ntwice."]  # the last equals a known one
