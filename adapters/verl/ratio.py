"""Which old log-probs distilled rows get: the setting `distill_ratio`.

VeRL has computed old log-probs on the question, because that is the prompt our agent loop returned;
the sampler's own are under the template. Only distilled rows are touched here. With `templated` a KL in the
reward, which VeRL computes later from the same field, is wrong for these rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.protocol import DataProto
from verl.utils.debug.metrics import calculate_debug_metrics

from prompt_coevo.doors.ratio_tensors import distil_ratio
from prompt_coevo.settings import Settings

_OLD, _SAMPLER, _MASK = "old_log_probs", "rollout_log_probs", "response_mask"


def apply_ratio(
    settings: Settings, keys: Sequence[str], distilled: Sequence[str], partition: str
) -> dict[str, Any]:
    """Change the `distilled` among the rows `keys` in TransferQueue; there must be some.

    Returns VeRL's metrics of the difference between sampler and trainer again, as they are without the
    template's part in it.
    """
    fields = [_OLD, _SAMPLER, _MASK]
    rows = tq.kv_batch_get(keys=list(distilled), partition_id=partition, select_fields=fields)
    changed = TensorDict(_changed(settings, rows), batch_size=len(distilled))
    tq.kv_batch_put(keys=list(distilled), partition_id=partition, fields=changed)
    data = tq.kv_batch_get(
        keys=list(keys), partition_id=partition, select_fields=["responses", *fields]
    )
    metrics: dict[str, Any] = calculate_debug_metrics(DataProto(batch=data.to_padded_tensor()))
    return metrics


def _changed(settings: Settings, rows: TensorDict) -> dict[str, torch.Tensor]:
    """Jagged tensors of rows that are all distilled."""
    mask = rows[_MASK]
    tokens = mask.values()
    new = distil_ratio(
        settings.distill_ratio,
        settings.distill_band,
        on_question=rows[_OLD].values(),
        on_rollout_prompt=rows[_SAMPLER].values(),
        distilled=torch.ones_like(tokens, dtype=torch.bool),
    )
    keep = None if new.keep is None else tokens * new.keep.to(tokens.dtype)
    return {
        name: torch.nested.nested_tensor_from_jagged(values, mask.offsets())
        for name, values in ((_OLD, new.old), (_SAMPLER, new.sampler), (_MASK, keep))
        if values is not None
    }
