"""Checks of the VeRL internals that this adapter relies on, before a run trains and when they are used.

If VeRL renamed a method, nothing would call our override, and the run would train without the engine.
"""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from types import CodeType
from typing import Final

import torch
import transfer_queue as tq
from verl.trainer.ppo.v1 import (
    PPOTrainerColocateAsync,
    PPOTrainerSeparateAsync,
    PPOTrainerSync,
)
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer

from prompt_coevo.adapters.verl.distill import ERROR, TRAINED, fingerprint
from prompt_coevo.adapters.verl.rollouts import ADVICE, extras_of
from prompt_coevo.errors import HostError

_COMMON: Final = (
    "_balance_batch",
    "_build_replay_buffer",
    "_compute_advantage",
    "_compute_old_log_prob",
    "_compute_reward_colocate",
    "_consume_sync_metrics",
    "_dump_generations",
    "_get_required_batch_multiple",
    "_init_dataloader",
    "_load_checkpoint",
    "_save_checkpoint",
    "_validate",
    "fit",
    "on_step_begin",
    "on_step_end",
    "on_train_end",
)
_AHEAD: Final = (*_COMMON, "_reissue_inflight_prompts")
LEANT_ON: Final[Mapping[str, tuple[type, Sequence[str]]]] = {
    "sync": (PPOTrainerSync, _COMMON),
    "colocate_async": (PPOTrainerColocateAsync, _AHEAD),
    "separate_async": (PPOTrainerSeparateAsync, _AHEAD),
}
"""Methods that are overridden or called, with their classes, by trainer mode."""
_MENTIONED: Final[Mapping[str, Sequence[str]]] = {
    "_compute_advantage": ("compute_rollout_correction_and_add_to_batch",),
    "_compute_old_log_prob": ("calculate_debug_metrics",),
    "_consume_sync_metrics": ("_pending_sync_metrics",),
    "_dump_generations": ("dump_path", "reward_extra_infos_dict"),
    "_validate": ("validate",),
}
"""Names that we set, replace or look for, by the method of VeRL that knows them."""
_SAMPLER: Final = "rollout_log_probs"
_READ_BY: Final = {"_compute_advantage", "_compute_old_log_prob"}
"""The methods in which VeRL reads the sampler's log-probs; there our rows are changed."""
_DROPS: Final = "_clear_groups"
_DROPPED_FROM: Final = ("finished_keys", "partitions")
_TELLS_THE_OLD: Final = "_stale_terminal_keys"
_LOOKED_AT: Final = 64
"""How many rows of a run's first distilled round are compared."""


def check_names(mode: str, *, distils: bool = True) -> None:
    """Raise HostError if VeRL's trainer of a mode lacks a method that ours relies on.

    With `distils`, also if another method than ours reads the sampler's log-probs.
    """
    owner, names = LEANT_ON[mode]
    known = _known_by_methods(owner)
    for name in names:
        if not hasattr(owner, name):
            raise HostError(f"VeRL's {owner.__name__} has no {name}, which +coevo needs; {ADVICE}")
        for part in _MENTIONED.get(name, ()):
            if part not in known.get(name, ()):
                raise HostError(
                    f"VeRL's {owner.__name__}.{name} does not know {part}, which +coevo needs; "
                    f"{ADVICE}"
                )
    readers = {name for name, mentioned in known.items() if _SAMPLER in mentioned}
    if distils and (new := sorted(readers - _READ_BY)):
        raise HostError(
            f"VeRL's {owner.__name__}.{new[0]} reads {_SAMPLER}, which are under the template in templated "
            f"rows; {ADVICE}"
        )


def _known_by_methods(owner: type) -> dict[str, set[object]]:
    """Return the names and constants in a class's methods, and in those that they call by `super`."""
    known: dict[str, set[object]] = {}
    ends: set[str] = set()
    for one in owner.__mro__:
        for name, method in vars(one).items():
            code = getattr(inspect.unwrap(method), "__code__", None)
            if code is None or name in ends:
                continue
            known.setdefault(name, set()).update(_parts(code))
            if "super" not in code.co_names:
                ends.add(name)
    return known


def _parts(code: CodeType) -> Iterator[object]:
    """Yield the names and constants of code, with those of the functions inside."""
    yield from (*code.co_names, *code.co_varnames, *code.co_freevars)
    for const in code.co_consts:
        if isinstance(const, CodeType):
            yield from _parts(const)
        else:
            yield from const if isinstance(const, tuple) else (const,)


def check_dropping(buffer: ReplayBuffer) -> None:
    """Raise HostError for a buffer whose groups we cannot observe before dynamic sampling drops them."""
    for name in (_DROPS, *_DROPPED_FROM):
        if not hasattr(buffer, name):
            raise HostError(
                f"VeRL's {type(buffer).__name__} has no {name}, without which +coevo never sees the "
                f"groups that it drops; leave algorithm.filter_groups, "
                f"trainer.v1.sampler.sync_refill_failed_groups and asynchronous trainers out, or "
                f"{ADVICE}"
            )


def check_telling(buffer: ReplayBuffer) -> None:
    """Raise HostError for an asynchronous trainer's buffer that does not say which groups are too old."""
    if not hasattr(buffer, _TELLS_THE_OLD):
        raise HostError(
            f"VeRL's {type(buffer).__name__} has no {_TELLS_THE_OLD}, which +coevo needs to tell groups "
            f"that are too old from those of dynamic sampling; leave asynchronous trainers out, "
            f"or {ADVICE}"
        )


def check_distilled(keys: Sequence[str], partition: str) -> None:
    """Raise HostError unless rows are trained on as our agent loop returned them: on the question.

    An error that the agent loop reports comes first: an unsupported loop is not VeRL's fault.
    """
    fields = ["prompts", "responses", "input_ids", "extra_fields"]
    looked_at = list(keys)[:_LOOKED_AT]
    rows = tq.kv_batch_get(keys=looked_at, partition_id=partition, select_fields=fields)
    if missing := sorted(set(fields) - set(rows.keys())):
        raise HostError(
            f"VeRL's rows have no {', '.join(missing)}, which +coevo needs to check that a templated "
            f"rollout is trained on its question; {ADVICE}"
        )
    columns = [list(rows[name].unbind()) for name in fields[:-1]]
    for prompt, response, sequence, extra in zip(*columns, extras_of(rows), strict=True):
        if extra.get(ERROR):
            raise HostError(extra[ERROR])
        if not _is_as_handed_back(prompt, response, sequence, extra.get(TRAINED)):
            raise HostError(
                "a rollout that ran under a template is not in TransferQueue with the prompt ids that "
                f"+coevo's agent loop returned (those of its question), so it would be trained on a wrong "
                f"prompt; {ADVICE}"
            )


def _is_as_handed_back(
    prompt: torch.Tensor, response: torch.Tensor, sequence: torch.Tensor, mark: int | None
) -> bool:
    whole = torch.cat([prompt, response])
    return fingerprint(prompt.tolist()) == mark and torch.equal(sequence, whole)
