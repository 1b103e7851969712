"""Share small settings, a teacher, and readers of run files between the VeRL tests."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

from transformers import AutoTokenizer

from helpers.verl_run import WORLD, Result
from worlds.pairs.splits import make_splits
from worlds.pairs.world import base_policy_path

TOKENIZER = AutoTokenizer.from_pretrained(base_policy_path())
MANY = [task for task in make_splits(WORLD, 0, 128, 8).train if task.kind == "hard"][:16]
"""Enough questions that one template cannot solve all solvable ones."""

# Above every reward, tau makes all questions hard, so that every epoch ends with a search.
P2O = (
    "coevo.p2o.overspend=never",
    "coevo.p2o.tau=2.0",
    "coevo.p2o.dev_size=8",
    "coevo.p2o.minibatch_size=3",
    "coevo.p2o.search_budget=200",
    "coevo.p2o.minibatch_temperature=0.7",
)
FIRST = "note please"
INSPO = (
    f"coevo.inspo.instruction='{FIRST}'",
    "coevo.inspo.population_size=3",
    "coevo.inspo.prune_every=2",
    "coevo.inspo.evolve_every=3",
    "coevo.inspo.verify_size=3",
    "coevo.inspo.candidates_per_call=2",
    "coevo.inspo.rounds=1",
)
BOTH = ("+coevo=both", "coevo.algorithms=[inspo,p2o]", *P2O, *INSPO)
"""Both papers' methods; the choice `both` is INSPO and the stream."""


def teach(body: dict[str, Any]) -> str:
    """Reply like the OpenAI server: the meaning of two failures' words, so that templates help different
    questions; for instructions, one more word after the parent's or the first one's text."""
    prompt = body["messages"][-1]["content"]
    if "<current_template>" in prompt:
        pairs = re.findall(r"<question>\s*use (\S+) then (\S+) on", prompt)
        words = dict.fromkeys(word for pair in pairs[:2] for word in pair)
        rules = [f"{word} means {WORLD.meaning[word]} ." for word in words]
        return f"<template>{' '.join(rules)}</template>"
    endings = ("now", "always", "carefully", "first", "again", "step")
    start = (
        prompt.split("<ins_0>")[1].split("</ins_0>")[0].strip() if "<ins_0>" in prompt else FIRST
    )
    return "\n".join(f"<ins_{n}>{start} {word}</ins_{n}>" for n, word in enumerate(endings, 1))


def reflection(base: str) -> list[str]:
    """Return the overrides that point to the server. Preflight is off because tests count its requests."""
    return [
        "coevo.reflection.model=openai/teacher",
        f"coevo.reflection.api_base={base}",
        "coevo.preflight.reflection=off",
    ]


def tokens(question: str, system: str | None = None) -> list[int]:
    """Return the prompt ids of a question, under an instruction if there is one."""
    chat = [{"role": "user", "content": question}]
    if system is not None:
        chat.insert(0, {"role": "system", "content": system})
    ids: list[int] = TOKENIZER.apply_chat_template(
        chat, add_generation_prompt=True, tokenize=True, return_dict=True
    )["input_ids"]
    return ids


def events(result: Result, *names: str) -> list[dict[str, Any]]:
    """Return the journal's events, optionally only those with these names."""
    path = result.folder / "checkpoints" / "coevo" / "events.jsonl"
    written = [json.loads(line) for line in path.read_text().splitlines()]
    return [event for event in written if not names or event["event"] in names]


def by_group(rows: Iterable[dict[str, Any]]) -> dict[tuple[int, str], list[dict[str, Any]]]:
    """Return the rows that the loss got, by step and group, without padding rows."""
    groups: defaultdict[tuple[int, str], list[dict[str, Any]]] = defaultdict(list)
    for row in rows:
        if not row["uid"].startswith("pad"):
            groups[row["global_steps"], row["uid"]].append(row)
    return groups


def sampled(result: Result, row: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the server's generations that may be a row's origin: same step, same tokens."""
    return [
        event
        for event in result.generated()
        if event["global_steps"] == row["global_steps"] - 1
        and event["response_ids"] == row["responses"]
        and event["temperature"] == 1.0
    ]
