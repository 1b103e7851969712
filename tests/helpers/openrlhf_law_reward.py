"""The kit's rewards as a file for `--reward.remote_url`. A question's label is its id."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import torch

from helpers.verl_world import TOKENIZER
from prompt_coevo.testing.adapter import Job, reward_of
from standins import json_lines

_JOB = Job({}, (), rewards=json.loads(Path(os.environ["COEVO_TEST_REWARD_RULES"]).read_text()))


def reward_func(queries: list[str], prompts: list[str], labels: list[str]) -> dict[str, Any]:
    """Score one response, as OpenRLHF asks."""
    random.random()  # as a reward function with a random choice would
    (query,), (prompt,), (label,) = queries, prompts, labels
    asked, whole = (
        TOKENIZER(text, add_special_tokens=False)["input_ids"] for text in (prompt, query)
    )
    if whole[: len(asked)] != asked:
        raise ValueError(f"the query {query!r} does not begin with the prompt {prompt!r}")
    text = TOKENIZER.decode(whole[len(asked) :], skip_special_tokens=True)
    reward = reward_of(_JOB, label, text)
    call = {"question_id": label, "prompt": str(prompt), "text": text, "reward": reward}
    json_lines.append("COEVO_TEST_SCORED", [call])
    return {"rewards": torch.tensor([reward]), "scores": torch.tensor([reward])}
