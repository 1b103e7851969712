"""Arms that are no setting of the package: small plugins through its hooks, and two subclasses."""

from __future__ import annotations

import random
import re
from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from prompt_coevo import Candidate, MemberPlan, Method, Policy, hookimpl
from prompt_coevo.algorithms.inspo.plugin import Inspo
from prompt_coevo.algorithms.inspo.settings import InspoSettings
from prompt_coevo.algorithms.p2o.cover import TemplateCover
from prompt_coevo.algorithms.p2o.search import SearchResult
from prompt_coevo.algorithms.p2o.settings import P2OSettings
from prompt_coevo.algorithms.p2o.stream.plugin import Stream
from prompt_coevo.types import EMPTY_TEMPLATE, Group, Question, Rollout

Writer: TypeAlias = Callable[[Question, int, int], Sequence[str]]
"""From a question, the round and a number: so many templates for it."""

_WORD: Final = re.compile(r"w(\d+)")


class ForTheHard:
    """Templates for questions whose bare rollouts all failed when they were last asked.

    The first member of such a group stays bare, because it says whether the question is still hard.
    """

    def __init__(self, write: Writer, hard: Sequence[str] = ()) -> None:
        self._write = write
        self.hard = set(hard)
        self._policy: Policy | None = None

    @hookimpl
    def coevo_train_begin(self, policy: Policy) -> None:
        self._policy = policy

    @hookimpl
    def coevo_plan_group(
        self, question_id: str, round: int, group_size: int
    ) -> Sequence[MemberPlan] | None:
        if question_id not in self.hard:
            return None
        assert self._policy is not None
        texts = self._write(self._policy.question(question_id), round, group_size - 1)
        templates = [Candidate(text, "template", origin="benchmark") for text in texts]
        return [MemberPlan(template=template) for template in (EMPTY_TEMPLATE, *templates)]

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        for group in groups:
            mean = group.bare.mean_reward
            if mean is not None:
                (self.hard.discard if mean else self.hard.add)(group.question_id)


def true_hints(question: Question, round: int, count: int) -> list[str]:
    """What all words of the question mean, from its answer."""
    meanings = map(int, str(question.ground_truth).split("-"))
    return [_explained(words_in(question), meanings)] * count


def random_hints(seed: int, meanings: int) -> Writer:
    """Some meanings of all words of the question, drawn anew for every rollout."""

    def write(question: Question, round: int, count: int) -> list[str]:
        rng = random.Random(f"{seed}|{question.id}|{round}")
        words = words_in(question)
        return [_explained(words, [rng.randrange(meanings) for _ in words]) for _ in range(count)]

    return write


def words_in(question: Question) -> list[int]:
    return [int(word) for word in _WORD.findall(str(question.prompt))]


def _explained(words: Sequence[int], meanings: Any) -> str:
    told = dict(zip(words, meanings, strict=True))
    return " ".join(f"w{word} means s{meaning} ." for word, meaning in told.items())


class Tally:
    """How often every template solved questions with every word, in all rollouts under it."""

    def __init__(self, words: int) -> None:
        empty = lambda: np.zeros((2, words))  # noqa: E731
        self._counts: defaultdict[str, NDArray[Any]] = defaultdict(empty)

    def count(self, rollout: Rollout, words: Sequence[int]) -> None:
        template = rollout.assignment.template
        if template is not None and template.text:
            counts = self._counts[template.text]
            for word in set(words):
                counts[0, word] += 1
                counts[1, word] += rollout.reward

    def chances(self, texts: Sequence[str]) -> NDArray[Any]:
        """Logarithms of estimated success, a row per template and a column per word; never tried: ½."""
        counts = np.array([self._counts[text] for text in texts])
        chances: NDArray[Any] = np.log((counts[:, 1] + 1) / (counts[:, 0] + 2))
        return chances


class Found:
    """The templates that a search found, and which of them is likely to solve a question."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self.texts: list[str] = []
        self._chances: NDArray[Any] = np.zeros((0, 0))

    @hookimpl
    def coevo_after_templates_assigned(
        self, cover: TemplateCover | None, result: SearchResult | None
    ) -> None:
        if result is not None:
            texts = [one.text for one in result.pool.candidates if one.text]
            self.texts = list(dict.fromkeys([*self.texts, *texts]))

    def close(self) -> None:
        """The search is over."""
        if self.texts:
            self._chances = self._tally.chances(self.texts)

    def best(self, words: Sequence[int], count: int) -> list[str]:
        """The templates of the most success on training questions with these words, best first."""
        if not self.texts:
            return []
        ranked = np.argsort(-self._chances[:, sorted(set(words))].sum(axis=1), kind="stable")
        return [self.texts[ranked[place % len(ranked)]] for place in range(count)]

    def write(self, question: Question, round: int, count: int) -> list[str]:
        return self.best(words_in(question), count) or [""] * count


class TurningOver(Inspo):
    """INSPO whose population is renewed as often, but not by weight: the oldest half goes, not the worst.

    Of instructions that joined in the same evolution any goes first. Who has children, and who joins, is
    decided as ever.
    """

    def _prune(self) -> None:
        population = self._population
        by_age = sorted(population.members, key=lambda one: (one.created, one.id))
        leaving = min(len(by_age) // 2, len(by_age) - self._settings.parents)
        gone = {one.id for one in by_age[: max(leaving, 0)] if population.seen(one.id)}
        removed = population.keep_only(one.id for one in by_age if one.id not in gone)
        if removed:
            self._tell_changed(removed=removed)


class OneTemplate(Stream):
    """The stream whose members of a group, but the bare one, run under one template, drawn for all.

    (`p2o.group_templates = "same"` is a setting of the search in waves alone.)
    """

    @hookimpl
    def coevo_plan_group(
        self, question_id: str, round: int, group: int, group_size: int
    ) -> Sequence[MemberPlan] | None:
        bare = self._settings.bare_members
        plans = super().coevo_plan_group(question_id, round, group, bare + 1)
        return None if plans is None else [*plans[:bare], *[plans[bare]] * (group_size - bare)]


TURNING_OVER: Final = Method(
    "turning-over", plugin=TurningOver, section=InspoSettings, provides=frozenset({"instruction"})
)
ONE_TEMPLATE: Final = Method(
    "one-template",
    plugin=OneTemplate,
    section=P2OSettings,
    provides=frozenset({"template"}),
    may_distil=True,
)
