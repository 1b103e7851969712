"""Hide the template in the sampler's log-probs of distilled rows from VeRL's corrections.

VeRL computes old log-probs on the question, because our agent loop returned that prompt; the sampler's
log-probs are under the template. Only distilled rows are changed here, before VeRL computes advantages.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.protocol import DataProto
from verl.utils.debug.metrics import calculate_debug_metrics

from prompt_coevo.adapters.common.ratio_tensors import (
    TEMPLATE_EFFECT,
    template_effect,
    without_template,
)
from prompt_coevo.adapters.verl.contract import check_distilled
from prompt_coevo.errors import HostError

_OLD, _SAMPLER, _MASK = "old_log_probs", "rollout_log_probs", "response_mask"
_ADVANTAGES: Final = "advantages"
_FIELDS: Final = (_OLD, _SAMPLER)
_MEASURED: Final = 64
"""Rows from which VeRL's metrics of the sampler are computed: all would pass through the driver."""


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


class Ratio:
    """Corrects the distilled rows of each step.

    `has_sampler`: there are log-probs of the sampler; without them there is nothing to correct.
    """

    def __init__(self, has_sampler: bool) -> None:
        self._has_sampler = has_sampler
        self._is_checked = False
        self._exchanged: set[str] = set()

    def exchange(
        self,
        keys: Sequence[str],
        distilled: Sequence[str],
        partition: str,
        under_template: torch.Tensor | None = None,
    ) -> dict[str, float]:
        """Correct the `distilled` among the rows `keys` in TransferQueue, once old log-probs are there.

        `under_template`: their log-probs after the prompt they were sampled under, jagged, (B, T), with
        `distill_forward`. Returns VeRL's metrics of the difference between sampler and trainer, recomputed
        from some of the rows that are not distilled, and with `distill_forward` the template's effect as a
        metric of its own. Raises HostError for malformed rows.
        """
        self._exchanged = set(distilled)
        if distilled and not self._is_checked:
            check_distilled(distilled, partition)
            if self._has_sampler:  # what is written below would be there under any name
                _read(distilled, partition, _FIELDS)
            self._is_checked = True
        metrics: dict[str, float] = {}
        if not distilled or not (self._has_sampler or under_template is not None):
            return metrics
        fields = [_OLD]  # all that the sampler's become, without their template's effect
        if under_template is not None:
            fields += [_MASK, _SAMPLER] if self._has_sampler else [_MASK]
        rows = _read(distilled, partition, fields)
        if under_template is not None:
            metrics[TEMPLATE_EFFECT] = _effect(rows, under_template)
        if not self._has_sampler:
            return metrics
        self._change(list(distilled), partition, rows, under_template)
        return metrics | self._difference(keys, partition)

    def _difference(self, keys: Sequence[str], partition: str) -> dict[str, float]:
        """Return VeRL's metrics of the difference between sampler and trainer."""
        # Without others, of distilled rows: VeRL's own value would have their templates' effect.
        measured = [key for key in keys if key not in self._exchanged] or list(keys)
        some = measured[:: -(-len(measured) // _MEASURED)]
        data = _read(some, partition, ["responses", _MASK, *_FIELDS])
        found: dict[str, float] = calculate_debug_metrics(DataProto(batch=data.to_padded_tensor()))
        return found

    def settle(self, distilled: Sequence[str]) -> None:
        """Raise HostError if `exchange` has not seen these rows. Call it when advantages are computed."""
        if not self._exchanged.issuperset(distilled):
            raise HostError(
                "VeRL computed advantages before old log-probs, so templated rollouts would be trained "
                "on with log-probs under their template; install a VeRL that this adapter supports"
            )
        self._exchanged.clear()

    def _change(
        self, keys: list[str], partition: str, rows: TensorDict, under_template: torch.Tensor | None
    ) -> None:
        old = rows[_OLD]
        clean = old.values()
        if under_template is not None:
            sampler = rows[_SAMPLER].values()
            every = torch.ones_like(sampler, dtype=torch.bool)
            clean = without_template(clean, sampler, every, under_template.values())
        jagged = torch.nested.nested_tensor_from_jagged(clean, old.offsets())
        fields = TensorDict({_SAMPLER: jagged}, batch_size=len(keys))
        tq.kv_batch_put(keys=keys, partition_id=partition, fields=fields)


def _read(keys: Sequence[str], partition: str, fields: Sequence[str]) -> TensorDict:
    rows = tq.kv_batch_get(keys=list(keys), partition_id=partition, select_fields=list(fields))
    if missing := sorted(set(fields) - set(rows.keys())):
        raise HostError(
            f"the rows of a templated round have no {', '.join(missing)} in TransferQueue, so they "
            "cannot be trained on without their template; install a VeRL that this adapter supports"
        )
    return rows


def _effect(rows: TensorDict, under_template: torch.Tensor) -> float:
    """Return the effect of these rows' templates on the policy, averaged over their tokens."""
    total, tokens = template_effect(
        rows[_OLD].values(), under_template.values(), rows[_MASK].values()
    )
    return total / tokens if tokens else 0.0
