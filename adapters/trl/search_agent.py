"""A search agent as TRL's `rollout_func`.

    trainer = GRPOTrainer(..., rollout_func=search_agent(url="http://127.0.0.1:8000"),
                          reward_funcs=exact_match("golden_answers"))

All episodes of a batch take their turns together, with one request to the server per turn. Token ids are
kept as sampled, and search results are masked out of the loss. Needs TRL 1.10 or newer: before,
`_generate_single_turn` takes another number of arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import torch
import trl
from packaging.version import Version

from prompt_coevo.adapters.common.completion_texts import Completion
from prompt_coevo.adapters.common.patching import swapped
from prompt_coevo.adapters.trl.generation import STATUS
from prompt_coevo.errors import HostError
from prompt_coevo.placement import Prompt
from prompt_coevo.retrieval.agent.rollout import SearchRollout
from prompt_coevo.retrieval.agent.scoring import METRICS, Metric
from prompt_coevo.retrieval.agent.settings import SearchAgentSettings, tool_of
from prompt_coevo.tokens import tokenizer_of

_OLDEST: Final = (1, 10)
ANSWER: Final = "search_answer"
"""The argument that gives reward functions the policy's own answers, None where there is none."""

Rollouts: TypeAlias = dict[str, Sequence[object] | None]
"""Columns with one value for each rollout: TRL's own, and more for the reward functions."""


def search_agent(**settings: object) -> Callable[[list[Prompt], trl.GRPOTrainer], Rollouts]:
    """Build a `rollout_func` for GRPOTrainer; the settings are those of `SearchAgentSettings`.

    Raises SettingsError, and HostError if TRL is too old. With vLLM, set
    `generation_kwargs={"stop": ["</search>", "</answer>"], "include_stop_str_in_output": True}`, or every
    turn is sampled to its full length and then cut.
    """
    if Version(trl.__version__).release < _OLDEST:
        raise HostError(
            f"the search agent needs TRL 1.10 or newer, and this is {trl.__version__}; run pip install "
            "'trl>=1.10,!=1.15.0,<2'"
        )
    checked = SearchAgentSettings(**settings)

    def rollout(prompts: list[Prompt], trainer: trl.GRPOTrainer) -> Rollouts:
        return _play(prompts, trainer, checked)

    return rollout


def exact_match(column: str, metric: Metric = "em") -> Callable[..., list[float]]:
    """Build a reward function that scores the policy's answer by the gold answers in a dataset column."""
    score = METRICS[metric]

    def reward(completions: Sequence[Completion], **columns: Any) -> list[float]:
        return [
            score(answer, golds)
            for answer, golds in zip(columns[ANSWER], columns[column], strict=True)
        ]

    reward.__name__ = f"search_{metric}"
    return reward


def _play(
    prompts: list[Prompt], trainer: trl.GRPOTrainer, settings: SearchAgentSettings
) -> Rollouts:
    if trainer.max_completion_length is None:
        raise HostError(
            "the trainer has max_completion_length = None, but the search agent must know how much room an "
            "episode has for its turns and search results; set it in GRPOConfig, for example to 4600"
        )
    prompt_ids = trainer._tokenize_prompts(prompts)[0]
    tokenizer = tokenizer_of(trainer.processing_class)
    # TRL counts a completion as truncated unless it ends with an end token. One that ends with an answer
    # is complete, so an end token is appended, which the loss does not see.
    masks_truncated = trainer.mask_truncated_completions
    room = trainer.max_completion_length - masks_truncated
    rollouts = [SearchRollout(ids, tokenizer, settings, room) for ids in prompt_ids]
    while count := _largest(trainer, sum(not one.over for one in rollouts)):
        _take_turns(trainer, rollouts, count, settings)
    if masks_truncated:
        for one in rollouts:
            if one.episode.ended == "answer":
                one.trajectory.observed([tokenizer.eos_token_id])
    log_probs = [one.trajectory.log_probs for one in rollouts]
    return {
        "prompt_ids": prompt_ids,
        "completion_ids": [one.trajectory.completion_ids for one in rollouts],
        "logprobs": None if any(values is None for values in log_probs) else log_probs,
        "env_mask": [_in_loss(one, masks_truncated) for one in rollouts],
        ANSWER: [one.episode.answer for one in rollouts],
        STATUS: [one.status for one in rollouts],
        "searches": [one.episode.searches for one in rollouts],
    }


def _in_loss(rollout: SearchRollout, masks_truncated: bool) -> list[int]:
    """Mask the tokens for the loss: it sees the policy's own, but none of an episode without an answer if
    `masks_truncated`. TRL alone would see an episode that used up its turns but ends with an end token.
    """
    mask = rollout.trajectory.mask
    return mask if rollout.episode.ended == "answer" or not masks_truncated else [0] * len(mask)


def _take_turns(
    trainer: trl.GRPOTrainer,
    rollouts: list[SearchRollout],
    count: int,
    settings: SearchAgentSettings,
) -> None:
    """Play one turn of every unfinished episode; `count` is the largest number of these on a process."""
    active = [one for one in rollouts if not one.over]
    # Generation is a collective call: all processes must bring equally many prompts and one length.
    idle = [rollouts[0].trajectory.prompt_ids] * (count - len(active))
    prompts = [one.trajectory.ids for one in active] + idle
    most = _largest(trainer, max((one.turn_tokens for one in active), default=1))
    # Sample no more tokens than a turn may have, whichever backend generates.
    config, name = (
        (trainer.vllm_generation, "max_completion_length")
        if trainer.use_vllm
        else (trainer.generation_config, "max_new_tokens")
    )
    with swapped(config, name, min(getattr(config, name), most)):
        ids, log_probs = trainer._generate_single_turn(prompts, None, {}, 1)
    asking, queries = [], []
    for number, one in enumerate(active):
        query = one.sampled(ids[number], None if log_probs is None else log_probs[number])
        if query is not None:
            asking.append(one)
            queries.append(query)
    for one, outcome in zip(asking, tool_of(settings).search(queries), strict=True):
        one.observed(outcome)


def _largest(trainer: trl.GRPOTrainer, number: int) -> int:
    """Return the largest of the processes' numbers."""
    accelerator = trainer.accelerator
    return int(accelerator.gather(torch.tensor([number], device=accelerator.device)).max())
