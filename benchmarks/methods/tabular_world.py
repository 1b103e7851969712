"""Define a world of facts with a tabular policy: the real engine searches in it, and a run takes seconds.

A question names one or more words, and is answered by what every word means. The policy has a belief
about each word, which may be wrong for a hard word, and obeys an explanation in its prompt (`dax means 3`)
with some probability. Policy gradient changes the table. The reflection model is a rule that reads the real
reflection prompts, and explains some of the failures that it is shown; it errs now and then.
"""

from __future__ import annotations

import math
import random
import re
import threading
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Final, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from prompt_coevo.types import (
    Assignment,
    Candidate,
    PolicyVersion,
    Question,
    Rollout,
    RolloutRequest,
)

Words: TypeAlias = tuple[int, ...]
Hints: TypeAlias = Mapping[int, int]
TeacherKind: TypeAlias = Literal["explains", "guesses", "says nothing", "leaks"]

_CLAUSE: Final = re.compile(r"w(\d+) means s(\d+) \.")
_FAILURE: Final = re.compile(
    r"<failure_\d+>\s*<question>(.*?)</question>\s*<response>(.*?)</response>", re.DOTALL
)
_NUMBER: Final = re.compile(r" on n(\d+)")
_PARENT: Final = re.compile(r"<current_template>(.*?)</current_template>", re.DOTALL)
_INSTRUCTION: Final = re.compile(r"<ins_0>(.*?)</ins_0>", re.DOTALL)
_WANTED: Final = re.compile(r"write (\d+) improved instructions")
_REWORDED: Final = re.compile(r"Write (\d+) other versions")
_RECOMBINED: Final = re.compile(r"write (\d+) new instructions")
_SCORED: Final = re.compile(r"<ins_(\d+)>(.*?)</ins_\1>\s*<score_\1>(\d+)</score_\1>", re.DOTALL)
_FILLERS: Final = ("note", "please", "remember", "first")
_INVENTS: Final = 0.3
_TEST_QUESTIONS: Final = 1_500


@dataclass(frozen=True)
class Knobs:
    """Set how easy or hard it is to search in a world.

    `easy`, `medium`, `hard` count words; `chances` are those of believing a word's meaning at first,
    `shares` those of a kind of word in a question. `clauses` fit into a template; the teacher explains
    `explained` failures a call, and errs in `errors` of them.
    """

    easy: int = 4
    medium: int = 4
    hard: int = 4
    meanings: int = 8
    words: int = 2
    chances: tuple[float, float, float] = (0.45, 0.05, 2e-4)
    shares: tuple[float, float, float] = (0.45, 0.2, 0.35)
    obeys: float = 0.8
    questions: int = 512
    rollouts: int = 30_000
    group: int = 6
    batch: int = 32
    clauses: int = 2
    explained: int = 2
    errors: float = 0.3


_LARGE: Final = Knobs(easy=8, medium=8, meanings=64, chances=(0.45, 0.05, 2e-5))
WORLDS: Final[Mapping[str, Knobs]] = {
    "1": Knobs(),
    "B": replace(_LARGE, hard=24, clauses=4, questions=768, rollouts=44_300),
    "C": replace(_LARGE, hard=32, questions=1_024, rollouts=42_700),
    "E": replace(_LARGE, hard=48, questions=1_024, rollouts=42_700, errors=0.6),
    "N": replace(
        _LARGE,
        medium=16,
        hard=24,
        clauses=4,
        questions=768,
        rollouts=44_300,
        chances=(0.45, 0.08, 2e-5),
        shares=(0.3, 0.35, 0.35),
        obeys=0.5,
        errors=0.5,
    ),
    "O": replace(_LARGE, hard=16, questions=2_560, rollouts=15_360),
}
"""1: the demo's. B, C, E: more facts, fewer of them in a template, a teacher that errs. N: flukes, and a
policy that obeys every other time. O: a single epoch."""

STREAM: Final[Mapping[str, Any]] = {"tau": 0.01}
WAVES: Final[Mapping[str, Any]] = {
    "tau": 0.01,
    "overspend": "never",
    "calls_per_hard": "unlimited",
    "beam_width": 4,
    "front_fill": True,
    "minibatch_size": 8,
    "dev_size": 64,
    "search_budget": 1200,
    "minibatch_temperature": 1.0,
}
"""P2O in these worlds: hard is a question on which all fail, and the paper's search is scaled."""


class World:
    """The words' meanings and the initial beliefs about them, for one draw."""

    def __init__(self, knobs: Knobs, draw: int) -> None:
        rng = np.random.default_rng(draw)
        counts = (knobs.easy, knobs.medium, knobs.hard)
        self.knobs = knobs
        self.kinds = np.repeat((0, 1, 2), counts)
        self.meanings = rng.integers(0, knobs.meanings, len(self.kinds))
        self.first_beliefs = np.full((len(self.kinds), knobs.meanings), knobs.chances[2])
        for word, meaning in enumerate(self.meanings):
            chance = knobs.chances[self.kinds[word]]
            wrong = [other for other in range(knobs.meanings) if other != meaning]
            traps = rng.permutation(wrong)[:3]
            self.first_beliefs[word, traps] += (1 - chance) * np.array([0.5, 0.3, 0.2])
            self.first_beliefs[word, meaning] = chance
        self.first_beliefs /= self.first_beliefs.sum(axis=1, keepdims=True)
        share = np.array(knobs.shares) / np.maximum(counts, 1)
        self._shares = share[self.kinds] / share[self.kinds].sum()

    def questions(self, rng: np.random.Generator, count: int) -> list[Words]:
        size = self.knobs.words
        return [tuple(rng.choice(len(self.kinds), size, p=self._shares)) for _ in range(count)]


class TabularPolicy:
    """The policy of one run: `prompt_coevo.policy.Policy`, with a trainer."""

    def __init__(
        self, world: World, seed: int, rate: float = 0.15, success_weight: float = 0.0
    ) -> None:
        """Add `success_weight` to the advantage of a distilled rollout that succeeded."""
        self._world, self._success_weight = world, success_weight
        self.rate = rate
        """The step size; 0 freezes the policy."""
        self._questions = world.questions(np.random.default_rng([seed, 1]), world.knobs.questions)
        self._test = np.array(world.questions(np.random.default_rng(99), _TEST_QUESTIONS))
        self._kinds = world.kinds[self._test].max(axis=1)
        self._random = random.Random(seed)
        self._logits = np.log(world.first_beliefs)
        self._trust = np.array([math.log(world.knobs.obeys / (1 - world.knobs.obeys))])
        self._settle()
        self._truth = world.meanings.tolist()
        self._moments: dict[str, tuple[NDArray[Any], NDArray[Any], int]] = {}
        self.version = PolicyVersion()
        self.rollouts = 0
        """Rollouts outside training."""
        self.barriers = 0
        """Batches that training waited for."""

    def question_ids(self) -> list[str]:
        return [f"q{number}" for number in range(len(self._questions))]

    def question(self, question_id: str) -> Question:
        words = self._words(question_id)
        text = f"use {' '.join(f'w{word}' for word in words)} on n{question_id[1:]}"
        meanings = self._world.meanings[list(words)]
        told = zip(words, meanings, strict=True)
        solution = " ".join(f"w{word} means s{meaning} ." for word, meaning in told)
        return Question(question_id, text, spelled(meanings), {"solution": solution})

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        self.barriers += 1
        return self.sample(requests)

    def sample(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        """Sample like `rollout`, without counting a barrier."""
        self.rollouts += len(requests)
        return [self._answered(one.assignment, one.sampling.temperature) for one in requests]

    def train(self, plan: Sequence[Assignment]) -> list[Rollout]:
        """Train one batch, with one update of the weights."""
        rollouts, size = self.answer(plan), self._world.knobs.group
        if self.rate:
            self.learn([rollouts[at : at + size] for at in range(0, len(rollouts), size)])
        return rollouts

    def answer(self, plan: Sequence[Assignment]) -> list[Rollout]:
        """Sample for training."""
        return [self._answered(assignment, None) for assignment in plan]

    def learn(self, groups: Sequence[Sequence[Rollout]]) -> None:
        """Update the weights once, with group-relative advantages on the train prompt."""
        logits, trust = np.zeros_like(self._logits), np.zeros(1)
        for group in groups:
            for rollout, advantage in zip(group, _advantages(group), strict=True):
                if advantage < 0 and rollout.assignment.unpunished(rollout.reward):
                    continue
                if self._success_weight and rollout.reward and rollout.assignment.distilled:
                    advantage += self._success_weight
                if advantage:
                    self._add_gradient(rollout, advantage, logits, trust)
        count = sum(map(len, groups))
        self._step("logits", self._logits, logits / count, self.rate)
        self._step("trust", self._trust, trust / count, 0.02)
        self._settle()

    def accuracies(self, instruction: str = "") -> tuple[float, float, float]:
        """Return greedy accuracies on new questions, under an instruction if any: easy, medium, hard."""
        right = self.right(instruction)[self._test].all(axis=1)
        easy, medium, hard = (float(right[self._kinds == kind].mean()) for kind in range(3))
        return easy, medium, hard

    def accuracy(self, instruction: str) -> float:
        """Return the greedy accuracy on new questions of all kinds, under an instruction."""
        return float(self.right(instruction)[self._test].all(axis=1).mean())

    def right(self, instruction: str) -> NDArray[np.bool_]:
        """Tell whether each word is answered right, greedy, under an instruction."""
        right: NDArray[np.bool_] = self._told(instruction).argmax(axis=1) == self._world.meanings
        return right

    def worth(self, instruction: str) -> float:
        """Return the exact mean reward of the training questions under an instruction."""
        chances = self._told(instruction)[np.arange(len(self._beliefs)), self._world.meanings]
        return float(chances[np.array(self._questions)].prod(axis=1).mean())

    # Inside

    def _settle(self) -> None:
        """Compute what follows from the weights, once per update."""
        self._beliefs = softmax(self._logits)
        self._cumulated = np.cumsum(self._beliefs, axis=1).tolist()
        self._obeys = 1 / (1 + math.exp(-self._trust[0]))

    def _told(self, instruction: str) -> NDArray[Any]:
        """Return the chances of every word's meanings under an instruction."""
        told = self._beliefs.copy()
        for word, meaning in clauses(instruction).items():
            told[word] *= 1 - self._obeys
            told[word, meaning] += self._obeys
        return told

    def _words(self, question_id: str) -> Words:
        return self._questions[int(question_id[1:])]

    def _answered(self, assignment: Assignment, temperature: float | None) -> Rollout:
        words = self._words(assignment.question_id)
        hints = hints_of(assignment.instruction, assignment.template)
        said = [self._say(word, hints, temperature == 0) for word in words]
        right = all(self._truth[word] == told for word, told in zip(words, said, strict=True))
        return Rollout(assignment, spelled(said), float(right), policy_version=self.version)

    def _say(self, word: int, hints: Hints, greedy: bool) -> int:
        trust = self._obeys
        if greedy:
            beliefs = self._beliefs[word]
            beliefs = beliefs * (1 - trust) if word in hints else beliefs.copy()
            if word in hints:
                beliefs[hints[word]] += trust
            return int(beliefs.argmax())
        if word in hints and self._random.random() < trust:
            return hints[word]
        cumulated = self._cumulated[word]
        return min(bisect_left(cumulated, self._random.random() * 0.999999), len(cumulated) - 1)

    def _add_gradient(
        self, rollout: Rollout, advantage: float, logits: NDArray[Any], trust: NDArray[Any]
    ) -> None:
        assignment, obeys = rollout.assignment, self._obeys
        template = None if assignment.distilled else assignment.template
        hints = hints_of(assignment.instruction, template)
        said = map(int, rollout.completion.split("-"))
        for word, meaning in zip(self._words(assignment.question_id), said, strict=True):
            beliefs = self._beliefs[word]
            own = 1.0
            if word in hints:
                obeyed = float(hints[word] == meaning)
                chance = (1 - obeys) * beliefs[meaning] + obeys * obeyed
                own = (1 - obeys) * beliefs[meaning] / chance
                trust += advantage * obeys * (1 - obeys) * (obeyed - beliefs[meaning]) / chance
            direction = -beliefs * own
            direction[meaning] += own
            logits[word] += advantage * direction

    def _step(self, name: str, values: NDArray[Any], gradient: NDArray[Any], rate: float) -> None:
        """Step with Adam."""
        first, second, count = self._moments.get(name, (0 * values, 0 * values, 0))
        first, second = 0.9 * first + 0.1 * gradient, 0.95 * second + 0.05 * gradient**2
        self._moments[name] = (first, second, count + 1)
        scale = np.sqrt(second / (1 - 0.95 ** (count + 1))) + 1e-4
        values += rate * first / (1 - 0.9 ** (count + 1)) / scale


class Teacher:
    """Reflect by adding explanations to the current template and forgetting old ones.

    Asked for several instructions it writes that many, with other failures each time; `rules` of them fit
    into one, as many as into a template if None. A leaking one writes a shown question beside them, with
    its answer. Without failures to read it does what the demo's does: a paraphrase has the same rules in
    another order, a history's best ones are recombined, and three times in ten a rule is invented.
    """

    def __init__(
        self,
        policy: TabularPolicy,
        knobs: Knobs,
        kind: TeacherKind,
        seed: int,
        rules: int | None = None,
    ) -> None:
        self._policy, self._knobs, self._kind, self._seed = policy, knobs, kind, seed
        self._rules = knobs.clauses if rules is None else rules
        self._lock = threading.Lock()
        self.calls = 0
        self.tokens = 0
        """Words of prompts and replies."""

    def __call__(self, prompt: str) -> str:
        reply = self._reply(prompt)
        with self._lock:
            self.calls += 1
            self.tokens += len(prompt.split()) + len(reply.split())
        return reply

    def _reply(self, prompt: str) -> str:
        if self._kind == "says nothing":
            return "<template>please note</template>"
        rng = random.Random(f"{self._seed}|{prompt}")
        if wanted := _WANTED.search(prompt):
            return _numbered(
                self._improved(prompt, _INSTRUCTION, self._rules, rng)
                for _ in range(int(wanted[1]))
            )
        if wanted := _REWORDED.search(prompt):
            parent = _INSTRUCTION.search(prompt)
            rules = clauses(parent[1] if parent else "")
            return _numbered(self._varied(dict(rules), rng) for _ in range(int(wanted[1])))
        if wanted := _RECOMBINED.search(prompt):
            scored = [(int(one[3]), clauses(one[2])) for one in _SCORED.finditer(prompt)]
            return _numbered(
                self._varied(_recombined(scored, rng), rng) for _ in range(int(wanted[1]))
            )
        return f"<template>{self._improved(prompt, _PARENT, self._knobs.clauses, rng)}</template>"

    def _improved(
        self, prompt: str, parents: re.Pattern[str], most: int, rng: random.Random
    ) -> str:
        parent = parents.search(prompt)
        known = clauses(parent[1] if parent else "")
        failures = [
            (number[1], response.strip())
            for question, response in _FAILURE.findall(prompt)
            if (number := _NUMBER.search(question))
        ]
        for failed, response in rng.sample(failures, min(self._knobs.explained, len(failures))):
            self._explain(f"q{failed}", response, known, rng)
        while len(known) > most:  # the oldest, as a rule
            del known[next(iter(known)) if rng.random() < 0.7 else rng.choice(list(known))]
        texts = [f"w{word} means s{meaning} ." for word, meaning in known.items()]
        rng.shuffle(texts)
        if self._kind == "leaks" and failures:
            shown = self._policy.question(f"q{failures[0][0]}")
            texts.append(f"{shown.prompt} is {shown.ground_truth} .")
        return " ".join([*texts, "note"])

    def _varied(self, rules: dict[int, int], rng: random.Random) -> str:
        """Return the rules in any order, with some filler words and now and then an invented rule."""
        knobs = self._knobs
        if rng.random() < _INVENTS:
            word = rng.randrange(knobs.easy + knobs.medium + knobs.hard)
            rules[word] = rng.randrange(knobs.meanings)
        while len(rules) > self._rules:
            del rules[rng.choice(list(rules))]
        parts = [f"w{word} means s{rules[word]} ." for word in rng.sample(list(rules), len(rules))]
        for _ in range(rng.randrange(4)):
            parts.insert(rng.randint(0, len(parts)), rng.choice(_FILLERS))
        return " ".join(parts)

    def _explain(
        self, question_id: str, response: str, known: dict[int, int], rng: random.Random
    ) -> None:
        question = self._policy.question(question_id)
        words = [int(word) for word in re.findall(r"w(\d+)", str(question.prompt))]
        truth = map(int, str(question.ground_truth).split("-"))
        wrong = self._kind == "guesses" or rng.random() < self._knobs.errors
        said = map(int, response.split("-"))
        for word, used, meaning in zip(words, said, truth, strict=True):
            told = rng.randrange(self._knobs.meanings) if wrong else meaning
            if used != told:
                known.pop(word, None)
                known[word] = told


def _recombined(scored: Sequence[tuple[int, Hints]], rng: random.Random) -> dict[int, int]:
    """Return the best instruction with some rules of two others that did well."""
    ranked = [rules for _, rules in sorted(scored, key=lambda entry: -entry[0])[:6]]
    rules = dict(ranked[0]) if ranked else {}
    for other in rng.sample(ranked, min(2, len(ranked))):
        rules |= {word: told for word, told in other.items() if rng.random() < 0.5}
    if rules and rng.random() < 0.5:
        del rules[rng.choice(list(rules))]
    return rules


def _numbered(texts: Iterable[str]) -> str:
    return "\n".join(f"<ins_{n}>{text}</ins_{n}>" for n, text in enumerate(texts, 1))


def clauses(text: str) -> dict[int, int]:
    """Return what a template explains: word to meaning."""
    return dict(_read(text))


@lru_cache(10_000)
def _read(text: str) -> tuple[tuple[int, int], ...]:
    return tuple((int(word), int(meaning)) for word, meaning in _CLAUSE.findall(text))


def hints_of(*texts: Candidate | None) -> dict[int, int]:
    """Return what an instruction and a template explain together; the template wins."""
    return {word: told for text in texts if text for word, told in _read(text.text)}


def _advantages(group: Sequence[Rollout]) -> list[float]:
    rewards = np.array([rollout.reward for rollout in group])
    advantages: list[float] = ((rewards - rewards.mean()) / (rewards.std(ddof=1) + 1e-4)).tolist()
    return advantages


def spelled(meanings: Sequence[int] | NDArray[Any]) -> str:
    return "-".join(str(meaning) for meaning in meanings)


def softmax(logits: NDArray[Any]) -> NDArray[Any]:
    exponents = np.exp(logits - logits.max(axis=-1, keepdims=True))
    softened: NDArray[Any] = exponents / exponents.sum(axis=-1, keepdims=True)
    return softened
