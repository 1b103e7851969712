"""Drive an engine with INSPO as an adapter does, for `tests/core/algorithms/inspo`."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from prompt_coevo import Coevolution
from prompt_coevo.engine.state import plugin_states
from prompt_coevo.types import Assignment, Rollout, RolloutRequest, Sampling

SEVEN = ("a", "b", "c", "d", "e", "f", "g")
WORTH = dict(zip(SEVEN, (0.1, 0.7, 0.3, 0.6, 0.2, 0.5, 0.4), strict=True))


def tagged(texts: Iterable[str]) -> str:
    return "\n".join(f"<ins_{n}>{text}</ins_{n}>" for n, text in enumerate(texts, 1))


def teacher(prompt: str) -> str:
    """Add the key of a shown question to the instruction; without failures, paraphrase it."""
    parent = re.findall(r"<ins_0>\n(.*?)\n</ins_0>", prompt, re.DOTALL)[0]
    asked = re.findall(r"[Ww]rite (\d+) ", prompt)[0]
    additions = [f"k{n}" for n in re.findall(r"what is (\d+)\?", prompt)]
    additions = additions or [f"wording{n}" for n in range(9)]
    return tagged(f"{parent} {addition}" for addition in additions[: int(asked)])


def worth(table: dict[str, float]) -> Callable[[Assignment], float]:
    def judge(assignment: Assignment) -> float:
        assert assignment.instruction is not None
        return table.get(assignment.instruction.text, 0.0)

    return judge


@dataclass
class Run:
    """An adapter without a trainer."""

    engine: Coevolution
    policy: Any
    folder: Path
    judge: Callable[[Assignment], float] | None = None
    plans: list[list[Assignment]] = field(default_factory=list)

    def step(self, size: int = 1, last: bool = False, groups: int | None = None) -> None:
        """Run every question, or the first `groups`, in a group of `size`; then update the weights."""
        plan = self.engine.plan(sorted(self.policy.questions)[:groups], size)
        self.plans.append(plan)
        self.engine.observe([self.rollout(assignment) for assignment in plan])
        self.engine.step_end(self.policy, last=last)
        if last:
            self.engine.end(self.policy)

    def rollout(self, assignment: Assignment) -> Rollout:
        if self.judge is not None:
            return Rollout(assignment, "text", self.judge(assignment))
        answer: Rollout = self.policy.answer(RolloutRequest(assignment, Sampling()))
        return answer

    def steps(self, count: int, **arguments: Any) -> None:
        for _ in range(count):
            self.step(**arguments)

    @property
    def choices(self) -> list[tuple[int, str, str]]:
        """Return which question ran under which instruction, in all plans."""
        return [
            (a.round, a.question_id, a.instruction.text)
            for plan in self.plans
            for a in plan
            if a.instruction
        ]

    @property
    def state(self) -> dict[str, Any]:
        return plugin_states(self.checkpoint())["inspo"]  # type: ignore[no-any-return]

    def checkpoint(self) -> dict[str, Any]:
        return json.loads(json.dumps(self.engine.state_dict(), sort_keys=True))  # type: ignore[no-any-return]

    @property
    def population(self) -> list[str]:
        return [entry["instruction"]["text"] for entry in self.state["population"]]

    def window(self, text: str) -> list[float]:
        return self._entry(text)["window"]  # type: ignore[no-any-return]

    def prior(self, text: str) -> float:
        return self._entry(text)["prior"]  # type: ignore[no-any-return]

    def _entry(self, text: str) -> dict[str, Any]:
        (entry,) = [e for e in self.state["population"] if e["instruction"]["text"] == text]
        return entry

    def events(self, *kinds: str) -> list[dict[str, Any]]:
        lines = (self.folder / "coevo/events.jsonl").read_text("utf-8").splitlines()
        return [event for line in lines if (event := json.loads(line))["event"] in kinds]

    @property
    def skipped(self) -> list[str]:
        return [event["reason"] for event in self.events("evolution_skipped")]

    def metric(self, name: str) -> float:
        return self.engine.metrics()[f"coevo/{name}"]


DECISIONS = (
    "instruction_weights",
    "population_changed",
    "candidate_checked",
    "candidate_verified",
    "evolution_skipped",
    "population_not_full",
    "reflection_dropped",
)


def decisions(run: Run) -> list[dict[str, Any]]:
    """Return the journal's decisions about a run, without time and attempt."""
    return [
        {name: value for name, value in event.items() if name not in ("time", "attempt")}
        for event in run.events(*DECISIONS)
    ]
