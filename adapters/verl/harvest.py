"""From rows in VeRL's TransferQueue to scored rollouts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import transfer_queue as tq
from transformers import PreTrainedTokenizerBase

from prompt_coevo.adapters.verl.distil import COLUMN, ERROR, STATUS
from prompt_coevo.doors.policy import aborted
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment, PolicyVersion, Rollout

_Row: TypeAlias = tuple[str, float, dict[str, Any]]
"""Completion, reward and extra fields."""


def session(key: str) -> tuple[str, int]:
    """Which rollout a row belongs to, by its group's uid and its number in it; keys are
    `{uid}_{session}_{output}`."""
    uid, number, _ = key.rsplit("_", 2)
    return uid, int(number)


def distilled(keys: Sequence[str], planned: Mapping[str, Sequence[Assignment]]) -> list[str]:
    """Those of some rows that were sampled under a template and are trained on without it."""
    sessions = {key: session(key) for key in keys}
    return [key for key, (uid, member) in sessions.items() if planned[uid][member].distilled]


def collect(
    keys: Sequence[str],
    partition: str,
    planned: Mapping[str, Sequence[Assignment]],
    tokenizer: PreTrainedTokenizerBase,
    version: PolicyVersion,
) -> list[Rollout]:
    """The rollouts of whole groups, in the order of `planned`: uids and their assignments.

    `keys` are the rows there are, in any order. The last output of a rollout holds its reward. A
    rollout without a row was aborted. Raises HostError if a row did not run as planned.
    """
    in_order = sorted(keys, key=lambda key: int(key.rsplit("_", 1)[1]))
    last = {session(key): key for key in in_order}
    found = dict(zip(last, _read(list(last.values()), partition, tokenizer), strict=True))
    return [
        _rollout(assignment, found.get((uid, member)), version)
        for uid, assignments in planned.items()
        for member, assignment in enumerate(assignments)
    ]


def _read(keys: list[str], partition: str, tokenizer: PreTrainedTokenizerBase) -> list[_Row]:
    if not keys:
        return []
    data = tq.kv_batch_get(
        keys=keys, partition_id=partition, select_fields=["responses", "rm_scores", "extra_fields"]
    )
    texts = [tokenizer.decode(ids, skip_special_tokens=True) for ids in data["responses"].unbind()]
    rewards = [float(scores.sum()) for scores in data["rm_scores"].unbind()]
    extras = [getattr(extra, "data", extra) for extra in data["extra_fields"]]
    return list(zip(texts, rewards, extras, strict=True))


def _rollout(assignment: Assignment, row: _Row | None, version: PolicyVersion) -> Rollout:
    if row is None:
        return aborted(assignment, version)
    text, reward, extra = row
    if extra.get(ERROR):
        raise HostError(extra[ERROR])
    ran_as = list(extra.get(COLUMN) or ())
    if ran_as != [assignment.round, assignment.group, assignment.member]:
        raise HostError(
            f"a rollout of question {assignment.question_id!r} did not run through the agent loop of "
            f"+coevo (it reports {ran_as}); an agent loop manager that ignores agent_name cannot be "
            "served"
        )
    return Rollout.scored(assignment, text, reward, version, extra.get(STATUS))
