"""Run episodes of the small search policy in lockstep."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from prompt_coevo.retrieval.agent.episode import Search, SearchEpisode
from prompt_coevo.retrieval.agent.tags import STOP_STRINGS
from prompt_coevo.retrieval.agent.trajectory import Trajectory
from prompt_coevo.retrieval.retriever import Retriever
from worlds.search.world import SearchQuestion


@dataclass
class Run:
    """One question's episode and its tokens."""

    question: SearchQuestion
    episode: SearchEpisode
    trajectory: Trajectory


def roll_out(
    model: Any,
    tokenizer: Any,
    retriever: Retriever,
    questions: Sequence[SearchQuestion],
    instruction: str | None = None,
    turn_tokens: int = 24,
    limit: int = 400,
) -> list[Run]:
    """Run one episode per question at temperature 1."""
    runs = [
        Run(question, SearchEpisode(), Trajectory(_prompt(tokenizer, question, instruction)))
        for question in questions
    ]
    while active := [run for run in runs if not run.episode.ended]:
        for run, ids in zip(active, _sample(model, tokenizer, active, turn_tokens), strict=True):
            run.trajectory.sampled(ids)
            action = run.episode.feed(tokenizer.decode(ids, skip_special_tokens=True))
            if run.episode.ended:
                continue
            hits = retriever.search([action.query], 3)[0] if isinstance(action, Search) else None
            observed = tokenizer(run.episode.observe(hits), add_special_tokens=False)["input_ids"]
            run.trajectory.observed(observed)
            if run.trajectory.room(limit) < turn_tokens:
                run.episode.end("length")
    return runs


def _prompt(tokenizer: Any, question: SearchQuestion, instruction: str | None) -> list[int]:
    chat = [{"role": "user", "content": question.text}]
    if instruction:
        chat.insert(0, {"role": "system", "content": instruction})
    text = tokenizer.apply_chat_template(chat, add_generation_prompt=True, tokenize=False)
    ids: list[int] = tokenizer(text, add_special_tokens=False)["input_ids"]
    return ids


def _sample(
    model: Any, tokenizer: Any, active: Sequence[Run], max_new_tokens: int
) -> list[list[int]]:
    batch = tokenizer.pad(
        {"input_ids": [run.trajectory.ids for run in active]}, return_tensors="pt"
    )
    ends = [tokenizer.eos_token_id, *tokenizer.convert_tokens_to_ids(list(STOP_STRINGS))]
    with torch.no_grad():
        output = model.generate(
            **batch, do_sample=True, max_new_tokens=max_new_tokens, eos_token_id=ends
        )
    rows = output[:, batch["input_ids"].shape[1] :].tolist()
    return [_until(row, ends) for row in rows]


def _until(row: list[int], ends: Sequence[int]) -> list[int]:
    places = [place for place, token in enumerate(row) if token in ends]
    return row[: places[0] + 1] if places else row
