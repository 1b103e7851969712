"""Check rows of a batch under their sampling prompts against a hand-computed forward pass.

Stand-in: flash-attn, of which only names count.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

import standins.openrlhf

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(Path(standins.openrlhf.__file__).parent))
    from openrlhf.trainer.ppo_utils.experience import Experience

    from prompt_coevo.adapters.openrlhf.ratio import DISTILLED
    from prompt_coevo.adapters.openrlhf.second_pass import (
        ROLLED_OUT,
        Rows,
        after_rollout_prompts,
        entry,
    )

PAD = 99
RESPONSE = [7, 8, 50, 9]  # the third token is an environment's


def row(prompt: list[int], rolled_out: list[int] | None) -> Experience:
    ids = [*prompt, *RESPONSE]
    own = [0] * len(prompt) + [1, 1, 0, 1]
    mark = entry(0, ()) if rolled_out is None else entry(len(prompt), rolled_out)
    return Experience(
        sequences=torch.tensor([ids]),
        attention_mask=torch.ones(1, len(ids), dtype=torch.long),
        action_mask=torch.tensor([own[1:]]),
        info={ROLLED_OUT: mark, DISTILLED: torch.tensor([float(rolled_out is not None)])},
    )


def history(batches: list[Rows]) -> list[Tensor]:
    """Compute a "log-prob" for each token as the sum of all tokens before it, so that each prompt shows."""
    found = []
    for batch in batches:
        assert batch.sequences.shape == batch.attention_mask.shape
        assert batch.action_mask.shape[1] == batch.sequences.shape[1] - 1
        assert (batch.sequences[batch.attention_mask == 0] == PAD).all()
        values = (batch.sequences * batch.attention_mask).cumsum(1)[:, :-1].double()
        found.append(values * batch.action_mask)
    return found


@pytest.mark.parametrize(
    "rolled_out",
    [[1, 2, 3, 4, 5, 6], [4], [], [1, 2, 3]],
    ids=["longer", "shorter", "none", "as long"],
)
def test_values_come_back_to_the_places_of_the_tokens(rolled_out: list[int]) -> None:
    rows = [row([10, 20, 30], rolled_out), row([5] * 9, None), row([3], [1, 1])]
    batch = Experience.concat_experiences(rows, PAD)
    assert batch.sequences.shape == (3, 13)
    (found,) = after_rollout_prompts([batch], [batch.info.pop(ROLLED_OUT)], PAD, history)
    assert found.shape == batch.action_mask.shape
    for values, mask, prompt in zip(
        found, batch.action_mask.bool(), [rolled_out, [5] * 9, [1, 1]], strict=True
    ):
        own = sum(prompt) + torch.tensor([0, 7, 7 + 8 + 50])
        assert values[mask].tolist() == own.tolist()
        assert (values[~mask] == 0).all()
