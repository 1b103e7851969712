"""Which old log-probs distilled rows get: the setting `distill_ratio`.

VeRL has computed old log-probs on the question, because that is the prompt our agent loop returned;
the sampler's own are under the template. Only distilled rows are touched here, before VeRL computes
advantages. With `templated` the loss alone gets the sampler's: a KL in the reward and corrections for
the sampler read the same fields before, and are on the question. Therefore these rows' log-probs are
exchanged afterwards. So is the mask, with `band`: a reward that stands at a token which leaves the loss
still belongs to the tokens before it.
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
from prompt_coevo.doors.ratio_tensors import TEMPLATE_EFFECT, distil_ratio, template_effect
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
        self,
        keys: Sequence[str],
        distilled: Sequence[str],
        partition: str,
        under_template: torch.Tensor | None = None,
    ) -> dict[str, Any]:
        """Change the `distilled` among the rows `keys` in TransferQueue, when there are old log-probs.

        `under_template`: theirs after what they were sampled under, jagged, (B, T), with `distill_forward`.
        Returns VeRL's metrics of the difference between sampler and trainer again, as they are without the
        template's part in it, which is another metric then. Raises HostError for rows that are not as they
        must be.
        """
        self._exchanged = set(distilled)
        if distilled and not self._is_checked:
            check_distilled(distilled, partition)
            self._is_checked = True
        metrics: dict[str, Any] = {}
        if not distilled or not (self._has_sampler or under_template is not None):
            return metrics
        fields = list(_FIELDS) if self._has_sampler else [_OLD, _MASK]
        rows = tq.kv_batch_get(keys=list(distilled), partition_id=partition, select_fields=fields)
        if under_template is not None:
            metrics[TEMPLATE_EFFECT] = _effect(rows, under_template)
        if not self._has_sampler:
            return metrics
        self._change(list(distilled), partition, rows, under_template)
        fields = ["responses", *_FIELDS]
        data = tq.kv_batch_get(keys=list(keys), partition_id=partition, select_fields=fields)
        metrics.update(calculate_debug_metrics(DataProto(batch=data.to_padded_tensor())))
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

    def _change(
        self, keys: list[str], partition: str, rows: TensorDict, under_template: torch.Tensor | None
    ) -> None:
        if missing := sorted(set(_FIELDS) - set(rows.keys())):
            raise HostError(
                f"the rows of a templated round have no {', '.join(missing)} in TransferQueue, so they "
                "cannot be trained on without their template; install a VeRL that this adapter supports"
            )

        def put(values: dict[str, torch.Tensor]) -> None:
            fields = TensorDict(values, batch_size=len(keys))
            tq.kv_batch_put(keys=keys, partition_id=partition, fields=fields)

        sampler, keep = _changed(self._settings, rows, under_template)
        put({_SAMPLER: sampler})
        if keep is not None:

            def leave_out() -> None:
                now = tq.kv_batch_get(keys=keys, partition_id=partition, select_fields=[_MASK])
                mask = now[_MASK]  # a correction for the sampler may have changed it
                put({_MASK: _jagged(mask.values() * keep.to(mask.values().dtype), mask.offsets())})

            self._after = leave_out
        if self._settings.distill_ratio == "templated":
            old = rows[_SAMPLER] if under_template is None else under_template
            self._after = partial(put, {_OLD: old, _SAMPLER: rows[_SAMPLER]})


def _changed(
    settings: Settings, rows: TensorDict, under_template: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """The sampler's log-probs of rows that are all distilled, jagged, as they are until advantages are
    computed; and which of all their tokens stay in the loss, (tokens,), None if all do."""
    tokens, sampler, offsets = rows[_MASK].values(), rows[_SAMPLER].values(), rows[_MASK].offsets()
    new = distil_ratio(
        "band" if settings.distill_ratio == "band" else "clean",
        settings.distill_band,
        on_question=rows[_OLD].values(),
        on_rollout_prompt=sampler if under_template is None else under_template.values(),
        distilled=torch.ones_like(tokens, dtype=torch.bool),
        by_sampler=sampler,
        corrects=under_template is not None,
    )
    return _jagged(sampler if new.sampler is None else new.sampler, offsets), new.keep


def _jagged(values: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    return torch.nested.nested_tensor_from_jagged(values, offsets)


def _effect(rows: TensorDict, under_template: torch.Tensor) -> float:
    """What the templates of these rows do to the policy, the mean over their tokens."""
    total, tokens = template_effect(
        rows[_OLD].values(), under_template.values(), rows[_MASK].values()
    )
    return total / tokens if tokens else 0.0
