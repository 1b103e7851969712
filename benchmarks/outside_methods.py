"""E-SPL and hints, two methods from outside the package, in the demo's world, beside GRPO, P2O and INSPO.

    pip install docs/plugins/espl docs/plugins/hints
    python benchmarks/outside_methods.py --seeds 1 --json benchmarks/results/outside_methods.json

Every arm has the same training questions, steps and training rollouts. An arm with an instruction is
scored with it and without it. The hints are the truth about a question's words, which nobody tells the
other arms: hints are for data that comes with solutions.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import statistics
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from prompt_coevo import Settings
from prompt_coevo.demo import train as demo
from prompt_coevo.demo.arms import ARMS, Arm, first_instruction
from prompt_coevo.demo.evaluate import evaluate
from prompt_coevo.demo.instruction_teacher import InstructionTeacher
from prompt_coevo.demo.splits import Splits, make_splits
from prompt_coevo.demo.teacher import CLAUSE
from prompt_coevo.demo.world import SKILL_NAMES, Task, World
from prompt_coevo.rng import counter_rng

Run = dict[str, Any]
METRICS = ("all", "hard", "unseen_pairs", "longer")
_WORLD = World()
_PARENT = re.compile(r"<current_[12]>(.*?)</current_[12]>", re.DOTALL)
_ERRS = 0.3


@dataclass(frozen=True)
class OutsideArm(Arm):
    """An arm whose settings are given, not made from a preset."""

    values: dict[str, Any] = field(default_factory=dict)

    @property
    def coevolves(self) -> bool:
        return True

    def settings(self, seed: int, reflection_lm: str | None, api_base: str | None) -> Settings:
        reflection = {"function": teacher(seed)} if "espl" in self.values["algorithms"] else {}
        return Settings(seed=seed, reflection=reflection, **self.values)


def teacher(seed: int) -> Callable[[str], str]:
    """The demo's teacher for instructions, and one for crossover: it joins the parents' rules, and errs."""
    reflects = InstructionTeacher(seed=seed)

    def crosses(prompt: str) -> str:
        draw = int(counter_rng(seed, "outside/crossover", prompt).integers(1 << 62))
        rng = random.Random(draw)
        first, second = (dict(CLAUSE.findall(text)) for text in _PARENT.findall(prompt))
        rules = first | {
            word: skill
            for word, skill in second.items()
            if word not in first or rng.random() < 0.5  # they contradict each other: either one
        }
        if rules and rng.random() < _ERRS:
            rules[rng.choice(list(rules))] = rng.choice(SKILL_NAMES)
        while len(rules) > 10:
            rules.pop(rng.choice(list(rules)))
        text = " ".join(f"{word} means {skill} ." for word, skill in rules.items())
        return f"<ins_1>\n{text}\n</ins_1>"

    return lambda prompt: crosses(prompt) if "<current_1>" in prompt else reflects(prompt)


_ESPL = {
    "algorithms": ["espl"],
    "ground_truth_column": "answer",
    "espl": {"instruction": first_instruction(_WORLD)},
}
_HINTS = {
    "algorithms": ["hints"],
    "ground_truth_column": "answer",
    "row_columns": ["solution"],
    # A solution is two clauses: both, then the first, then none.
    "hints": {"fraction": 1.0, "notch": 0.5, "layout": "{{template}} {{question}}"},
}
OUTSIDE = {
    "espl": OutsideArm("E-SPL", values=_ESPL),
    "espl-no-crossover": OutsideArm(
        "E-SPL, mutation alone",
        values={**_ESPL, "espl": {**_ESPL["espl"], "crossover_share": 0.0}},
    ),
    "hints": OutsideArm("hints", values=_HINTS),
    "hints-no-distillation": OutsideArm(
        "hints, no distillation",
        values={**_HINTS, "hints": {**_HINTS["hints"], "distill": False}},
    ),
}
CHOICES = ("grpo", "p2o", "static", "inspo", *OUTSIDE)
USUAL = ("grpo", "p2o", "static", "espl", "hints")


def solution(task: Task) -> str:
    """What the words of a question mean: what a worked solution would say first."""
    return " ".join(f"{word} means {_WORLD.meaning[word]} ." for word in dict.fromkeys(task.words))


@contextmanager
def kept_trainer() -> Iterator[list[Any]]:
    """The demo's trainer, kept to be scored again, with a column for solutions in its dataset."""
    original, kept = demo._trainer, []

    def made(job: demo.Job, splits: Splits) -> Any:
        trainer = original(job, splits)
        column = [solution(task) for task in splits.train]
        trainer.train_dataset = trainer.train_dataset.add_column("solution", column)
        kept.append(trainer)
        return trainer

    demo._trainer = made
    try:
        yield kept
    finally:
        demo._trainer = original


def run(name: str, seed: int, epochs: int, questions: int, out: Path) -> Run:
    """Train one arm and score it."""
    job = demo.Job(name, seed, out, questions=questions, epochs=epochs, evaluate_every=epochs)
    with kept_trainer() as kept:
        result = demo.train(job, lambda step, scores: None)
    splits = make_splits(_WORLD, seed, questions, job.held_out)
    without = vars(result.final)
    if result.instruction is not None:
        without = vars(evaluate(kept[0].model, kept[0].processing_class, splits, epochs))
    state = out / "coevo" / "state.json"
    paid = json.loads(state.read_text())["reflection"] if state.exists() else {}
    return {
        "arm": name,
        "seed": seed,
        "epochs": epochs,
        "train_rollouts": result.train_rollouts,
        "search_rollouts": result.search_rollouts,
        "reflection_calls": paid.get("calls", 0),
        "untrained": vars(result.curve[0]),
        "scores": vars(result.final),
        "without_instruction": without,
        "instruction": result.instruction,
        "seconds": round(result.seconds),
    }


def table(runs: Sequence[Run], arms: Sequence[str]) -> str:
    """Means over seeds, as Markdown."""
    lines = [
        f"| | {' | '.join(METRICS)} | hard without instruction | training + search rollouts | seeds |",
        f"|{'---|' * (len(METRICS) + 4)}",
    ]
    for name in arms:
        of_arm = [one for one in runs if one["arm"] == name]
        if not of_arm:
            continue
        means = [_mean([one["scores"][metric] for one in of_arm]) for metric in METRICS]
        bare = _mean([one["without_instruction"]["hard"] for one in of_arm])
        searched = statistics.fmean(one["search_rollouts"] for one in of_arm)
        rollouts = f"{of_arm[0]['train_rollouts'] / 1000:.1f}k + {searched / 1000:.1f}k"
        instructed = bare if of_arm[0]["instruction"] else ""
        cells = [ARMS[name].label, *means, instructed, rollouts, str(len(of_arm))]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(values: Sequence[float]) -> str:
    spread = f" ± {statistics.stdev(values):.3f}" if len(values) > 1 else ""
    return f"{statistics.fmean(values):.3f}{spread}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--arms", nargs="+", choices=CHOICES, default=USUAL)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--questions", type=int, default=512)
    parser.add_argument("--json", type=Path, help="add the runs to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    ARMS.update(OUTSIDE)
    stored = options.json is not None and options.json.exists()
    runs: list[Run] = json.loads(options.json.read_text())["runs"] if stored else []
    for seed in range(options.seeds):
        for name in options.arms:
            if any((one["arm"], one["seed"]) == (name, seed) for one in runs):
                continue
            with tempfile.TemporaryDirectory() as folder:
                runs.append(run(name, seed, options.epochs, options.questions, Path(folder)))
            print(json.dumps(runs[-1]), flush=True)
            if options.json:
                options.json.write_text(json.dumps({"runs": runs}, indent=1) + "\n")
    print(table(runs, CHOICES))


if __name__ == "__main__":
    main()
