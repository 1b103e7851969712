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

from prompt_coevo.doors.ratio_tensors import band_mask
from prompt_coevo.settings import Settings


class DistillRatio:
    """Applies `distill_ratio` to rows in TransferQueue, after VeRL computed old log-probs."""

    def __init__(self, settings: Settings, has_sampler_logps: bool) -> None:
        self._mode = settings.distill_ratio
        self._band = settings.distill_band
        self._has_sampler_logps = has_sampler_logps

    def apply(
        self, keys: Sequence[str], distilled: Sequence[str], partition: str
    ) -> dict[str, Any]:
        """Change the `distilled` among the rows `keys`; returns VeRL's metrics of the difference
        between sampler and trainer again, as they are without the template's part in it."""
        if not distilled or not self._has_sampler_logps:
            return {}
        fields = ["old_log_probs", "rollout_log_probs", "response_mask"]
        rows = tq.kv_batch_get(keys=list(distilled), partition_id=partition, select_fields=fields)
        changed = self._changed(rows["old_log_probs"], rows["rollout_log_probs"], rows)
        tq.kv_batch_put(
            keys=list(distilled),
            partition_id=partition,
            fields=TensorDict(changed, batch_size=len(distilled)),
        )
        data = tq.kv_batch_get(
            keys=list(keys), partition_id=partition, select_fields=["responses", *fields]
        )
        metrics: dict[str, Any] = calculate_debug_metrics(DataProto(batch=data.to_padded_tensor()))
        return metrics

    def _changed(
        self, on_question: torch.Tensor, by_sampler: torch.Tensor, rows: TensorDict
    ) -> dict[str, torch.Tensor]:
        """Jagged tensors of the distilled rows. Afterwards both log-probs are under the same prompt, so
        no correction for the sampler sees the template."""
        if self._mode == "templated":
            return {"old_log_probs": by_sampler}
        changed = {"rollout_log_probs": on_question}
        if self._mode == "band":
            keep = band_mask(on_question.values(), by_sampler.values(), *self._band)
            mask = rows["response_mask"]
            changed["response_mask"] = torch.nested.nested_tensor_from_jagged(
                mask.values() * keep.to(mask.dtype), mask.offsets()
            )
        return changed
