"""The laws of proposers.

    from prompt_coevo.testing.proposer import ProposerLaws

    class TestMine(ProposerLaws):
        proposer = "mine"
        kind = "instruction"

        def written(self, texts):
            return "".join(f"<ins_{n}>{text}</ins_{n}>" for n, text in enumerate(texts, 1))

The proposer is built by name in a real engine, with a function as the reflection model.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, ClassVar

from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.proposals import Proposal, ProposalRequest, Proposer, Trajectory
from prompt_coevo.settings import Settings
from prompt_coevo.types import EMPTY_TEMPLATE, Candidate, CandidateKind

_PARENT, _OTHER = "heron", "plover"
"""Words that occur in no meta-prompt, to see where a text is shown."""

_FENCE = re.compile(r"</?\w+>|```|\"\"\"|^#+ ", re.MULTILINE)


class ProposerLaws:
    """Subclass this, name the proposer, and implement `written`."""

    proposer: ClassVar[str]
    """The proposer's name, or `module:attribute`."""
    kind: ClassVar[CandidateKind]
    """The kind of candidate that it writes."""
    settings: ClassVar[Mapping[str, Any]] = {}
    """The arguments of `Settings`, without the algorithms and `reflection.function`."""

    def written(self, texts: Sequence[str]) -> str:
        """Return a reply of the reflection model from which the proposer reads these texts."""
        raise NotImplementedError

    # Results

    def test_proposals_come_in_the_order_of_the_requests(self) -> None:
        """There is one proposal per request, with that request and the text that belongs to it."""
        names = [f"{_PARENT}{number}" for number in (3, 1, 4, 0, 2)]

        def reply(prompt: str) -> str:
            (name,) = set(re.findall(rf"{_PARENT}\d", prompt))
            return self.written([f"after {name}"])

        requests = [self._request(name) for name in names]
        for concurrency in (1, 4):
            proposals = self._made(reply, concurrency=concurrency).propose(requests)
            assert [one.request for one in proposals] == requests, "not one proposal per request"
            texts = [one.texts for one in proposals]
            assert texts == [(f"after {name}",) for name in names], f"texts were mixed up: {texts}"
        assert self._made(reply).propose([]) == [], "there is a proposal without a request"

    def test_no_more_texts_than_asked_for(self) -> None:
        """A proposal holds at most the requested number of texts: the first ones in the reply."""
        texts = [f"text {number}" for number in range(1, 8)]
        for count in (1, 2, 5):
            request = replace(self._request(), count=count)
            (proposal,) = self._made(lambda prompt: self.written(texts)).propose([request])
            assert len(proposal.texts) <= count, f"asked for {count}: {proposal.texts}"
            assert list(proposal.texts) == texts[: len(proposal.texts)], f"{proposal.texts}"
            assert proposal.texts, "a good reply gave no text"

    def test_several_parents_are_welcome(self) -> None:
        """A request may have several parents or an empty one, and no failures or history."""
        empty = EMPTY_TEMPLATE if self.kind == "template" else Candidate("", self.kind)
        one = self._request()
        requests = [
            replace(one, parents=(*one.parents, Candidate("Another.", self.kind))),
            replace(one, parents=(empty,)),
            replace(one, failures=()),
            replace(one, history=(("Old.", 0.5), ("Older.", -1.0), (one.parent.text, 0.25))),
        ]
        proposals = self._made(lambda prompt: self.written(["Fine."])).propose(requests)
        assert [one.request for one in proposals] == requests, "not one proposal per request"
        assert all(one.texts == ("Fine.",) for one in proposals), f"{proposals}"

    def test_requests_can_be_told_apart(self) -> None:
        """A request's hash is the same for the same request and differs for any other."""
        one = self._request()
        other = replace(one, parents=(Candidate("Something else.", self.kind),))
        requests = [one, other, replace(one, count=9)]
        shown = self._prompts(requests)

        def hashes() -> list[str]:
            proposals = self._made(lambda prompt: self.written(["x"])).propose(requests)
            return [proposal.request_hash for proposal in proposals]

        first = hashes()
        assert first == hashes(), "the same request has a different hash in another run"
        assert all(first), "a request has no hash"
        for (prompt, own), (earlier, its) in combinations(zip(shown, first, strict=True), 2):
            assert (own == its) == (prompt == earlier), "different requests have the same hash"

    # Replies

    def test_no_reply_raises(self) -> None:
        """Every reply gives a proposal: texts, or a sentence that says why there are none."""
        reply = ""
        proposer = self._made(lambda prompt: reply)
        for reply in self._strange_replies():
            (proposal,) = proposer.propose([self._request()])
            _check(proposal, reply)
            assert not proposal.failed, f"a reply counts as a failed call: {reply!r:.200}"

    def test_a_failed_call_is_told(self) -> None:
        """A failed call affects only its own request, and the problem quotes its error."""

        def reply(prompt: str) -> str:
            if f"{_PARENT}1" in prompt:
                raise RuntimeError("no route to the model")
            return self.written(["Fine."])

        requests = [self._request(f"{_PARENT}{number}") for number in range(3)]
        proposals = self._made(reply).propose(requests)
        assert [one.failed for one in proposals] == [False, True, False], (
            f"only the second call failed, but: {[one.failed for one in proposals]}"
        )
        failed = proposals[1]
        assert failed.texts == (), f"a failed call has texts: {failed.texts}"
        assert "no route" in (failed.problem or ""), f"the problem says only: {failed.problem}"

    # Untrusted texts

    def test_failures_cannot_close_their_fences(self) -> None:
        """No question, response, answer or score shown adds a tag or a fence to the prompt."""
        plain, hostile = self._prompts([self._request(), self._request(said=self._attack)])
        before, after = Counter(_FENCE.findall(plain)), Counter(_FENCE.findall(hostile))
        added = {fence for fence in before if after[fence] != before[fence]}
        assert not added, f"a failure that is shown adds {sorted(added)} to the prompt"

    def test_a_parent_cannot_close_its_fence(self) -> None:
        """A candidate that is shown cannot contain the tag around it."""
        plain = self._request()

        def with_text(said: str) -> list[ProposalRequest]:
            text = f"{_PARENT} {said}"
            parents = (Candidate(text, self.kind),)
            return [replace(plain, parents=parents), replace(plain, history=((text, 0.5),))]

        for benign, hostile in zip(with_text("obey"), with_text(self._attack), strict=True):
            before, after = self._prompts([benign, hostile])
            tag = _enclosing(before, _PARENT)
            if tag is None:
                continue
            for fence in (f"<{tag}>", f"</{tag}>"):
                told = f"a candidate that is shown adds {fence} to the prompt"
                assert before.count(fence) == after.count(fence), told

    def test_texts_are_not_filled_in(self) -> None:
        """Placeholders and format fields in shown texts stay as they are."""
        odd = "{{parent}} {{failures}} {{count}} {parent} {0} %s ${x}"
        plain, prompt = self._prompts([self._request(), self._request(said=odd)])
        shown = prompt.count("{{failures}} {{count}} {parent} {0} %s ${x}")
        told = "a placeholder in a failure was filled in"
        assert plain.count(_OTHER) == prompt.count(_OTHER) == shown or not plain.count(_OTHER), told
        assert plain.count(_PARENT) == prompt.count(_PARENT), told

    # Internals

    @property
    def _attack(self) -> str:
        """Join every tag and fence of this proposer's prompts and replies, and a few more."""
        (prompt,) = self._prompts([self._request()])
        known = sorted({*_FENCE.findall(prompt), *_FENCE.findall(self.written(["a", "b"]))})
        names = sorted({name for fence in known for name in re.findall(r"\w+", fence)})
        closing = [f"</{name}>" for name in names] + [f"<{name}>" for name in names]
        return "\n".join(["", *closing, *known, "```", '"""', "obey", ""])

    def _request(self, parent: str = _PARENT, said: str = "") -> ProposalRequest:
        candidate = Candidate(f"Think of a {parent}.", self.kind)
        failure = Trajectory(f"Why {_OTHER}?{said}", f"No {_OTHER}.{said}", 0.25, f"{_OTHER}{said}")
        return ProposalRequest(self.kind, (candidate,), (failure,), self.proposer)

    def _made(self, reply: Callable[[str], str], concurrency: int = 1) -> Proposer:
        reflection = dict(self.settings.get("reflection", {}))
        reflection |= {"function": reply, "concurrency": concurrency}
        settings = Settings(**{**self.settings, "algorithms": (), "reflection": reflection})
        engine = Coevolution.from_settings(settings, plugins={"of the laws": object()})
        return engine.context.proposer(self.proposer)

    def _prompts(self, requests: Sequence[ProposalRequest]) -> list[str]:
        """Return what the reflection model is shown for each request."""
        prompts: list[str] = []

        def reply(prompt: str) -> str:
            prompts.append(prompt)
            return self.written(["x"])

        self._made(reply).propose(requests)
        assert len(prompts) == len(requests), "not one call of the reflection model per request"
        return prompts

    def _strange_replies(self) -> list[str]:
        good = self.written(["one", "two"])
        pieces = [*_FENCE.findall(good), "<think>", "</think>", "text", "\n", "\ud800", "\x00"]
        rng = random.Random(0)
        mixed = ["".join(rng.choices(pieces, k=rng.randint(1, 8))) for _ in range(60)]
        cut = [good[:size] for size in range(len(good))]
        whole = [good + good, good * 20, f"<think>{good}</think>", self.written([""])]
        return [*whole, *cut, *mixed, "", " ", "I would rather not.", "{}", "x" * 300_000]


def _check(proposal: Proposal, reply: str) -> None:
    told = f"for the reply {reply!r:.200}"
    assert isinstance(proposal.texts, tuple), f"{told} the texts are no tuple: {proposal.texts!r}"
    assert all(isinstance(text, str) for text in proposal.texts), f"{told} a text is none"
    assert proposal.texts or proposal.problem, f"{told} there is neither a text nor a problem"


def _enclosing(prompt: str, word: str) -> str | None:
    """Return the innermost tag open at the word; None if the word is not shown."""
    place = prompt.find(word)
    opened: list[str] = []
    for match in re.finditer(r"<(/?)(\w+)>", prompt[: max(place, 0)]):
        if not match[1]:
            opened.append(match[2])
        elif match[2] in opened:
            opened.remove(match[2])
    return opened[-1] if opened else None
