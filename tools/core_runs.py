"""Run the engine in small without a trainer: a tabular policy and a scripted model."""

from __future__ import annotations

import json
import re
import sys
import threading
import zlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import cycle, pairwise
from pathlib import Path
from typing import Any

from helpers.misbehaviour import MISBEHAVIOURS, for_instructions
from prompt_coevo import Assignment, Coevolution, Question, Rollout, RolloutRequest, Settings

# The method is no part of the package.
sys.path.append(str(Path(__file__).resolve().parent.parent / "docs/plugins/gepa"))

QUESTIONS, FAMILIES, GROUP = 24, 6, 3
EPOCHS, STEPS_PER_EPOCH = 3, 3
STEPS = EPOCHS * STEPS_PER_EPOCH


@dataclass
class TablePolicy:
    """Solve "what is 9?" under a text that names k3, for 9 is 3 modulo 6; otherwise a checksum is the
    reward. It never learns. `asked` keeps the engine's requests."""

    broken_at: int | None
    asked: list[list[str]] = field(default_factory=list)

    def question_ids(self) -> Sequence[str]:
        return [f"q{n}" for n in range(QUESTIONS)]

    def question(self, question_id: str) -> Question:
        number = question_id.removeprefix("q")
        return Question(question_id, f"what is {number}?", f"the answer to {number}")

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        self.asked.append([f"{told(r.assignment)} {r.sampling.temperature}" for r in requests])
        if len(self.asked) == self.broken_at:
            raise RuntimeError("the sampler is gone")
        return [self.answer(request.assignment) for request in requests]

    def answer(self, assignment: Assignment) -> Rollout:
        texts = [one.text for one in (assignment.instruction, assignment.template) if one]
        if f"k{int(assignment.question_id[1:]) % FAMILIES}" in " ".join(texts).split():
            return Rollout(assignment, "right", 1.0)
        chance = zlib.crc32(repr((assignment.question_id, assignment.member, texts)).encode())
        status: Any = "ok" if chance % 40 else "aborted"
        return Rollout(assignment, f"wrong {chance % 7}", chance % 4 / 10, status)


def told(assignment: Assignment) -> str:
    """Return question, instruction and template, and a checksum of everything in the assignment."""
    ids = [one.id if one else "-" for one in (assignment.instruction, assignment.template)]
    made: list[Any] = [assignment.to_json()]
    for prompt in ("x", [{"role": "user", "content": "x"}]):
        made += [assignment.rollout_prompt(prompt), assignment.train_prompt(prompt)]
    return f"{assignment.question_id} {ids} {zlib.crc32(json.dumps(made).encode()):08x}"


def teacher(prompt: str) -> str:
    """Add keys of the shown questions to the parent; without questions, other words."""
    shown = re.findall(r"what is (\d+)\?", prompt)
    keys = list(dict.fromkeys(f"k{int(n) % FAMILIES}" for n in shown))
    if "<current_template>" in prompt:
        (parent,) = re.findall(r"<current_template>\n(.*?)\n</current_template>", prompt, re.DOTALL)
        # Few keys, so that templates differ in whom they help.
        return f"<template>{' '.join([*parent.split()[-1:], *keys[:2]]) or 'no idea'}</template>"
    parents = re.findall(r"<ins_0>\n(.*?)\n</ins_0>", prompt, re.DOTALL) or ["anew"]
    words = [*keys, "always", "now", f"word{zlib.crc32(prompt.encode()) % 9}"]
    return "\n".join(f"<ins_{n}>{parents[0]} {word}</ins_{n}>" for n, word in enumerate(words, 1))


def misbehaving() -> Callable[[str], Any]:
    """Return a teacher that does well every third time, and otherwise misbehaves as in the tests' table."""
    kinds = [kind for kind in MISBEHAVIOURS if kind.reason and "required" not in kind.name]
    answers = [answer for kind in kinds for answer in kind.answers]
    bad = cycle([*(one for one in answers if isinstance(one, str) or callable(one)), None])
    turn = cycle(range(3))

    def reply(prompt: str) -> Any:
        if next(turn) == 0:
            return teacher(prompt)
        answer = next(bad)
        if answer is None:
            raise RuntimeError("no reply today")
        answer = answer({"messages": [{"content": prompt}]}) if callable(answer) else answer
        return for_instructions(answer) if "<ins_0>" in prompt else answer

    return reply


@dataclass(frozen=True)
class Run:
    """Settings; a model factory; the steps (a repeated step means a resume); the sampler's call at which it
    breaks down; and whether the model runs in the background."""

    settings: dict[str, Any]
    model: Callable[[], Callable[[str], Any]] = lambda: teacher
    steps: Sequence[int] = range(1, STEPS + 1)
    broken_at: int | None = None
    background: bool = False


def p2o(**changes: Any) -> dict[str, Any]:
    small = {"minibatch_size": 2, "dev_size": 5, "search_budget": 150, "overspend": "never"}
    return {"algorithms": "p2o", "p2o": {**small, **changes}}


def inspo(*first: str, **changes: Any) -> dict[str, Any]:
    small = {"population_size": 5, "verify_size": 6, "rounds": 2, "candidates_per_call": 3}
    often = {"prune_every": 2, "evolve_every": 3, "evolve_until": STEPS}
    start: dict[str, Any] = {"initial_population": ("start", "k0 perhaps", "k1 or not")}
    if first:
        start = {"instruction": "start <think>here</think>"}
    return {"algorithms": ("inspo",), "inspo": {**small, **often, **start, **changes}}


OVERLAPPED = inspo("one", reflection="overlapped", overlap_steps=2)
BOTH = {
    **inspo(),
    "p2o": p2o(tau=0.9)["p2o"],
    "algorithms": "inspo,p2o",
    "placement": {"instruction": "prefix"},
}
MANY_REPLIES = p2o(beam_width=4, front_fill=True, search_budget=400)
EVERY_STEP = {"prune_every": 1, "evolve_every": 1, "rounds": 4}
KILLED = [1, 2, 3, 4, 5, 6, 7, *range(5, STEPS + 1)]
STRICT = {"gates": {"leak_ngram": 3}}
RUNS = {
    "core-p2o-waves": Run(p2o(beam_width=3)),
    "core-p2o-front-fill-literal": Run(p2o(beam_width=4, front_fill=True, overspend="literal")),
    "core-p2o-same-template": Run(p2o(group_templates="same")),
    "core-p2o-by-steps-undistilled": Run({**p2o(search_every=2), "context_distillation": False}),
    "core-p2o-gepa": Run({**p2o(), "algorithms": ("p2o", "prompt_coevo_gepa:METHOD")}),
    "core-stream": Run({}, background=True),
    "core-p2o-resumed": Run(p2o(), steps=KILLED),
    "core-p2o-misbehaving": Run({**MANY_REPLIES, **STRICT}, misbehaving),
    "core-p2o-broken-sampler": Run(p2o(), broken_at=3),
    "core-inspo-online": Run(inspo("one")),
    "core-inspo-history": Run(inspo(proposer="history", parents=2, child_weight="zero")),
    "core-inspo-overlapped": Run(OVERLAPPED, background=True),
    "core-inspo-overlapped-resumed": Run(OVERLAPPED, steps=KILLED, background=True),
    "core-inspo-before": Run(inspo(evolution="before")),
    "core-inspo-after": Run(inspo(evolution="after")),
    "core-inspo-no-prune-no-verify": Run(inspo(prune=False, verify="off", population_size=9)),
    "core-inspo-misbehaving": Run({**inspo(**EVERY_STEP), **STRICT}, misbehaving),
    "core-both": Run(BOTH),
    "core-both-resumed": Run(BOTH, steps=KILLED),
}


class Answers:
    """Deliver background answers between two calls of the engine: otherwise threads would decide the order
    of the journal, and whether a reply is in a state."""

    def __init__(self) -> None:
        self._others = set(threading.enumerate())
        self._may_come = threading.Event()

    def late(self, model: Callable[[str], Any]) -> Callable[[str], Any]:
        def reply(prompt: str) -> Any:
            if threading.current_thread() is not threading.main_thread():
                self._may_come.wait()
            return model(prompt)

        return reply

    def let_in(self) -> None:
        self._may_come.set()
        for thread in set(threading.enumerate()) - self._others:
            thread.join()
        self._may_come.clear()


def record(name: str, folder: Path, seed: int) -> dict[str, list[Any]]:
    """Train in the folder, every epoch with each question once; save the state after every step."""
    run, model, answers = RUNS[name], RUNS[name].model(), Answers()
    function = answers.late(model) if RUNS[name].background else model
    settings = Settings(**run.settings, reflection={"function": function}, seed=seed)
    policy, saved = TablePolicy(run.broken_at), dict[int, Any]()
    seen: dict[str, list[Any]] = {"plans": [], "states": [], "metrics": [], "asked": policy.asked}
    for before, step in pairwise([STEPS, *run.steps]):
        if step <= before:
            engine = Coevolution.from_settings(settings, output_dir=folder)
            if step in saved:
                engine.load_state_dict(saved[step - 1])
            engine.begin(policy)
            answers.let_in()
        if step % STEPS_PER_EPOCH == 1 and step > 1:
            engine.epoch_end(policy)
        plan = engine.plan(policy.question_ids()[step % STEPS_PER_EPOCH :: STEPS_PER_EPOCH], GROUP)
        engine.observe([policy.answer(assignment) for assignment in plan])
        engine.step_end(policy, last=step == STEPS)
        answers.let_in()
        saved[step] = json.loads(json.dumps(engine.state_dict()))
        seen["plans"].append([told(assignment) for assignment in plan])
        seen["states"].append(saved[step])
        seen["metrics"].append(engine.metrics())
    engine.end(policy)
    return seen
