"""Context distillation on token lists: P2O eq. 5, without torch.

A templated rollout was sampled under `x~` and is trained on as if it had been sampled under `x`. The
prompt's tokens change, the completion's do not, and all positions counted from the start of the sequence
shift by the difference of the prompts' lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from prompt_coevo.errors import HostError

TokenIds: TypeAlias = Sequence[int]
TokenRange: TypeAlias = tuple[int, int]
T = TypeVar("T")


def swap_prompts(
    rollout_prompts: Sequence[TokenIds],
    train_prompts: Sequence[TokenIds],
    distilled: Sequence[bool],
) -> list[list[int]]:
    """Return the prompt ids to train on: those of `x` in distilled rows, the rollout's own elsewhere.

    `rollout_prompts` and `distilled` have one entry per row, `train_prompts` one per distilled row, in
    their order. Raises ValueError if the lengths do not match.
    """
    if len(rollout_prompts) != len(distilled) or len(train_prompts) != sum(distilled):
        raise ValueError(
            f"{len(rollout_prompts)} prompts, {len(distilled)} flags and {len(train_prompts)} "
            "prompts to "
            f"train on do not fit together: expected one flag per prompt, and {sum(distilled)} to "
            "train on"
        )
    replacements = iter(train_prompts)
    return [
        list(next(replacements) if is_distilled else ids)
        for ids, is_distilled in zip(rollout_prompts, distilled, strict=True)
    ]


def shift_ranges(
    ranges: Sequence[TokenRange], rollout_prompt_length: int, train_prompt_length: int
) -> list[TokenRange]:
    """Shift `[start, end)` ranges of model tokens when the prompt before them is swapped.

    Positions count from the start of the whole sequence. Raises ValueError for a range that begins inside
    the prompt, which holds no tokens of the model.
    """
    shift = train_prompt_length - rollout_prompt_length
    for start, _ in ranges:
        if start < rollout_prompt_length:
            raise ValueError(
                f"a range of model tokens starts at {start}, inside the prompt of "
                f"{rollout_prompt_length} tokens"
            )
    return [(start + shift, end + shift) for start, end in ranges]


class TokenRow(NamedTuple):
    """One rollout of a trainer that keeps prompt and completion in one list.

    `ranges` mark the model's own tokens; `log_probs` has one entry per id, 0 in the prompt.
    """

    ids: list[int]
    ranges: list[TokenRange]
    log_probs: list[float] | None

    def exchanged(self, rolled_out: TokenIds, trained: TokenIds, advice: str) -> TokenRow:
        """Return the row as if it had been sampled under the prompt `trained`.

        Changes the row's lists in place, because they are long and many. Raises HostError, with `advice`,
        if the row does not begin with `rolled_out`, the prompt of its request: the prompt was cut off, or
        an agent edited it. Returns the row itself if both prompts are equal.
        """
        start, length = len(rolled_out), len(trained)
        if list(self.ids[:start]) != list(rolled_out) or (
            self.ranges and self.ranges[0][0] != start
        ):
            raise HostError(
                "a response does not begin with the prompt that it was asked for, so the prompt cannot "
                f"be exchanged for the question: {advice}"
            )
        if trained is rolled_out or list(trained) == list(rolled_out):
            return self
        ranges = shift_ranges([(first, last) for first, last in self.ranges], start, length)
        return TokenRow(
            _beginning_with(trained, self.ids, start),
            ranges,
            self.log_probs and _beginning_with([0.0] * length, self.log_probs, start),
        )


def _beginning_with(new: Sequence[T], values: list[T], start: int) -> list[T]:
    """Replace everything before `start`: in place in a list, in a copy of any other sequence."""
    changed = values if isinstance(values, list) else list(values)
    changed[:start] = new
    return changed
