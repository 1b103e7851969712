"""The texts of a batch's responses, which are decoded when a method reads them: most are never read."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from openrlhf.trainer.ppo_utils.experience import Experience
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from prompt_coevo.adapters.common.late_texts import LateTexts
from prompt_coevo.adapters.openrlhf.host import Response
from prompt_coevo.types import LateText, Rollout


def begins(response: Response) -> int:
    """Where the first of the policy's own tokens is; behind all where there is none."""
    ranges = response["action_ranges"]
    return ranges[0][0] if ranges else len(response["observation_tokens"])


class BatchTexts:
    """Of the responses that are sampled together; their rollouts are observed before `close`."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._tokens: dict[str, tuple[Tensor, int]] = {}
        self._texts = LateTexts(self._decoded)

    def late(self, number: int) -> LateText:
        """In place of the text of the response with this number, which `keep` has to follow."""
        return self._texts.late(str(number))

    def keep(self, number: int, rollout: Rollout, response: Response, made: Experience) -> None:
        """Hold on to the tokens of a response that has become an Experience.

        Those of the Experience are there anyway; where OpenRLHF has cut it off, the response's are taken.
        """
        tokens, start = response["observation_tokens"], begins(response)
        whole = made.sequences.shape[1] == len(tokens)
        sequences = made.sequences if whole else torch.tensor([tokens])
        self._tokens[str(number)] = sequences, start
        self._texts.watch(rollout)

    def close(self) -> None:
        """Decode what somebody still holds, and let go of the tokens."""
        self._texts.close()
        self._tokens.clear()

    def _decoded(self, names: Sequence[str]) -> list[str]:
        found = [self._tokens[name] for name in names]
        ids = [sequences[0, start:].tolist() for sequences, start in found]
        texts: list[str] = self._tokenizer.batch_decode(ids, skip_special_tokens=True)
        return texts
