"""GRPO, the paper's search and the streaming search in the world of many facts, under TRL.

    python benchmarks/world2_effect.py --json benchmarks/results/world2_effect.json

    [--arms grpo waves stream stream_first_sight] [--seeds 10 11 12] [--draw 0] [--epochs 8]

TRL's own GRPOTrainer, unmodified, trains a transformer of 210 000 parameters (`world2_base`) on 512
questions, 32 x 6 rollouts a step, on one thread. Scores are greedy answers to held-out questions
without any template. Extra rollouts are those outside the training batches, and batches those that
training waited for. Another draw of the world needs a base policy of its own:
`python -m prompt_coevo.demo.facts.pretrain --draw 1 --out DIR`, then `--draw 1 --base DIR`.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

os.environ.update(CI="1", HF_HUB_OFFLINE="1", TRL_EXPERIMENTAL_SILENCE="1")

import effect
import torch
from effect import Run
from effect_worlds import FACTS_BASE, FACTS_LEARNING_RATE, WAVES, score_facts, stream
from transformers import TrainerCallback

from prompt_coevo import Settings
from prompt_coevo.adapters.trl import CoevoCallback
from prompt_coevo.adapters.trl.policy import TrlPolicy
from prompt_coevo.demo.facts.splits import held_out_tasks, training_tasks
from prompt_coevo.demo.facts.teacher import FactsTeacher
from prompt_coevo.demo.facts.world import COUNTS, Task, World, reward
from prompt_coevo.demo.rule_teacher import TeacherKind
from prompt_coevo.demo.train import build_trainer, quieten
from prompt_coevo.doors.patching import swapped
from prompt_coevo.markers import hookimpl
from prompt_coevo.placement import question_text
from prompt_coevo.types import Group, Question


@dataclass(frozen=True)
class Arm:
    """One way to train. Without settings it is the bare trainer."""

    settings: Mapping[str, Any] | None = None
    teacher: TeacherKind = "reasoning"


ARMS: Final[Mapping[str, Arm]] = {
    "grpo": Arm(),
    "waves": Arm(WAVES),
    "stream": Arm(stream()),
    "stream_first_sight": Arm(stream(first_sight=True)),
    "stream_random_teacher": Arm(stream(), "random"),
    "stream_two_bare": Arm(stream(bare_members=2)),
}
USUAL: Final = ("grpo", "waves", "stream", "stream_first_sight")


def train(arm_name: str, seed: int, draw: int, epochs: int, base: Path) -> Run:
    """One run. Its seconds are without evaluation."""
    arm, world = ARMS[arm_name], World(draw)
    tasks, held_out = training_tasks(world, seed), held_out_tasks(world)
    torch.manual_seed(seed)
    with tempfile.TemporaryDirectory() as folder, counted_rollouts() as outside:
        trainer = build_trainer(
            base,
            tasks,
            reward,
            out=Path(folder),
            seed=seed,
            epochs=epochs,
            learning_rate=FACTS_LEARNING_RATE,
        )
        watch = Watch(trainer, held_out)
        trainer.add_callback(watch)
        members = Members(tasks)
        coevo = None
        if arm.settings is not None:
            teacher = FactsTeacher(arm.teacher, seed=seed)
            settings = Settings(**arm.settings, seed=seed, reflection={"function": teacher})
            coevo = CoevoCallback(trainer, settings, plugins={"members": members})
            members.question = coevo.policy.question
            trainer.add_callback(coevo)
        began, began_cpu = time.monotonic(), time.process_time()
        trainer.train()
        seconds = time.monotonic() - began - watch.seconds
        cpu_seconds = time.process_time() - began_cpu - watch.cpu_seconds
    metrics = coevo.engine.metrics() if coevo and coevo.engine else {}
    return {
        "arm": arm_name,
        "seed": seed,
        "draw": draw,
        "epochs": epochs,
        **{kind: values[-1] for kind, values in watch.curve.items()},
        "train_rollouts": trainer.state.global_step * effect.BATCH * effect.GROUP,
        "extra_rollouts": outside["rollouts"],
        "batches": outside["batches"],
        "reflection_calls": int(metrics.get("coevo/reflection_calls", 0)),
        "seconds": round(seconds),
        "cpu_seconds": round(cpu_seconds),
        "curve": watch.curve,
        "members": members.by_epoch,
    }


class Watch(TrainerCallback):  # type: ignore[misc]
    """Scores the policy after every epoch: accuracy by kind of word."""

    def __init__(self, trainer: Any, tasks: Sequence[Task]) -> None:
        self._trainer, self._tasks = trainer, tasks
        self.curve: dict[str, list[float]] = {kind: [] for kind in COUNTS}
        self.seconds = self.cpu_seconds = 0.0

    def on_epoch_end(self, *_: object, **__: object) -> None:
        began, began_cpu = time.monotonic(), time.process_time()
        trainer = self._trainer
        for kind, score in score_facts(
            trainer.model, trainer.processing_class, self._tasks
        ).items():
            self.curve[kind].append(score)
        self.seconds += time.monotonic() - began
        self.cpu_seconds += time.process_time() - began_cpu


@dataclass
class Members:
    """A plugin that counts what the members of training groups ran under, and with what success.

    By epoch and kind of word: groups, those with templates among them, and of members with and without
    a template how many there were and how many solved their question. An epoch ends when all questions
    are through, as far as the batches go.
    """

    tasks: Sequence[Task]
    question: Callable[[str], Question] | None = None
    by_epoch: list[dict[str, dict[str, int]]] = field(default_factory=list)
    _groups: int = 0

    def __post_init__(self) -> None:
        self._kinds = {task.question: task.kind for task in self.tasks}

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        assert self.question is not None
        for group in groups:
            if self._groups % len(self.tasks) == 0:
                self.by_epoch.append({kind: Counter() for kind in COUNTS})
            self._groups += 1
            kind = self._kinds[question_text(self.question(group.question_id).prompt)]
            counts = self.by_epoch[-1][kind]
            templated = [rollout.assignment.templated for rollout in group.rollouts]
            counts["groups"] += 1
            counts["groups_with_templates"] += any(templated)
            for rollout, under_template in zip(group.rollouts, templated, strict=True):
                name = "templated" if under_template else "bare"
                counts[name] += 1
                counts[f"{name}_solved"] += rollout.reward == 1.0


@contextmanager
def counted_rollouts() -> Iterator[Counter[str]]:
    """Batches and rollouts that are generated outside training."""
    counts: Counter[str] = Counter()
    original = TrlPolicy.sample

    def sample(self: TrlPolicy, requests: list[Any], *rest: Any) -> Any:
        counts.update(batches=1, rollouts=len(requests))
        return original(self, requests, *rest)

    with swapped(TrlPolicy, "sample", sample):
        yield counts


COLUMNS: Final = (
    *("hard", "medium", "easy", "area"),
    *("extra_rollouts", "batches", "reflection_calls", "seconds", "cpu_seconds"),
)


def table(runs: Sequence[Run]) -> str:
    """A row per arm: mean and standard deviation over seeds; `area` is the mean of the hard curve."""
    lines = [f"| arm | runs | {' | '.join(COLUMNS)} |", "|---" * (len(COLUMNS) + 2) + "|"]
    for arm in dict.fromkeys(run["arm"] for run in runs):
        of_arm = [run for run in runs if run["arm"] == arm]
        areas = [sum(run["curve"]["hard"]) / len(run["curve"]["hard"]) for run in of_arm]
        with_area = [{**run, "area": area} for run, area in zip(of_arm, areas, strict=True)]
        cells = [effect.mean([run[name] for run in with_area]) for name in COLUMNS]
        lines.append(f"| {arm} | {len(of_arm)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0] if __doc__ else None)
    parser.add_argument("--arms", nargs="+", choices=list(ARMS), default=USUAL)
    parser.add_argument("--seeds", nargs="+", type=int, default=[10, 11, 12])
    parser.add_argument("--draw", type=int, default=0)
    parser.add_argument("--base", type=Path, help="the draw's base policy")
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--json", type=Path, help="add the runs to this file")
    options = parser.parse_args()
    if options.base is None and options.draw:
        parser.error(
            f"--draw {options.draw} needs --base: make one with "
            f"python -m prompt_coevo.demo.facts.pretrain --draw {options.draw} --out DIR"
        )
    quieten()
    torch.set_num_threads(1)
    keys = [
        {"arm": arm, "seed": seed, "draw": options.draw, "epochs": options.epochs}
        for seed in options.seeds
        for arm in options.arms
    ]

    def one(key: Mapping[str, Any]) -> Run:
        names = {("arm_name" if name == "arm" else name): value for name, value in key.items()}
        return train(**names, base=options.base or FACTS_BASE)

    print(table(effect.collect(keys, one, options.json)))


if __name__ == "__main__":
    main()
