"""Which old log-probs distilled rows get: the setting `distill_ratio`.

VeRL has computed old log-probs on the question, because that is the prompt our agent loop returned;
the sampler's own are under the template. Only distilled rows are touched here, before VeRL computes
advantages. With `templated` the loss alone gets the sampler's: a KL in the reward and corrections for
the sampler read the same fields before, and are on the question. Therefore these rows' log-probs are
exchanged afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final

import torch
import transfer_queue as tq
from tensordict import TensorDict
from verl.protocol import DataProto
from verl.utils.debug.metrics import calculate_debug_metrics

from prompt_coevo.adapters.verl.contract import check_distilled
from prompt_coevo.doors.ratio_tensors import distil_ratio
from prompt_coevo.errors import HostError
from prompt_coevo.settings import Settings

_OLD, _SAMPLER, _MASK = "old_log_probs", "rollout_log_probs", "response_mask"
_FIELDS: Final = (_OLD, _SAMPLER, _MASK)


class Ratio:
    """Changes the distilled rows of one step after another.

    `has_sampler`: whether there are log-probs of the sampler; without them only `clean` is possible, and
    there is nothing to change.
    """

    def __init__(self, settings: Settings, has_sampler: bool) -> None:
        self._settings = settings
        self._has_sampler = has_sampler
        self._is_checked = False
        self._exchanged: set[str] = set()
        self._after: Callable[[], None] | None = None

    def exchange(
        self, keys: Sequence[str], distilled: Sequence[str], partition: str
    ) -> dict[str, Any]:
        """Change the `distilled` among the rows `keys` in TransferQueue, when there are old log-probs.

        Returns VeRL's metrics of the difference between sampler and trainer again, as they are without the
        template's part in it. Raises HostError for rows that are not as they must be.
        """
        self._exchanged = set(distilled)
        if distilled and not self._is_checked:
            check_distilled(distilled, partition)
            self._is_checked = True
        if not distilled or not self._has_sampler:
            return {}
        self._change(list(distilled), partition)
        fields = ["responses", *_FIELDS]
        data = tq.kv_batch_get(keys=list(keys), partition_id=partition, select_fields=fields)
        metrics: dict[str, Any] = calculate_debug_metrics(DataProto(batch=data.to_padded_tensor()))
        return metrics

    def settle(self, distilled: Sequence[str]) -> None:
        """When advantages are computed of the same rows. Raises HostError if `exchange` was left out."""
        if not self._exchanged.issuperset(distilled):
            raise HostError(
                "VeRL computed advantages before old log-probs, so templated rollouts would be trained "
                "on with those of their template; install a VeRL that this adapter supports"
            )
        self._exchanged.clear()
        if self._after is not None:
            self._after()
        self._after = None

    def _change(self, keys: list[str], partition: str) -> None:
        rows = tq.kv_batch_get(keys=keys, partition_id=partition, select_fields=list(_FIELDS))
        if missing := sorted(set(_FIELDS) - set(rows.keys())):
            raise HostError(
                f"the rows of a templated round have no {', '.join(missing)} in TransferQueue, so they "
                "cannot be trained on without their template; install a VeRL that this adapter supports"
            )

        def put(values: dict[str, torch.Tensor]) -> None:
            fields = TensorDict(values, batch_size=len(keys))
            tq.kv_batch_put(keys=keys, partition_id=partition, fields=fields)

        if self._settings.distill_ratio == "templated":
            self._after = partial(put, {_OLD: rows[_SAMPLER], _SAMPLER: rows[_SAMPLER]})
            put({_SAMPLER: rows[_OLD]})
        else:
            put(_changed(self._settings, rows))


def _changed(settings: Settings, rows: TensorDict) -> dict[str, torch.Tensor]:
    """Jagged tensors of rows that are all distilled, with `clean` and `band`."""
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
