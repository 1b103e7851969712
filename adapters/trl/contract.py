"""Check, in every run, the TRL internals that this adapter relies on and whose change it would not notice.

Names are checked when training begins, a batch in the first round with templates. If TRL has changed one
of them, the run ends with one sentence instead of training on something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import torch
import trl
from trl import GRPOTrainer

from prompt_coevo.adapters.trl.host import VERSIONS, Batch, Ids, Trainer
from prompt_coevo.errors import HostError

_NAMES: Final = (
    "num_generations",
    "num_generations_eval",
    "num_iterations",
    "max_completion_length",
    "reward_funcs",
    "reward_weights",
    "use_vllm",
    "log_completions",
    "_metrics",
    "_pending_extra_logs",
    "_pending_metrics",
    "_log_completion_extra",
    "_tokenize_prompts",
    "_get_per_token_logps_and_entropies",
)
_GRPO_NAMES: Final = ("rollout_func", "tools", "vllm_importance_sampling_correction")
_ROWS: Final = 2
_FAR: Final = 0.2
"""Mean difference of log-probs per token: more than precision and padding cause, far less than another
prompt does."""

_OF_HEADS: Final = re.compile("classifier|summary")
"""In the names of dropouts that a causal model has no use for."""

Logs: TypeAlias = Callable[[torch.Tensor, torch.Tensor, Batch], torch.Tensor]
"""Computes log-probs of the batch's completions after prompts (ids and mask), (B, T)."""


def check_names(trainer: Trainer) -> None:
    """Raise HostError if the trainer lacks an attribute or a method that the adapter uses."""
    names = [*_NAMES, *(_GRPO_NAMES if _is_grpo(trainer) else ())]
    names.append("vllm_generation" if trainer.use_vllm else "generation_config")
    missing = [name for name in names if not hasattr(trainer, name)]
    if missing:
        raise _drifted(trainer, f"has no {', '.join(missing)}")


def check_batch(
    trainer: Trainer, output: Batch, trained: Ids, distilled: Sequence[bool], logps: Logs
) -> None:
    """Raise HostError if a generation round's batch is not what distillation relies on.

    `trained` are the prompt ids that `_generate` returned, `distilled` says which rows ran under a
    template. Call it on all ranks of a round with distilled rows on any rank, before the batch is changed.
    """
    missing = sorted(_expected(trainer) - output.keys())
    if missing:
        raise _drifted(trainer, f"makes batches without {', '.join(missing)}")
    found = [
        ids[mask.bool()].tolist()
        for ids, mask in zip(output["prompt_ids"], output["prompt_mask"], strict=True)
    ]
    if found != [list(ids) for ids in trained]:
        raise _drifted(trainer, "trains on other prompts than _generate returns")
    if not _draws_at_random(trainer.model):
        _check_old(trainer, output, distilled, logps)


def marks_of(completions: Ids) -> list[dict[int, int]]:
    """Return a token at the beginning and one in the middle of each completion, by place."""
    return [
        {place: int(ids[place]) for place in (0, len(ids) // 2) if len(ids)} for ids in completions
    ]


def check_rows(trainer: Trainer, output: Batch, marks: Sequence[Mapping[int, int]]) -> None:
    """Raise HostError unless a batch has this rank's rows as they were generated, in their order.

    `marks` are those of the rows (`marks_of`). What a subclass cuts off is not missed.
    """
    ids = output["completion_ids"]
    wanted = {
        (row, place): token
        for row, tokens in enumerate(marks)
        for place, token in tokens.items()
        if place < ids.shape[1]
    }
    if len(ids) == len(marks):
        places = torch.tensor(list(wanted), dtype=torch.long, device=ids.device).reshape(-1, 2)
        if ids[places[:, 0], places[:, 1]].tolist() == list(wanted.values()):
            return
    raise _drifted(trainer, "trains on other rows than it generated, or in another order")


def _expected(trainer: Trainer) -> set[str]:
    """Return the fields that a batch has with the trainer's options."""
    names = {"prompt_ids", "prompt_mask", "completion_ids", "completion_mask", "advantages"}
    if not _is_grpo(trainer):
        return names | {"old_logps"}
    names.add("num_items_in_batch")
    args = trainer.args
    corrected = trainer.use_vllm and getattr(trainer, "vllm_importance_sampling_correction", False)
    generate_every = args.steps_per_generation * trainer.num_iterations
    if corrected or args.gradient_accumulation_steps % generate_every:
        names.add("old_per_token_logps")
    if corrected:
        names |= {"importance_sampling_ratio", "sampling_per_token_logps"}
    if getattr(trainer, "tools", None):
        names.add("tool_mask")
    return names


def _check_old(trainer: Trainer, output: Batch, distilled: Sequence[bool], logps: Logs) -> None:
    """Raise HostError unless the old log-probs of a few rows, distilled ones first, are those after the
    question.

    Unsloth's are as wide as the completions plus the longest left padding, and cannot be compared.
    """
    old = output.get("old_per_token_logps", output.get("old_logps"))
    if old is None:
        return
    order = sorted(range(len(distilled)), key=lambda row: not distilled[row])[:_ROWS]
    few = {name: output[name][order] for name in ("completion_ids", "completion_mask")}
    again = logps(output["prompt_ids"][order], output["prompt_mask"][order], few)
    mask = few["completion_mask"]
    if again.shape != mask.shape or (old.dim() == 2 and old[order].shape != mask.shape):
        return
    difference = (
        (old[order] - again) * mask if old.dim() == 2 else old[order] - (again * mask).sum(1)
    )
    if float(difference.abs().sum()) > _FAR * max(1, int(mask.sum())):
        raise _drifted(trainer, "has old log-probs that are not those of the question")


def check_width(trainer: Trainer, logps: torch.Tensor, width: int) -> torch.Tensor:
    """Return log-probs, (B, T). Raise HostError unless there is one for each of T = `width` tokens."""
    if logps.shape[1] != width:
        raise HostError(
            f"{type(trainer).__name__} has {logps.shape[1]} log-probs for {width} tokens, so those of "
            "distilled rollouts cannot be compared; leave out distill_forward, and set "
            "vllm_importance_sampling_correction=False"
        )
    return logps


def _draws_at_random(model: torch.nn.Module) -> bool:
    """Check for dropout, with which two passes differ; many models have it as a number in their
    configuration only."""
    if any(isinstance(one, torch.nn.Dropout) and one.p > 0 for one in model.modules()):
        return True
    to_dict = getattr(getattr(model, "config", None), "to_dict", dict)
    return _drops_out(to_dict())


def _drops_out(values: Mapping[Any, object]) -> bool:
    return any(
        _drops_out(value)
        if isinstance(value, Mapping)
        else "drop" in str(name) and isinstance(value, int | float) and value > 0
        for name, value in values.items()
        if not _OF_HEADS.search(str(name))
    )


def _is_grpo(trainer: Trainer) -> bool:
    # As in `check_trainer`: Unsloth puts a class of its own into `trl`.
    return isinstance(trainer, (GRPOTrainer, trl.GRPOTrainer))


def _drifted(trainer: Trainer, what: str) -> HostError:
    return HostError(
        f"{type(trainer).__name__} {what}, which prompt_coevo relies on: this is another TRL, or a "
        f"subclass or a patch has changed it; {VERSIONS}"
    )
