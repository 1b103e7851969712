"""Run tier 3: a real language model (SmolLM2-135M-Instruct) on questions that do not say what to do.

    python benchmarks/methods run language_model [--arms stream,grpo] [--seeds N] [--json FILE]

The published model multiplies in bfloat16 on every CPU, so that its runs can be compared; where there is
no such instruction, `language_products` emulates it. Only the runs on capitals multiply in float32.

Other models and questions: the options under "language_model only" (`run --help`) with another `--json`
file. Their values are in the hash of the settings. A GPU is used where there is one.
"""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import statistics
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import language_instructions
from language_questions import from_file, lines_of
from language_solutions import solution
from language_studied import WORLD, Studied
from store import Key, ResultsError

from prompt_coevo.demo.arms import Arm
from prompt_coevo.demo.job import Job
from prompt_coevo.demo.smollm2 import default_folder, fingerprint, is_folder, smollm2_folder
from prompt_coevo.demo.unnamed.arms import ARMS as DEMO_ARMS
from prompt_coevo.demo.unnamed.arms import BUDGET, POINTS, ROLLOUTS_PER_STEP, runs_in_memory
from prompt_coevo.demo.unnamed.tasks import MOST_TOKENS, Questions
from prompt_coevo.demo.unnamed.values import CHAT, SAMPLES, trainer_values
from prompt_coevo.errors import CoevoError, SettingsError
from prompt_coevo.machine import computes_bfloat16

HEADLINE: Final = ("grpo", "stream", "p2o")
_IN_BOTH_SPLITS: Final = (*HEADLINE, "sft")
SEEDS: Final = 3
DRAWS: Final = (0, 1)
"""Splits of the questions."""
STEP: Final = (
    "reward",
    "coevo/templated_fraction",
    "coevo/hard_solved_templated",
    "coevo/hard_solved_untemplated",
    "coevo/hard_covered",
    "coevo/in_use",
)
"""The values kept from each step's log."""
MODEL: Final = os.environ.get("COEVO_MODEL") or str(default_folder())
PUBLISHED: Final = "7ef915c9bf9d"
"""The fingerprint of the published table's model."""
QUESTIONS: Final = os.environ.get("COEVO_QUESTIONS")
TEACHER: Final = os.environ.get("COEVO_TEACHER")


def _number(name: str, usual: int, least: int) -> int:
    value = os.environ.get(f"COEVO_{name.upper()}") or str(usual)
    if not value.isdecimal() or int(value) < least:
        raise ResultsError(f"--{name} {value}: a number, at least {least}, is wanted")
    return int(value)


TOKENS: Final = _number("tokens", 256, 1)
ROLLOUTS: Final = _number("rollouts", BUDGET, ROLLOUTS_PER_STEP)


ARMS: Final[Mapping[str, Studied]] = {
    **{name: Studied(spec) for name, spec in DEMO_ARMS.items()},
    "grpo-twice": Studied(Arm("GRPO, twice the budget"), budgets=2.0),
    "blind": Studied(Arm("stream, blind teacher", {}), {"teacher": "blind"}),
    "random": Studied(Arm("stream, no right instruction", {}), {"teacher": "random"}),
    "drawn": Studied(
        Arm("instructions drawn, no search", {"algorithms": "language_drawn:DRAWN"}),
        knows_questions=True,
    ),
    "self": Studied(Arm("stream, the policy writes", {}), {"model": "self", "max_tokens": 160}),
    "hints": Studied(
        Arm("hints, half of each solution", {"algorithms": "hints"}), told="with_solutions"
    ),
    "sdft": Studied(Arm("TRL's SDFT on the solutions"), told="sdft"),
    "sft": Studied(Arm("TRL's SFT on the solutions, no samples"), told="sft"),
    **language_instructions.ARMS,
}


def labels() -> dict[str, str]:
    return {name: studied.spec.label for name, studied in ARMS.items()}


def frozen() -> dict[str, Any]:
    """Return the values that determine each arm's runs, by its name, as JSON values."""
    job = Job("", ARMS["grpo"].spec, 0, Path(), budget=0)
    common = {
        "budget": ROLLOUTS,
        "points": [POINTS, SAMPLES],
        # What depends on the machine is no setting: it is recorded with each run.
        "trainer": {**trainer_values(job, MOST_TOKENS), "use_cpu": True},
        "chat": CHAT,
        "questions": [
            [task.question, task.answer]
            for one in map(questions, DRAWS)
            for task in (*one.training, *one.held_out)
        ],
    }
    if QUESTIONS:
        common["tokens"] = TOKENS
    if TEACHER:
        common["teacher"] = _teacher().get("teacher", TEACHER)
    if "COEVO_MODEL" in os.environ and fingerprint(MODEL) != PUBLISHED:
        common["model"] = fingerprint(MODEL)
    return {
        name: {
            "common": common,
            "values": studied.spec.values,
            "reflection": dict(studied.reflection),
            "budgets": studied.budgets,
            **({"told": [studied.told, *_solutions()]} if studied.told else {}),
            **(_of_another_world(studied) if studied.world != WORLD else {}),
        }
        for name, studied in ARMS.items()
    }


def _solutions() -> list[str]:
    built_in = (Questions.unnamed(draw).training for draw in DRAWS)
    return [solution(task) for training in built_in for task in training]


def _of_another_world(studied: Studied) -> dict[str, Any]:
    asked = questions(0, studied.world)
    rows = [[task.question, task.answer] for task in (*asked.training, *asked.held_out)]
    return {"questions": rows, "samples": asked.samples, "reserve": studied.reserve}


def questions(draw: int, world: str = WORLD) -> Questions:
    """Return the questions of a draw. Raises ResultsError for a file that has none."""
    if world in language_instructions.WORLDS:
        return language_instructions.questions(world, draw)
    return from_file(Path(QUESTIONS), draw, TOKENS) if QUESTIONS else Questions.unnamed(draw)


def plan(arms: Sequence[str], seeds: int | None, draws: int | None) -> list[Key]:
    """Return the runs of the published table, seed by seed: some arms in both splits, the others in the
    first; or so many seeds and the first splits of each. Raises ResultsError if there are fewer splits."""
    if draws and draws > len(DRAWS):
        raise ResultsError(f"--draws {draws}: the questions have {len(DRAWS)} splits")
    keys: list[Key] = []
    for name in arms:
        splits = DRAWS[: draws or (len(DRAWS) if name in _IN_BOTH_SPLITS else 1)]
        keys += [
            (ARMS[name].world, name, seed, draw)
            for draw in splits
            for seed in range(seeds or SEEDS)
        ]
    return sorted(keys, key=lambda key: (key[3], key[1] not in HEADLINE, key[2]))


def check_model() -> None:
    """Raise ResultsError for a model that is missing, damaged or in the place of another."""
    if str(default_folder()) == MODEL and not (default_folder() / "model.safetensors").exists():
        raise ResultsError(
            f"there is no model in {MODEL}: make it with prompt-coevo smollm2, or give --model"
        )
    if "COEVO_MODEL" not in os.environ and fingerprint(MODEL) != PUBLISHED:
        raise ResultsError(
            f"the weights in {MODEL} are not those of the published runs: give this folder as --model, and "
            "--json another file"
        )
    if is_folder(MODEL) and not (Path(MODEL) / "config.json").exists():
        raise ResultsError(f"--model {MODEL}: there is no folder with a config.json")
    if fingerprint(MODEL) == PUBLISHED:
        try:
            smollm2_folder(Path(MODEL))
        except CoevoError as error:
            raise ResultsError(str(error)) from None


def check(keys: Sequence[Key]) -> None:
    """Raise ResultsError for a model, teacher or questions that are missing or do not go together."""
    check_model()
    file = Path(TEACHER or "")
    if TEACHER and not file.is_file() and (file.is_dir() or file.suffix.lower() == ".txt"):
        what = "this is a folder" if file.is_dir() else "there is no such file"
        raise ResultsError(f"--teacher {TEACHER}: {what}")
    if TEACHER and not _teacher().get("teacher", TEACHER):
        raise ResultsError(f"--teacher {TEACHER}: there is no instruction in this file")
    names = list(dict.fromkeys(arm for _, arm, _, _ in keys))
    built_in = [name for name in names if ARMS[name].of_built_in_questions]
    if QUESTIONS and built_in:
        raise ResultsError(
            f"{', '.join(built_in)}: for the built-in questions only; name other --arms"
        )
    for name in names:
        if ROLLOUTS * ARMS[name].budgets - ARMS[name].reserve < ROLLOUTS_PER_STEP:
            raise ResultsError(f"--rollouts {ROLLOUTS} are too few for a step of {name}")
    own = [name for name in names if _asks(ARMS[name])]
    if QUESTIONS and own and not TEACHER:
        raise ResultsError(
            f"{', '.join(own)}: the built-in teachers know nothing of the questions in {QUESTIONS}; give "
            "--teacher a litellm model or a file of instructions"
        )
    if TEACHER and not own:
        raise ResultsError(
            "--teacher has no effect on these arms: they ask none, or bring their own"
        )
    if "COEVO_TOKENS" in os.environ and not QUESTIONS:
        raise ResultsError("--tokens has no effect without --questions")
    from prompt_coevo.demo.unnamed.load import load_tokenizer

    try:
        load_tokenizer(MODEL)
    except CoevoError as error:
        raise ResultsError(str(error)) from None


def jobs() -> int:
    """Return how many runs to make at once: one a core as far as memory allows.

    On a GPU, and with another model or other questions, which may need more memory, it is one. Raises
    ResultsError if not even one fits.
    """
    import torch

    from prompt_coevo.demo.unnamed.load import least_memory, memory_to_train_in

    other = fingerprint(MODEL) != PUBLISHED
    most = 1 if other or QUESTIONS or torch.cuda.is_available() else os.cpu_count() or 1
    try:
        one = least_memory(MODEL) if other else None
        return runs_in_memory(most, "--jobs 1", one=one, free=memory_to_train_in())
    except SettingsError as error:
        raise ResultsError(str(error)) from None


def _teacher() -> dict[str, Any]:
    """Return the section of the settings that `--teacher` stands for."""
    file = Path(TEACHER or "")
    return {"teacher": list(lines_of(file).values())} if file.is_file() else {"model": TEACHER}


def _asks(studied: Studied) -> bool:
    """Tell whether the arm needs a teacher that knows the questions; it may bring its own."""
    own = studied.reflection or studied.of_built_in_questions
    return studied.spec.coevolves and not own


def run(world: str, arm: str, seed: int, draw: int) -> dict[str, Any]:
    """Run once and return JSON values."""
    import torch
    from language_products import fast_products

    from prompt_coevo.demo.unnamed.train import of_this_machine, train

    torch.set_num_threads(1)
    studied = ARMS[arm]
    asked = _teacher() if TEACHER and _asks(studied) else studied.reflection
    if asked == language_instructions.TEACHER:
        asked = {"function": language_instructions.teacher(world, seed)}
    asked_of = questions(draw, world)
    budget, log = int(ROLLOUTS * studied.budgets), list[dict[str, float]]()
    with tempfile.TemporaryDirectory() as folder:
        job = Job(arm, studied.spec, seed, Path(folder), draw, Path(MODEL), budget, asked)
        if fingerprint(MODEL) == PUBLISHED:
            job = replace(job, bfloat16=world not in language_instructions.IN_FLOAT32)
        told = studied.told
        build = getattr(importlib.import_module("language_told"), told) if told else None
        silent = lambda spent, hard: None  # noqa: E731
        machine = of_this_machine(job)
        emulated = machine["use_cpu"] and machine["bf16"] and not computes_bfloat16()
        with fast_products() if emulated else contextlib.nullcontext():
            result = train(job, silent, log.append, asked_of, build, studied.reserve)
    steps = [{name: round(one[name], 4) for name in STEP if name in one} for one in log]
    kinds = dict.fromkeys(score.kind for score in result.words.values())
    curves = {kind: result.curve(kind) for kind in kinds}
    curves["hard"] = [
        statistics.fmean(at) for at in zip(*(curves[name] for name in asked_of.hard), strict=True)
    ]
    return {
        "world": world,
        "arm": arm,
        "seed": seed,
        "draw": draw,
        "model": fingerprint(MODEL),
        **machine,
        "emulated": emulated,
        "budget": result.budget,
        "spent": result.spent,
        "curve": {kind: [round(value, 4) for value in curve] for kind, curve in curves.items()},
        "words": {
            name: [score.kind, *(right / score.asked for right in score.right)]
            for name, score in result.words.items()
        },
        "said": result.said,
        "last": {name: [share.right, share.asked] for name, share in result.last.items()},
        "steps": steps,
        # SFT makes none; its points count as if it did, to be those of the same steps.
        "training": result.train_rollouts if arm != "sft" else 0,
        "outside": result.other_rollouts,
        "calls": result.calls,
        "cracked": [[one.template, one.question, one.answer] for one in result.cracked],
        "instruction": result.instruction,
        "instructions": result.instructions,
        "cpu_seconds": result.cpu_seconds,
        "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    }
