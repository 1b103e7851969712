"""Compare a run's verdict with the truth, in worlds of facts whose policy is a table.

    python benchmarks/verdict.py run [--seeds N] [--jobs N] [--cases A,B]
    python benchmarks/verdict.py trl [--seeds N]       the demo's world and transformer, needs TRL
    python benchmarks/verdict.py table
    python benchmarks/verdict.py power     how often an effect is detected, by the number of groups

A run writes a line to benchmarks/results/verdict.jsonl; one that is there is not repeated. The truth is
exact: the chance that the final policy answers right without a template, averaged over the words that may
have had one and that were found hard, less the same of GRPO with the same seed, which has no templates.
"""

from __future__ import annotations

import argparse
import json
import logging
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

import numpy as np
from methods.tabular_world import Knobs, TabularPolicy, Teacher, World
from numpy.typing import NDArray

from prompt_coevo import Coevolution, Settings
from prompt_coevo.algorithms.hard_questions.verdict import Shares, difference, wilson

HERE: Final = Path(__file__).resolve().parent
_DRAWS: Final = 20_000
RESULTS: Final = HERE / "results" / "verdict.jsonl"
_WORDS: Final = "consider every part of what is asked with calm attention and great care"
_SKILLS: Final = Knobs(
    easy=8,
    medium=8,
    hard=48,
    meanings=64,
    words=1,
    clauses=4,
    questions=768,
    rollouts=44_300,
    chances=(0.45, 0.05, 2e-5),
    shares=(0.2, 0.2, 0.6),
)
"""Questions share words: what is learned about one serves all questions with it."""
EACH: Final = replace(_SKILLS, easy=16, medium=16, hard=480, questions=512, clauses=2)
"""Each question has a unique word: its explanation is the answer, and serves no other question."""


def random_words(prompt: str) -> str:
    """Act as a teacher with meaningless templates, each different."""
    rng = random.Random(prompt)
    return f"<template>{' '.join(rng.choices(_WORDS.split(), k=8))}</template>"


@dataclass(frozen=True)
class Case:
    """A world, whether its teacher reads what failed (else it writes random words), and the share of hard
    questions to compare with."""

    label: str
    knobs: Knobs
    reads: bool = True
    comparison: float | str = 0.4


CASES: Final[Mapping[str, Case]] = {
    "helps": Case("a teacher that helps, errs in 30 %", _SKILLS),
    "helps, errs 60 %": Case("a teacher that errs in 60 %", replace(_SKILLS, errors=0.6)),
    "random": Case("a teacher of random words", _SKILLS, reads=False),
    "leaks": Case("a teacher that gives answers away", EACH, comparison="auto"),
    "leaks, 0.4": Case("the same, comparison 0.4", EACH),
    "no hard question": Case("no hard question", replace(_SKILLS, hard=0, medium=0, easy=64)),
    "medium": Case(
        "random words, most questions of medium difficulty",
        replace(_SKILLS, medium=48, hard=8, shares=(0.2, 0.6, 0.2)),
        reads=False,
    ),
    "two words": Case("a teacher that helps; a question has two words", replace(_SKILLS, words=2)),
}


def one_run(case: str, seed: int) -> dict[str, Any]:
    """Run `stream` and GRPO with the same seed; return JSON values."""
    logging.disable(logging.WARNING)
    began = time.process_time()
    told = CASES[case]
    world = (Apart if told.knobs.questions == len(World(told.knobs, 0).kinds) else World)(
        told.knobs, seed
    )
    alone, _ = _trained(world, seed, None)
    policy, engine = _trained(world, seed, told)
    metrics = engine.metrics() if engine else {}
    words = _templated_words(engine, policy)
    effect = [metrics.get(f"coevo/{name}") for name in ("effect", "effect_low", "effect_high")]
    return {
        "case": case,
        "seed": seed,
        "verdict": _word(effect),
        "effect": effect,
        "groups": _groups(engine),
        "truth": _mean(_right(policy, world) - _right(alone, world), words),
        "truth_all_hard": _mean(_right(policy, world) - _right(alone, world), world.kinds == 2),
        "hard": metrics.get("coevo/hard_so_far"),
        "solved": metrics.get("coevo/hard_solved_since"),
        "cpu_seconds": round(time.process_time() - began, 1),
    }


def _groups(engine: Coevolution | None) -> list[list[float]] | None:
    """Return success and groups of questions that may have templates, and of the comparison group."""
    plugin: Any = engine.context.plugins._manager.get_plugin("stream") if engine else None
    compared = plugin._verdict.compared if plugin else None
    sides = (compared.used, compared.never) if compared else ()
    return [list(one) for one in sides if one] or None


def _word(effect: Sequence[float | None]) -> str:
    _, low, high = effect
    if low is None or high is None or low <= 0 <= high:
        return "cannot be told"
    return "helped" if low > 0 else "did harm"


def _right(policy: TabularPolicy, world: World) -> NDArray[np.float64]:
    """Return the chance of the right answer without a template, by word."""
    beliefs: NDArray[np.float64] = policy._beliefs
    return beliefs[np.arange(len(beliefs)), world.meanings]


def _mean(values: NDArray[np.float64], words: NDArray[np.bool_]) -> float | None:
    return round(float(values[words].mean()), 4) if words.any() else None


def _templated_words(engine: Coevolution | None, policy: TabularPolicy) -> NDArray[np.bool_]:
    """Return the words of hard questions that may have had templates, but were never shown."""
    found = np.zeros(len(policy._beliefs), dtype=bool)
    if engine is None:
        return found
    plugin: Any = engine.context.plugins._manager.get_plugin("stream")
    comparison, numbers = plugin._comparison, plugin._numbers
    for name, outcome in plugin._results.outcomes:
        number = numbers[name]
        if outcome.hard and not comparison.compares(number) and comparison.unshown(number):
            found[list(policy._words(name))] = True
    return found


def _trained(
    world: World, seed: int, case: Case | None
) -> tuple[TabularPolicy, Coevolution | None]:
    """Return a policy trained for the world's budget, with the stream or alone."""
    knobs = world.knobs
    policy = TabularPolicy(world, seed)
    values: dict[str, Any] = {"seed": seed, "algorithms": ()}
    if case is not None:
        teacher = Teacher(policy, knobs, "explains", seed) if case.reads else random_words
        values["algorithms"] = ("stream",)
        values["stream"] = {"comparison": case.comparison}
        values["reflection"] = {"function": teacher}
    engine = Coevolution.from_settings(Settings(**values))
    engine.begin(policy)
    order, spent = np.random.default_rng([seed, 3]), 0
    while spent < knobs.rollouts:
        ids = policy.question_ids()
        shuffled = [ids[number] for number in order.permutation(len(ids))]
        for start in range(0, len(ids), knobs.batch):
            plan = engine.plan(shuffled[start : start + knobs.batch], knobs.group)
            policy.version = engine.policy_version
            engine.observe(policy.train(plan))
            engine.step_end(policy)
            spent += len(plan)
        engine.epoch_end(policy)
    engine.end(policy)
    return policy, engine if case is not None else None


class Apart(World):
    """A world in which no two training questions share a word."""

    def questions(self, rng: np.random.Generator, count: int) -> list[tuple[int, ...]]:
        if count != len(self.kinds):
            return super().questions(rng, count)
        return [(int(word),) for word in rng.permutation(count)]


TRL: Final[Mapping[str, str]] = {
    "TRL, helps": "reasoning",
    "TRL, random": "filler",
}
"""Teachers of the demo's world, where a question has one word, of which 24 are hard."""


def trl_run(case: str, seed: int) -> dict[str, Any]:
    """Run the demo's `stream` under TRL. The truth is its accuracy on all hard words in new questions, also
    of those without templates; GRPO answers none."""
    from prompt_coevo.demo.arms import Arm
    from prompt_coevo.demo.job import Job
    from prompt_coevo.demo.teacher import teacher
    from prompt_coevo.demo.train import train
    from prompt_coevo.report.reading import read_run

    values = {"ground_truth_column": "answer", "stream": {"tau": 0.01, "comparison": 0.4}}
    with tempfile.TemporaryDirectory() as folder:
        asked = {"function": teacher(TRL[case], seed=seed)}
        job = Job("stream", Arm("stream", values), seed, Path(folder), reflection=asked)
        result = train(job, lambda spent, accuracy: None)
        ending = read_run(Path(folder) / "coevo").ending
    found = ending.findings["stream"] if ending else {}
    effect = found.get("effect") or {"value": None, "low": None, "high": None}
    return {
        "case": case,
        "seed": seed,
        "verdict": found.get("verdict", "cannot be told"),
        "effect": list(effect.values()),
        "truth": round(result.curve("hard")[-1], 4),
        "hard": found.get("hard"),
        "solved": found.get("solved_without_a_template"),
        "cpu_seconds": result.cpu_seconds,
    }


# Runs and the table


def _known() -> list[dict[str, Any]]:
    if not RESULTS.exists():
        return []
    return [json.loads(line) for line in RESULTS.read_text("utf-8").splitlines()]


def _run(
    cases: Sequence[str], seeds: int, jobs: int, one: Callable[[str, int], dict[str, Any]] = one_run
) -> None:
    known = {(line["case"], line["seed"]) for line in _known()}
    missing = [(case, seed) for seed in range(seeds) for case in cases if (case, seed) not in known]
    with ProcessPoolExecutor(jobs) as pool, RESULTS.open("a", encoding="utf-8") as file:
        for line in pool.map(one, *zip(*missing, strict=True)) if missing else ():
            print(json.dumps(line), file=file, flush=True)


def table() -> Iterator[str]:
    """Yield the rows of the page, as Markdown."""
    yield "| teacher | runs | truth | helped | cannot be told | did harm | false |"
    yield "|---|---|---|---|---|---|---|"
    runs = _known()
    labels = {name: case.label for name, case in CASES.items()} | {name: name for name in TRL}
    for name, label in labels.items():
        of_case = [one for one in runs if one["case"] == name]
        if not of_case:
            continue
        words = [one["verdict"] for one in of_case]
        truths = [one["truth"] for one in of_case if one["truth"] is not None]
        truth = (
            f"{np.mean(truths):+.2f} ({min(truths):+.2f} to {max(truths):+.2f})" if truths else "-"
        )
        counts = " | ".join(
            str(words.count(word)) for word in ("helped", "cannot be told", "did harm")
        )
        yield f"| {label} | {len(words)} | {truth} | {counts} | {_false(of_case)} |"


def _false(runs: Sequence[Mapping[str, Any]]) -> str:
    """Return how many verdicts have the wrong sign, with Wilson's interval."""
    wrong = sum(
        (one["verdict"] == "helped" and (one["truth"] or 0.0) <= 0)
        or (one["verdict"] == "did harm" and (one["truth"] or 0.0) >= 0)
        for one in runs
    )
    low, high = wilson(wrong / len(runs), len(runs), 1.96)
    return f"{wrong} ({low:.1%} to {high:.1%})"


def power() -> Iterator[str]:
    """Yield how often the verdict is "helped": one question a group, 0.1 of the groups compared, 0.2 of the
    questions never shown."""
    effects = (0.0, 0.2, 0.3, 0.5)
    yield (
        "| groups of like hard questions | comparison group ends at | "
        + " | ".join(f"effect {effect:g}" for effect in effects)
        + " |"
    )
    yield "|---|---|" + "---|" * len(effects)
    rng = np.random.default_rng(0)
    for groups in (100, 200, 300, 400, 1_000):
        never, used = groups // 10, round(0.9 * 0.2 * groups)
        for base in (0.0, 0.1):
            shares = [_helped(rng, used, base + effect, never, base) for effect in effects]
            yield f"| {groups} | {base:g} | " + " | ".join(f"{one:.0%}" for one in shares) + " |"


def _helped(rng: np.random.Generator, used: int, success: float, never: int, base: float) -> float:
    ones = rng.binomial(used, success, _DRAWS) / used
    others = rng.binomial(never, base, _DRAWS) / never
    pairs = zip(ones.tolist(), others.tolist(), strict=True)
    told = [difference(Shares(one, used), Shares(other, never)).low > 0 for one, other in pairs]
    return float(np.mean(told))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("command", choices=("run", "trl", "table", "power"))
    parser.add_argument("--seeds", type=int, default=200)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--cases", default=",".join(CASES), help="names, with ; between them")
    options = parser.parse_args()
    if options.command == "run":
        cases = (
            options.cases.split(";") if ";" in options.cases or options.cases in CASES else CASES
        )
        _run([*cases], options.seeds, options.jobs)
    if options.command == "trl":
        _run([*TRL], options.seeds, options.jobs, trl_run)
    print("\n".join(power() if options.command == "power" else table()))


if __name__ == "__main__":
    main()
