"""The texts of a batch's responses, decoded only when a method reads them: most are never read."""

from __future__ import annotations

from collections.abc import Sequence

from openrlhf.trainer.ppo_utils.experience import Experience
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from prompt_coevo.adapters.common.late_texts import LateTexts
from prompt_coevo.adapters.openrlhf.host import Response
from prompt_coevo.types import LateText


def begins(response: Response) -> int:
    """Return the position of the policy's first own token, or the sequence length if there is none."""
    ranges = response["action_ranges"]
    return ranges[0][0] if ranges else len(response["observation_tokens"])


class BatchTexts:
    """The texts of responses that are sampled together; their rollouts are observed before `close`."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase) -> None:
        self._tokenizer = tokenizer
        self._tokens: dict[str, tuple[list[int] | Tensor, int]] = {}
        """Sequences, (1, L) as a tensor, and where the policy's own tokens begin."""
        self._texts = LateTexts(self._decoded)

    def late(self, number: int) -> LateText:
        """Return a placeholder for the text of the response with this number."""
        return self._texts.late(str(number))

    def keep(self, number: int, response: Response, made: Experience) -> None:
        """Keep a response's tokens: those of the Experience made of it, unless OpenRLHF truncated them."""
        tokens: list[int] | Tensor = response["observation_tokens"]
        if made.sequences.shape[1] == len(tokens):
            tokens = made.sequences
        self._tokens[str(number)] = tokens, begins(response)

    def close(self) -> None:
        """Decode the texts of rollouts that are still held, and release the tokens."""
        self._texts.close()
        self._tokens.clear()

    def _decoded(self, names: Sequence[str]) -> list[str]:
        found = [self._tokens[name] for name in names]
        ids = [
            (tokens[0].tolist() if isinstance(tokens, Tensor) else tokens)[start:]
            for tokens, start in found
        ]
        texts: list[str] = self._tokenizer.batch_decode(ids, skip_special_tokens=True)
        return texts
