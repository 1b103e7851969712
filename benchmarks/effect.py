"""Share code between the trainers' effect benchmarks: arms side by side, stored runs, scores, a table."""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from effect_worlds import WORLDS, EffectWorld, Scores

from prompt_coevo import Settings

SECONDS = 14_400
"""A run that takes longer is killed."""

Run = dict[str, Any]


@dataclass(frozen=True)
class Job:
    """One run: an arm of a world, and how long it trains on how many questions."""

    world_name: str
    arm: str
    seed: int
    epochs: int
    questions: int
    mode: str | None = None
    """Which of the trainer's modes, other than its usual one."""

    vllm: bool = False
    """Whether the real vLLM samples, and not a stand-in."""

    @property
    def world(self) -> EffectWorld:
        return WORLDS[self.world_name]

    @property
    def rollouts(self) -> int:
        """Return the rollouts of a step."""
        return int(self.world.trainer["per_device_train_batch_size"])

    @property
    def group(self) -> int:
        return int(self.world.trainer["num_generations"])

    @property
    def batch(self) -> int:
        """Return the questions of a step."""
        return self.rollouts // self.group

    @property
    def steps(self) -> int:
        return self.epochs * (self.questions // self.batch)

    @property
    def saved(self) -> Sequence[int]:
        """Return the steps after which the model is saved: every so many, and the last."""
        return [*range(self.save_each, self.steps, self.save_each), self.steps]

    @property
    def save_each(self) -> int:
        return max(1, self.steps // self.world.points)

    @property
    def coevolves(self) -> bool:
        return self.world.arms[self.arm] is not None

    def asked(self) -> Iterable[tuple[str, str]]:
        """Return the questions to train on, and their answers."""
        return self.world.training(self.seed, self.questions)

    def teacher(self) -> Callable[[dict[str, Any]], str]:
        """Return the world's teacher, for a server that speaks the OpenAI protocol."""
        teacher = self.world.teacher(self.seed)
        return lambda body: teacher(body["messages"][-1]["content"])

    def coevo(self, api_base: str) -> dict[str, str]:
        """Return the arm's settings by their full names, with the teacher's server."""
        server = {"model": "openai/teacher", "api_base": api_base}
        own = {
            "ground_truth_column": "auto",
            "seed": self.seed,
            "reflection": server,
            "preflight": {"reflection": "off"},  # calls are counted
        }
        return dict(_flat({**(self.world.arms[self.arm] or {}), **own}))

    @property
    def method(self) -> str:
        """Return the value of the trainer's flag."""
        return ",".join(Settings(**(self.world.arms[self.arm] or {})).algorithms)

    def score(self, folders: Sequence[Path]) -> Scores:
        """Score the saved models' answers to held-out questions without any template."""
        return self.world.score(folders, self.seed, self.questions)


def main(description: str | None, train: Callable[[Job], Run], modes: Sequence[str] = ()) -> None:
    """Run the benchmark's command line; runs that its file already has are not repeated.

    `modes` are the trainer's modes that can be chosen, other than its usual one.
    """
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--world", choices=list(WORLDS), default="demo")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--arms", nargs="+", help="by default all of the world")
    parser.add_argument("--epochs", type=int, help="by default the world's")
    parser.add_argument("--questions", type=int, help="by default the world's")
    parser.add_argument(
        "--vllm", action="store_true", help="sample with vLLM's build for CPUs, which is installed"
    )
    parser.add_argument("--json", type=Path, help="add the runs to this file")
    if modes:
        parser.add_argument(
            "--mode", choices=modes, help="of the trainer, other than its usual one"
        )
    options = parser.parse_args()
    mode: str | None = options.mode if modes else None
    world = WORLDS[options.world]
    epochs, questions = options.epochs or world.epochs, options.questions or world.questions
    chosen: Run = {"mode": mode} if mode else {}
    if questions != world.questions:
        chosen["questions"] = questions
    known = list(world.arms)
    arms = options.arms or known
    if unknown := set(arms) - set(known):
        parser.error(f"--arms {' '.join(unknown)}: the world {options.world} has {' '.join(known)}")
    torch.set_num_threads(1)
    keys = [
        {"world": options.world, "arm": arm, "seed": seed, "epochs": epochs}
        for seed in range(options.seeds)
        for arm in arms
    ]

    def one(key: Mapping[str, Any]) -> Run:
        run = train(Job(*key.values(), questions=questions, mode=mode, vllm=options.vllm))
        return {**chosen, **run}

    runs = collect(keys, one, options.json, chosen)
    shown = [run for run in runs if run["world"] == options.world and _chosen(run) == chosen]
    print(table(shown, world.shown))


def collect(
    keys: Iterable[Mapping[str, Any]],
    train: Callable[[Mapping[str, Any]], Run],
    file: Path | None,
    chosen: Mapping[str, Any],
) -> list[Run]:
    """Make a run for every key that the file lacks.

    A run holds its key and what is `chosen` in place of the usual. The file is written after every run.
    """
    runs: list[Run] = json.loads(file.read_text())["runs"] if file and file.exists() else []
    for key in keys:
        if any(key.items() <= run.items() and _chosen(run) == chosen for run in runs):
            continue
        runs.append(train(key))
        print(json.dumps(runs[-1]), flush=True)
        if file:
            file.write_text(json.dumps({"runs": runs}, indent=1) + "\n")
    return runs


def _chosen(run: Run) -> Run:
    return {name: run[name] for name in ("mode", "questions") if name in run}


def summary(
    job: Job,
    *,
    searched: float,
    generated: int,
    reflection_calls: int,
    scores: Scores,
    seconds: float,
    step_seconds: Iterable[float],
) -> Run:
    """Return a run in its stored form.

    `searched` is the package's own count of rollouts outside training; `generated` counts all requests
    that the server of rollouts answered.
    """
    trained = job.steps * job.rollouts
    return {
        "world": job.world_name,
        "arm": job.arm,
        "seed": job.seed,
        "epochs": job.epochs,
        **job.world.about(),
        "steps": job.steps,
        "train_rollouts": trained,
        "search_rollouts": int(searched),
        "generated_besides": generated - trained,
        "reflection_calls": reflection_calls,
        "scores": scores,
        "seconds": round(seconds),
        "seconds_per_step": round(statistics.median(step_seconds), 2),
    }


def table(runs: Sequence[Run], shown: Sequence[str]) -> str:
    """Return mean and standard deviation over seeds, as Markdown."""
    lines = [
        f"| | {' | '.join(shown).replace('_', ' ')} | training + search rollouts |",
        f"|{'---|' * (len(shown) + 2)}",
    ]
    for arm in dict.fromkeys(run["arm"] for run in runs):
        of_arm = [run for run in runs if run["arm"] == arm]
        cells = [mean([run["scores"][name] for run in of_arm]) for name in shown]
        searched = statistics.mean(run["search_rollouts"] for run in of_arm)
        trained = of_arm[0]["train_rollouts"]
        cells.append(f"{trained / 1000:.1f}k + {searched / 1000:.1f}k")
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def mean(values: Sequence[float]) -> str:
    """Format mean and standard deviation; counts are rounded."""
    digits = 0 if all(isinstance(value, int) for value in values) else 3
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.{digits}f} ± {spread:.{digits}f}"


def _flat(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", str(value)
