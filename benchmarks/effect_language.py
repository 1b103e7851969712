"""Adapt the language model's tier (`benchmarks/methods/language_model.py`) to the effect benchmarks: its
questions, trainer values and scores, under the trainers of VeRL and OpenRLHF.

`COEVO_MODEL` is the model's folder; by default the one that `prompt-coevo smollm2` makes.
"""

from __future__ import annotations

import os
import statistics
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from prompt_coevo.demo.job import Job
from prompt_coevo.demo.smollm2 import default_folder, fingerprint
from prompt_coevo.demo.unnamed.arms import ARMS
from prompt_coevo.demo.unnamed.held_out import HeldOut
from prompt_coevo.demo.unnamed.load import load_model, load_tokenizer
from prompt_coevo.demo.unnamed.tasks import HARD, MOST_TOKENS, PLAIN, Questions
from prompt_coevo.demo.unnamed.values import trainer_values
from prompt_coevo.errors import SettingsError

MODEL: Final = Path(os.environ.get("COEVO_MODEL") or default_folder())
TRAINER: Final = trainer_values(Job("", ARMS["grpo"], 0, Path(), budget=0), MOST_TOKENS)
GROUPS: Final[Mapping[str, Sequence[str]]] = {"hard": HARD, "plain": PLAIN}
_LAYOUT: Final = "chat_template.jinja"


def policy(folder: Path) -> Path:
    """Make a folder of the model in the layout of the tier's tokenizer, and return it."""
    if not (MODEL / "config.json").is_file():
        raise SystemExit(
            f"there is no model in {MODEL}: make it with prompt-coevo smollm2, or set COEVO_MODEL"
        )
    folder.mkdir()
    for file in MODEL.iterdir():
        if file.name != _LAYOUT:
            (folder / file.name).symlink_to(file.resolve())
    try:
        tokenizer = load_tokenizer(MODEL)
    except SettingsError as error:
        raise SystemExit(str(error)) from None
    (folder / _LAYOUT).write_text(tokenizer.chat_template, "utf-8")
    return folder


def training(draw: int, count: int) -> Iterator[tuple[str, str]]:
    """Yield the first training questions of a split, with their answers."""
    for task in Questions.unnamed(draw).training[:count]:
        yield task.question, task.answer


def score(draw: int, folders: Sequence[Path]) -> dict[str, Any]:
    """Score the model and the trained ones: `curve` by family, `words` by question, and the last accuracy
    of the two kinds of families."""
    questions, tokenizer = Questions.unnamed(draw), load_tokenizer(MODEL)
    exam = HeldOut(questions)
    right = [exam.score(load_model(folder), tokenizer, None) for folder in (MODEL, *folders)]
    curve = {
        family: [round(exam.accuracy(one, family), 4) for one in right] for family in HARD + PLAIN
    }
    for group, families in GROUPS.items():
        at = zip(*(curve[family] for family in families), strict=True)
        curve[group] = [round(statistics.fmean(values), 4) for values in at]
    return {
        **{group: curve[group][-1] for group in GROUPS},
        "curve": curve,
        "words": {
            name: [one.kind, *(count / one.asked for count in one.right)]
            for name, one in exam.words(right).items()
        },
        "said": {name: [exam.said[0][name], exam.said[-1][name]] for name in exam.said[0]},
    }


def about(draw: int) -> dict[str, Any]:
    """Return the parts of the tier's key that a run does not record elsewhere."""
    return {"draw": draw, "model": fingerprint(str(MODEL))}
