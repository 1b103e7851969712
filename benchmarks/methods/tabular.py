"""Compare methods in worlds of facts whose policy is a table (tier 1), at equal cost.

`run` trains one arm until all rollouts of the world's budget are spent, training's, a search's and a
verification's together, and measures the policy at points of the budget, on new questions, greedy, without
any template, and under the method's evaluation instruction where it has one.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import outside
from numpy.typing import NDArray
from outside import ForTheHard
from store import Key
from tabular_plugins import Found, Tally, random_hints, true_hints
from tabular_world import STREAM, WAVES, WORLDS, TabularPolicy, Teacher, TeacherKind, World

from prompt_coevo import Coevolution, Method, Settings
from prompt_coevo.types import Assignment, Rollout, RolloutRequest

Course: TypeAlias = Literal["train", "search", "search, then train"]
Hints: TypeAlias = Literal["none", "random", "true"]

WORLDS_USED: Final = ("B", "C", "E")
DRAWS: Final = (0, 1, 2)
SEEDS: Final = tuple(range(100, 110))
POINTS: Final = 21
RULES: Final = 10
"""The most clauses in an instruction."""
EVOLVING: Final = 0.78
"""Evolution ends after this part of the steps that training alone could make."""

SEARCH_FIRST: Final = 1 / 3
"""The part of the budget that a search before training gets."""

INSPO: Final[Mapping[str, Any]] = {
    "instruction": "remember note",
    "paraphrase": False,
    "verify_size": 128,
    "rounds": 2,
}
SEARCH_AFTER: Final[Mapping[str, int]] = {"B": 22_800, "C": 24_200, "E": 22_100}
"""Rollouts that are kept for a search after training, by world: its mean cost on draws 10, 11 and 12."""

CALLS: Final[Mapping[str, int]] = {"B": 150, "C": 200, "E": 350}
"""The stream's number of calls with a reading teacher, rounded up, by world (template_search.json)."""


@dataclass(frozen=True)
class Arm:
    """One way to spend a budget. `methods` are those that run, with their sections.

    `settings` are those outside these sections, `knobs` change the world's teacher or budget.
    """

    label: str
    methods: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    settings: Mapping[str, Any] = field(default_factory=dict)
    teacher: TeacherKind = "explains"
    knobs: Mapping[str, Any] = field(default_factory=dict)
    budgets: int = 1
    """How many times the world's budget."""
    course: Course = "train"
    hints: Hints = "none"
    success_weight: float = 0.0
    few_calls: bool = False
    """Whether the teacher is asked no more often than one that reads."""
    instead: Mapping[str, str] = field(default_factory=dict)
    """Methods of `outside` in the place of the package's, by the names of these."""

    @property
    def after(self) -> bool:
        return self.methods.get("inspo", {}).get("evolution") == "after"


def _stream(label: str, **changes: Any) -> Arm:
    return Arm(label, {"stream": STREAM}, **changes)


def _p2o(label: str, course: Course = "train", **changes: Any) -> Arm:
    return Arm(label, {"p2o": {**WAVES, **changes}}, course=course)


def _inspo(label: str, **changes: Any) -> Arm:
    return Arm(label, {"inspo": changes})


ARMS: Final[Mapping[str, Arm]] = {
    "grpo": Arm("GRPO"),
    "grpo, 2 x": Arm("GRPO, twice the budget", budgets=2),
    "p2o": _p2o("P2O"),
    "p2o, one template": _p2o("P2O, one template a group", group_templates="same"),
    "p2o, bare": _p2o("P2O, hardness bare", hardness="bare"),
    "stream": _stream("stream"),
    "stream, one template": _stream(
        "stream, one template a group", instead={"stream": "ONE_TEMPLATE"}
    ),
    "stream, no distillation": _stream(
        "stream, without distillation", settings={"context_distillation": False}
    ),
    "stream, success weight": _stream("stream, success weight 1", success_weight=1.0),
    "stream, exact teacher": _stream("stream, a teacher that never errs", knobs={"errors": 0.0}),
    "stream, teacher errs 0.3": _stream(
        "stream, a teacher that errs in 30 %", knobs={"errors": 0.3}
    ),
    "stream, teacher errs 0.6": _stream(
        "stream, a teacher that errs in 60 %", knobs={"errors": 0.6}
    ),
    "stream, random teacher": _stream("stream, a teacher that guesses", teacher="guesses"),
    "stream, random teacher, few calls": _stream(
        "stream, a teacher that guesses, as many calls", teacher="guesses", few_calls=True
    ),
    "stream, filler teacher": _stream(
        "stream, a teacher that says nothing", teacher="says nothing"
    ),
    "random hints": Arm("random hints, no search", hints="random"),
    "true hints": Arm("hints from the answers, no search", hints="true"),
    "search only": _p2o("search on the frozen policy, no training", "search"),
    "search, then train": _p2o("search on the frozen policy, then training", "search, then train"),
    "static": _inspo("a static instruction", evolution="off"),
    "inspo": _inspo("INSPO"),
    "inspo, before": _inspo("INSPO, before training", evolution="before"),
    "inspo, after": _inspo("INSPO, after training", evolution="after"),
    "inspo, oldest leave": Arm(
        "INSPO, the oldest leave", {"inspo": {}}, instead={"inspo": "TURNING_OVER"}
    ),
    "inspo, constant": _inspo("INSPO, nobody ever leaves", prune=False),
    "inspo, no verify": _inspo("INSPO, no verification", verify="off"),
    "inspo, paraphrase": _inspo("INSPO, paraphrases", proposer="paraphrase"),
    "inspo, history": _inspo("INSPO, from the history", proposer="history"),
    "both": Arm("INSPO and stream", {"inspo": {}, "stream": STREAM}),
}


def labels() -> dict[str, str]:
    return {name: arm.label for name, arm in ARMS.items()}


def frozen() -> dict[str, Any]:
    """Return the values that determine each arm's runs, by its name, as JSON values."""
    common = {
        "worlds": {name: asdict(WORLDS[name]) for name in WORLDS_USED},
        "inspo": dict(INSPO),
        "rules": RULES,
        "evolving": EVOLVING,
        "search_after": dict(SEARCH_AFTER),
        "calls": dict(CALLS),
        "search_first": SEARCH_FIRST,
        "points": POINTS,
    }
    return {name: {"common": common, "arm": _plain(arm)} for name, arm in ARMS.items()}


def check(keys: Sequence[Key]) -> None:
    """Do nothing: all arms run with what the package needs anyway."""


def plan(arms: Sequence[str], seeds: int | None, draws: int | None) -> list[Key]:
    """Return the runs of the published table, seed by seed; or of this many seeds and draws.

    An arm whose teacher errs as the world's does is that world's `stream`, and is not run again.
    """
    return [
        (world, arm, seed, draw)
        for seed in SEEDS[: seeds or len(SEEDS)]
        for draw in DRAWS[: draws or len(DRAWS)]
        for world in WORLDS_USED
        for arm in arms
        if ARMS[arm].knobs != {"errors": WORLDS[world].errors}
    ]


def _plain(arm: Arm) -> dict[str, Any]:
    # An arm's label changes no run.
    plain = {name: getattr(arm, name) for name in arm.__dataclass_fields__ if name != "label"}
    return {
        name: dict(value) if isinstance(value, Mapping) else value for name, value in plain.items()
    }


def run(world: str, arm: str, seed: int, draw: int) -> dict[str, Any]:
    """Run once and return JSON values. `seed` decides questions and sampling, `draw` meanings."""
    logging.disable(logging.WARNING)
    began = time.process_time()
    one = _Run(world, ARMS[arm], seed, draw)
    one.go()
    policy, meter = one.policy, one.meter
    return {
        "world": world,
        "arm": arm,
        "seed": seed,
        "draw": draw,
        "budget": one.budget,
        "spent": meter.grid.tolist(),
        "curve": meter.curves(one.world),
        "words": _words(one.world, meter),
        "without": _by_kind(one.world, policy.right("")),
        **({"with_templates": one.with_templates()} if one.arm.course == "search" else {}),
        "training": policy.trained,
        "outside": policy.rollouts,
        "calls": one.teacher.calls,
        "tokens": one.teacher.tokens,
        "barriers": policy.barriers,
        "cpu_seconds": round(time.process_time() - began, 2),
    }


KINDS: Final = ("easy", "medium", "hard", "all")


def _by_kind(world: World, right: NDArray[np.bool_]) -> dict[str, float]:
    """Return the share of words that are answered right, of each kind and of all."""
    chosen = {name: world.kinds == kind for kind, name in enumerate(KINDS[:3])}
    shares = {name: right[words].mean() for name, words in chosen.items()}
    return {name: round(float(one), 4) for name, one in {**shares, "all": right.mean()}.items()}


def _words(world: World, meter: Meter) -> dict[str, tuple[str, int, float]]:
    """Return for every word: its kind, whether it is right at the end, and at which share of the points."""
    right = np.array(meter.right)
    return {
        f"w{word}": (KINDS[kind], int(right[-1, word]), round(float(right[:, word].mean()), 3))
        for word, kind in enumerate(world.kinds.tolist())
    }


class Meter:
    """Measure the policy at points of the budget, with the weights of that moment."""

    def __init__(self, policy: MeteredPolicy, budget: int) -> None:
        self._policy = policy
        self.engine: Coevolution | None = None
        self.grid = np.linspace(0, budget, POINTS).round().astype(int)
        self.right: list[NDArray[np.bool_]] = []

    def before(self, count: int) -> None:
        """Measure at the points that the next `count` rollouts pass, with the current weights."""
        passed = min(int(np.searchsorted(self.grid, self._policy.spent + count)), POINTS - 1)
        if passed > len(self.right):
            self._take(passed - len(self.right))

    def end(self) -> None:
        """Take the last points; the run ended at most a batch or a search beyond the budget."""
        self._take(POINTS - len(self.right))

    def curves(self, world: World) -> dict[str, list[float]]:
        """Return the share of words that are answered right at every point, by kind."""
        points = [_by_kind(world, right) for right in self.right]
        return {name: [point[name] for point in points] for name in KINDS}

    def _take(self, count: int) -> None:
        instruction = self.engine.evaluation_instruction() if self.engine else None
        text = instruction.text if instruction else ""
        self.right += [self._policy.right(text)] * count


class MeteredPolicy(TabularPolicy):
    """Count what was spent, and which templates solved what outside training."""

    def __init__(self, world: World, seed: int, success_weight: float, budget: int) -> None:
        super().__init__(world, seed, success_weight=success_weight)
        self.trained = 0
        self.meter = Meter(self, budget)
        self.tally = Tally(len(world.kinds))
        self.solved: set[str] = set()
        """Questions that were ever solved without a template."""

    @property
    def spent(self) -> int:
        return self.trained + self.rollouts

    def sample(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        self.meter.before(len(requests))
        rollouts = super().sample(requests)
        if not self.rate:
            for one in rollouts:
                self.tally.count(one, self._words(one.assignment.question_id))
        return rollouts

    def train(self, plan: Sequence[Assignment]) -> list[Rollout]:
        self.meter.before(len(plan))
        self.trained += len(plan)
        rollouts = super().train(plan)
        bare = (one for one in rollouts if not one.assignment.templated)
        self.solved.update(one.assignment.question_id for one in bare if one.reward)
        return rollouts

    def right_with(self, found: Found) -> NDArray[np.bool_]:
        """Tell whether each word is answered right under the template likeliest to help with it."""
        words = range(len(self._world.kinds))
        best = [(found.best([word], 1) or [""])[0] for word in words]
        right = {text: self.right(text) for text in set(best)}
        return np.array([right[text][word] for word, text in zip(words, best, strict=True)])


class _Run:
    """A run in progress."""

    def __init__(self, world: str, arm: Arm, seed: int, draw: int) -> None:
        self.arm, self._name, self._seed = arm, world, seed
        self._knobs = replace(WORLDS[world], **arm.knobs)
        self.budget = arm.budgets * self._knobs.rollouts
        self.world = World(self._knobs, draw)
        self.policy = MeteredPolicy(self.world, seed, arm.success_weight, self.budget)
        self.teacher = Teacher(self.policy, self._knobs, arm.teacher, seed, RULES)
        self.meter = self.policy.meter
        self._order = np.random.default_rng([seed, 3])
        self._found = Found(self.policy.tally)

    def go(self) -> None:
        if self.arm.course == "train":
            until = self.budget - (SEARCH_AFTER[self._name] if self.arm.after else 0)
            self._train(self._engine(self._plugins()), until)
        else:
            alone = self.arm.course == "search"
            self._search(self.budget if alone else round(SEARCH_FIRST * self.budget))
            if not alone:
                plugin = ForTheHard(
                    self._found.write, lambda question: question.id not in self.policy.solved
                )
                engine = self._engine({"found": plugin}, search=False)
                self._train(engine, self.budget)
        self.meter.end()

    def with_templates(self) -> float:
        return _by_kind(self.world, self.policy.right_with(self._found))["hard"]

    def _search(self, until: int) -> None:
        """Measure for an epoch, then search with the rest; repeat if the search ends early."""
        rate, self.policy.rate = self.policy.rate, 0.0
        measuring = self._knobs.questions * self._knobs.group
        while (left := until - self.policy.spent) > measuring:
            engine = self._engine({"found": self._found}, search_budget=left - measuring)
            self._begin(engine)
            self._epoch(engine, until)
            engine.epoch_end(self.policy)
            engine.end(self.policy)
        self._found.close()
        self.policy.rate = rate

    def _train(self, engine: Coevolution, until: int) -> None:
        """Train in whole steps until this much of the budget is spent; then end the run."""
        self._begin(engine)
        while self._epoch(engine, until):
            engine.epoch_end(self.policy)
        engine.end(self.policy)

    def _begin(self, engine: Coevolution) -> None:
        self.meter.engine = engine
        engine.begin(self.policy)

    def _epoch(self, engine: Coevolution, until: int) -> bool:
        """Train each question once; tell whether the budget allowed it."""
        policy, knobs = self.policy, self._knobs
        ids = policy.question_ids()
        shuffled = [ids[number] for number in self._order.permutation(len(ids))]
        for start in range(0, len(ids), knobs.batch):
            if policy.spent >= until:
                return False
            plan = engine.plan(shuffled[start : start + knobs.batch], knobs.group)
            policy.version = engine.policy_version
            engine.observe(policy.train(plan))
            engine.step_end(policy)
        return policy.spent < until

    def _plugins(self) -> dict[str, object]:
        if self.arm.hints == "none":
            return {}
        if self.arm.hints == "true":
            return {"hints": ForTheHard(true_hints)}
        return {"hints": ForTheHard(random_hints(self._seed, self._knobs.meanings))}

    def _engine(
        self, plugins: Mapping[str, object], *, search: bool = True, **changes: Any
    ) -> Coevolution:
        arm, sections = self.arm, dict[str, Mapping[str, Any]]()
        for name, own in arm.methods.items() if search else ():
            steps = self._knobs.rollouts // (self._knobs.batch * self._knobs.group)
            usual = {**INSPO, "evolve_until": int(EVOLVING * steps)} if name == "inspo" else {}
            sections[name] = {**usual, **own, **changes}
        values: dict[str, Any] = {"seed": self._seed, "plugins": {}, **arm.settings}
        algorithms = []
        for name, section in sections.items():
            if name in arm.instead:
                method: Method = getattr(outside, arm.instead[name])
                algorithms.append(f"outside:{arm.instead[name]}")
                values["plugins"][method.name] = dict(section)
            else:
                algorithms.append(name)
                values[name] = dict(section)
        if algorithms:
            most = {"max_calls": CALLS[self._name]} if arm.few_calls else {}
            values["reflection"] = {"function": self.teacher, **most}
        settings = Settings(algorithms=tuple(algorithms), **values)
        return Coevolution.from_settings(settings, plugins=dict(plugins))
