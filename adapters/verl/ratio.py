"""Hide the template in the sampler's log-probs of distilled rows from VeRL's metrics and corrections.

VeRL computes old log-probs on the question, because our agent loop returned that prompt; the sampler's
log-probs are under the template. VeRL compares the two in two places, on the driver, where it has fetched
both: there the distilled rows are changed in memory, so nothing else is fetched or written. The stored
column keeps the sampler's own values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, Final, TypeAlias

import torch
import transfer_queue as tq
import verl.trainer.ppo.v1.trainer_base as host
from tensordict import TensorDict
from verl.protocol import DataProto

from prompt_coevo.adapters.common.patching import swapped
from prompt_coevo.adapters.common.ratio_tensors import (
    TEMPLATE_EFFECT,
    template_effect,
    without_template,
)
from prompt_coevo.adapters.verl.rollouts import ADVICE
from prompt_coevo.errors import HostError

_OLD, _SAMPLER, _MASK = "old_log_probs", "rollout_log_probs", "response_mask"
_ADVANTAGES: Final = "advantages"
UnderTemplate: TypeAlias = Mapping[str, torch.Tensor]
"""Log-probs of distilled rows after the prompt they were sampled under, (T,), by key."""


def punish_nothing(keys: Sequence[str], partition: str) -> None:
    """Set the negative advantages of rows to 0, once they are computed. The loss still divides by their
    tokens, and a KL penalty in the loss counts them."""
    if not keys:
        return
    rows = tq.kv_batch_get(keys=list(keys), partition_id=partition, select_fields=[_ADVANTAGES])
    advantages = rows[_ADVANTAGES]
    kept = torch.nested.nested_tensor_from_jagged(
        advantages.values().clamp(min=0), advantages.offsets()
    )
    fields = TensorDict({_ADVANTAGES: kept}, batch_size=len(keys))
    tq.kv_batch_put(keys=list(keys), partition_id=partition, fields=fields)


@contextmanager
def measuring_plain_rows(keys: Sequence[str], distilled: Sequence[str]) -> Iterator[None]:
    """Let VeRL compute its metrics of sampler and trainer, for a batch with these keys, from rows that are
    not distilled. Without such rows there are none."""
    if not distilled:
        yield
        return
    original: Callable[[DataProto], dict[str, float]] = host.calculate_debug_metrics
    rows = _chosen(keys, distilled)

    def measured(data: DataProto) -> dict[str, float]:
        data.batch[_MASK][rows] = 0  # VeRL's own copy, of which this is the last use
        return original(data) if data.batch[_MASK].any() else {}

    with swapped(host, "calculate_debug_metrics", measured):
        yield


@contextmanager
def correcting_the_sampler(
    keys: Sequence[str], distilled: Sequence[str], under: UnderTemplate
) -> Iterator[None]:
    """Let VeRL's correction for its sampler, for a batch with these keys, find no template's effect.

    `under` has the distilled rows' log-probs with `distill_forward`, and is empty without.
    """
    if not distilled:
        yield
        return
    original: Callable[..., Any] = host.compute_rollout_correction_and_add_to_batch
    rows = _chosen(keys, distilled)

    def corrected(data: DataProto, *args: Any) -> Any:
        on_question, by_sampler = data.batch[_OLD], data.batch[_SAMPLER]
        clean = on_question[rows]
        if under:
            moved = torch.zeros_like(clean)
            for place, number in enumerate(rows.tolist()):
                found = under[keys[number]]
                moved[place, : len(found)] = found
            every = torch.ones_like(clean, dtype=torch.bool)
            clean = without_template(clean, by_sampler[rows], every, moved)
        by_sampler[rows] = clean.to(by_sampler.dtype)
        return original(data, *args)

    with swapped(host, "compute_rollout_correction_and_add_to_batch", corrected):
        yield


def effect(distilled: Sequence[str], partition: str, under: UnderTemplate) -> dict[str, float]:
    """Return the effect of these rows' templates on the policy, averaged over their tokens, as a metric."""
    fields = [_OLD, _MASK]
    rows = tq.kv_batch_get(keys=list(distilled), partition_id=partition, select_fields=fields)
    if missing := sorted(set(fields) - set(rows.keys())):
        raise HostError(
            f"the rows of a templated round have no {', '.join(missing)} in TransferQueue, which "
            f"coevo.distill_forward needs; leave it out, or {ADVICE}"
        )
    after = torch.cat([under[key] for key in distilled])
    total, tokens = template_effect(rows[_OLD].values(), after, rows[_MASK].values())
    return {TEMPLATE_EFFECT: total / tokens if tokens else 0.0}


def _chosen(keys: Sequence[str], distilled: Sequence[str]) -> torch.Tensor:
    """Return the places of the distilled rows among all, (N,)."""
    those = set(distilled)
    return torch.tensor([place for place, key in enumerate(keys) if key in those])
