"""Old log-probs of distilled rows after the prompt that they were sampled under: `distill_forward`.

Copies of these rows, with that prompt in front, go into a partition of ours, and VeRL computes their
log-probs like those of any batch. The copied data passes through the driver.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from typing import Final

import torch
import transfer_queue as tq
from tensordict import TensorDict
from transfer_queue import KVBatchMeta

from prompt_coevo.adapters.verl.distill import ERROR, ROLLED_OUT
from prompt_coevo.adapters.verl.rollouts import extras_of
from prompt_coevo.errors import HostError

PARTITION: Final = "coevo_rollout_prompts"
_COPIED: Final = ("responses", "response_mask", "loss_mask", "rollout_log_probs")
_READ: Final = (*_COPIED, "position_ids", "multi_modal_inputs", "extra_fields")


def after_rollout_prompts(
    distilled: Sequence[str], batch: KVBatchMeta, compute: Callable[[KVBatchMeta], KVBatchMeta]
) -> torch.Tensor:
    """Return log-probs of the responses of these rows after the prompts they ran under, jagged, (B, T).

    `compute` is VeRL's part: it writes `old_log_probs` of a batch and returns it, perhaps with padding
    rows. Raises HostError for rows with images, and for rows whose prompt was not recorded.
    """
    rows = tq.kv_batch_get(
        keys=list(distilled), partition_id=batch.partition_id, select_fields=list(_READ)
    )
    tags = dict(zip(batch.keys, batch.tags, strict=True))
    copies = _with_rollout_prompts(rows)
    lengths = copies["prompts"].offsets().diff().tolist()
    tagged = [
        {**tags[key], "prompt_len": length, "seq_len": length + tags[key]["response_len"]}
        for key, length in zip(distilled, lengths, strict=True)
    ]
    copied = tq.kv_batch_put(
        keys=list(distilled), partition_id=PARTITION, fields=copies, tags=tagged
    )
    keys = copied.keys
    try:
        keys = compute(copied).keys
        found = tq.kv_batch_get(
            keys=list(distilled), partition_id=PARTITION, select_fields=["old_log_probs"]
        )
    finally:
        tq.kv_clear(keys=list(keys), partition_id=PARTITION)
    log_probs: torch.Tensor = found["old_log_probs"]
    return log_probs


def _with_rollout_prompts(rows: TensorDict) -> TensorDict:
    extras = extras_of(rows)
    if told := [extra[ERROR] for extra in extras if extra.get(ERROR)]:
        raise HostError(told[0])
    if not all(ROLLED_OUT in extra for extra in extras):
        raise HostError(
            "coevo.distill_forward needs the prompts that rollouts ran under, but those of rollouts "
            "sampled before it was switched on were not recorded; resume without it"
        )
    prompts = [torch.tensor(array("i", extra[ROLLED_OUT]), dtype=torch.int64) for extra in extras]
    pairs = zip(prompts, rows["responses"].unbind(), strict=True)
    sequences = [torch.cat(pair) for pair in pairs]
    if "multi_modal_inputs" in rows.keys() and any(  # noqa: SIM118 (over a TensorDict it is its rows)
        getattr(one, "data", one) for one in rows["multi_modal_inputs"]
    ):
        raise HostError(
            "coevo.distill_forward cannot place images under a template; leave it out, or train on rows "
            "without images"
        )
    positions = [
        torch.arange(len(ids)).expand(*old.shape[:-1], len(ids))
        for ids, old in zip(sequences, rows["position_ids"].unbind(), strict=True)
    ]
    fields = {name: rows[name] for name in _COPIED if name in rows.keys()}  # noqa: SIM118
    for name, values in (
        ("prompts", prompts),
        ("input_ids", sequences),
        ("position_ids", positions),
    ):
        fields[name] = torch.nested.as_nested_tensor(values, layout=torch.jagged)
    return TensorDict(fields, batch_size=len(prompts))
