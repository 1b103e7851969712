"""Gates, plugins and rewards that the laws of algorithms run a method with, and checks of its plans and
metrics."""

from __future__ import annotations

import json
import math
import random
from collections.abc import Collection, Sequence
from itertools import groupby

import numpy as np

from prompt_coevo.markers import hookimpl
from prompt_coevo.testing.scripted_run import Run
from prompt_coevo.testing.scripted_world import (
    QUESTIONS,
    Reply,
    Verdict,
    digest,
    rule,
    texts_of,
)
from prompt_coevo.types import (
    EMPTY_TEMPLATE,
    Assignment,
    Candidate,
    Group,
    MemberPlan,
    Rollout,
)

_BARELY = 2.0**-30
SIZES = (1, 2, 3, 8)
UNFIT: tuple[Verdict, ...] = (
    (0.0, "tool_error"),
    (1.0, "tool_error"),
    (1.0, "aborted"),
    (0.0, "no_reward"),
    (math.nan, "no_reward"),
    (math.nan, "ok"),
    (math.inf, "ok"),
)
REPLIES = (
    "",
    "I would rather not.",
    "<template>a<template>b</template></template><ins_1><ins_1>c</ins_1></ins_1>",
    "<template></template><ins_1></ins_1>",
    "</current_template></ins_0><failure_1>\x00\u202e\ud800 {{failures}} %s",
    "<template>" + "very " * 40_000 + "</template>",
)


class Gate:
    """Refuse all candidates that are not the method's own, or every other one, or none."""

    def __init__(self, own: set[str], answer: str) -> None:
        self.asked: set[str] = set()
        self.refused: set[str] = set()
        self._own = own
        self._answer = answer

    @hookimpl
    def coevo_check_candidate(self, candidate: Candidate) -> str | None:
        self.asked.add(candidate.text)
        if self._answer == "listen":
            return None
        spared = self._answer == "refuse some" and digest(candidate.text) % 2
        if candidate.text in self._own or not candidate.text or spared:
            return None
        self.refused.add(candidate.text)
        if self._answer == "raise":
            raise RuntimeError("this gate is broken")
        return "refused by a law"


class Bystander:
    """Provide empty parts where the method provides none, and count groups."""

    def __init__(self, parts: Collection[str]) -> None:
        instruction = None if "instruction" in parts else Candidate("", "instruction")
        self._plan = MemberPlan(instruction, None if "template" in parts else EMPTY_TEMPLATE)
        self._groups = 0

    @hookimpl
    def coevo_plan_group(self, group_size: int) -> list[MemberPlan]:
        return [self._plan] * group_size

    @hookimpl(trylast=True)
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        self._groups += len(groups)

    @hookimpl
    def coevo_state(self) -> dict[str, int]:
        return {"groups": self._groups}

    @hookimpl
    def coevo_metrics(self) -> dict[str, float]:
        return {"groups": float(self._groups)}


def nothing(run: Run) -> None: ...


def saved(run: Run) -> tuple[int, int, str]:
    """Return the number of plans and requests so far, and the state as JSON text."""
    return len(run.plans), len(run.policy.asked), json.dumps(run.state(), sort_keys=True)


def candidates(run: Run) -> list[Candidate]:
    planned = [one for plan in run.assignments for one in plan]
    found = [part for one in planned for part in (one.instruction, one.template)]
    return [candidate for candidate in found if candidate is not None]


def check_plans(run: Run) -> None:
    """Check that there is one valid assignment per rollout, whatever the size of the groups."""
    assert run.plan([]) == [], "there is a plan for no questions"
    for size in SIZES:
        ids = [*QUESTIONS, next(iter(QUESTIONS))]
        plan = run.plan(ids, size)
        asked = [(one, member) for one in ids for member in range(size)]
        planned = [(one.question_id, one.member) for one in plan]
        assert planned == asked, f"groups of {size} rollouts were not planned one by one"
        for assignment in plan:
            check_assignment(assignment)
    chosen = run.engine.evaluation_instruction()
    assert chosen is None or chosen.kind == "instruction", f"{chosen} is no instruction"


def check_assignment(assignment: Assignment) -> None:
    for kind in ("instruction", "template"):
        candidate = getattr(assignment, kind)
        if candidate is not None:
            assert candidate.kind == kind, f"the {kind} of a plan is a {candidate.kind}"
            assert isinstance(candidate.text, str), f"the text of a candidate is {candidate.text!r}"
    prompt = QUESTIONS[assignment.question_id].prompt
    for placed in (assignment.rollout_prompt(prompt), assignment.train_prompt(prompt)):
        assert isinstance(placed, str) == isinstance(prompt, str), "a chat became a text"


def check_metrics(run: Run) -> None:
    for plugin, metrics in run.metrics.items():
        for name, value in metrics.items():
            assert isinstance(name, str), f"the metric {name!r} of {plugin!r} has no name"
            finite = isinstance(value, (int, float)) and math.isfinite(value)
            assert finite, f"the metric {name!r} of {plugin!r} is {value!r}, no finite number"


def global_randomness() -> str:
    state = np.random.get_state(legacy=False)["state"]
    return repr((random.getstate(), state["pos"], state["key"].tolist()))


def by_digest(rollout: Rollout) -> int:
    one = rollout.assignment
    return digest(one.round, one.group, one.member)


def last_group_first(rollouts: list[Rollout]) -> list[list[Rollout]]:
    groups = groupby(rollouts, key=lambda rollout: rollout.assignment.group)
    return [list(group) for _, group in groups][::-1]


def unfit(assignment: Assignment, verdict: Verdict, every: int) -> Verdict:
    """Judge by the rule, but make some rollouts unfit: whole groups, all members but one, or one."""
    question, member = assignment.question_id, assignment.member
    chosen = (
        digest("group", question) % every == 0
        or (digest("most", question) % every == 0 and member != 1)
        or digest(question, member, *texts_of(assignment)) % every == 0
    )
    return verdict if chosen else rule(assignment)


def unfit_trials(assignment: Assignment, verdict: Verdict, salt: int) -> Verdict:
    """Judge by the rule, but make a third of the policy rollouts unfit: a parent's, a child's, or both."""
    chosen = digest(salt, assignment.question_id, *texts_of(assignment)) % 3 == 0
    return verdict if chosen else rule(assignment)


def is_lost(assignment: Assignment) -> bool:
    return assignment.group in (1, 4)


def without_lost(rollouts: list[Rollout]) -> list[Rollout]:
    return [rollout for rollout in rollouts if not is_lost(rollout.assignment)]


def lost(assignment: Assignment, verdict: Verdict) -> Verdict:
    return verdict if is_lost(assignment) else rule(assignment)


def barely_more(assignment: Assignment) -> Verdict:
    reward, status = rule(assignment)
    return reward or _BARELY, status


def by_texts(assignment: Assignment, salt: int) -> Verdict:
    """Judge half of the questions by their instruction and template."""
    if digest(assignment.question_id) % 2:
        return digest(salt, *texts_of(assignment)) % 8 / 8, "ok"
    return rule(assignment)


def raising(prompt: str) -> str:
    raise RuntimeError("the reflection model is down")


def no_text(prompt: str) -> str:
    return None  # type: ignore[return-value]


def always(text: str) -> Reply:
    return lambda prompt: text
