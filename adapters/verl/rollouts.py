"""Convert rows in VeRL's TransferQueue to scored rollouts."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias, TypedDict

import transfer_queue as tq
from tensordict import TensorDict
from transformers import PreTrainedTokenizerBase

from prompt_coevo.adapters.common.late_texts import LateTexts
from prompt_coevo.adapters.common.policy import aborted
from prompt_coevo.adapters.common.success import Success
from prompt_coevo.adapters.verl.distill import COLUMN, ERROR, REWARD, STATUS, Extra
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment, PolicyVersion, Rollout

_Row: TypeAlias = tuple[str, float, Extra]
"""Key, reward and extra fields."""
SampledBy: TypeAlias = Callable[[Extra], PolicyVersion]
"""Reads the policy version that a rollout began with from its extra fields."""

BEGAN_WITH: Final = "min_global_steps"
"""VeRL's extra field for the weights that a rollout began with: the global step after which they came."""

ADVICE: Final = "install a VeRL that this adapter supports, such as 0.9.1"
_AT_ONCE: Final = 512
"""Responses fetched per call; at 8 000 tokens each they are 33 MB."""


_STATUSES: Final = {"pending": False, "running": False, "finished": True, "failure": True}
"""VeRL's statuses of a group, and which of them say that it has ended."""


class Tag(TypedDict, total=False):
    """The tags of a row or a rollout that we read. There are more."""

    is_prompt: bool
    is_padding: bool
    status: str


def tags_of(partition: str) -> dict[str, Tag]:
    """Return the tags of all rows and rollouts of a partition, by key."""
    tags: dict[str, Tag] = (tq.kv_list(partition) or {}).get(partition, {})
    return tags


def is_over(tag: Tag) -> bool:
    """Check whether a group has ended, successfully or not.

    Raises HostError for an unknown status, for which the adapter would wait without end.
    """
    if (status := tag.get("status")) not in _STATUSES:
        raise HostError(
            f"VeRL reports the status {status!r} of a group, which +coevo does not know; {ADVICE}"
        )
    return _STATUSES[status]


def over(tags: Mapping[str, Tag]) -> set[str]:
    """Return the keys of groups that have ended, successfully or not."""
    return {key for key, tag in tags.items() if tag.get("is_prompt") and is_over(tag)}


def extras_of(rows: TensorDict) -> list[Extra]:
    """Return VeRL's column `extra_fields` row by row, unwrapped where VeRL wraps it."""
    return [getattr(extra, "data", extra) for extra in rows["extra_fields"]]


def session(key: str) -> tuple[str, int]:
    """Return the rollout that a row belongs to: its group's uid and its number in the group. Keys are
    `{uid}_{session}_{output}`."""
    uid, number, _ = key.rsplit("_", 2)
    return uid, int(number)


def distilled(keys: Sequence[str], planned: Mapping[str, Sequence[Assignment]]) -> list[str]:
    """Return the keys of rows that were sampled under a template and are trained on without it."""
    return [key for key in keys if _assigned(key, planned).distilled]


def _assigned(key: str, planned: Mapping[str, Sequence[Assignment]]) -> Assignment:
    """Return a row's assignment. Raises HostError for a rollout that was not planned."""
    uid, member = session(key)
    if member >= len(group := planned[uid]):
        raise HostError(
            f"question {group[0].question_id!r} came back with more than the {len(group)} rollouts that "
            "were planned; leave a column __rollout_n__ out of the dataset, or set rollout.n"
        )
    return group[member]


def unpunished(
    keys: Sequence[str], rollouts: Sequence[Rollout], planned: Mapping[str, Sequence[Assignment]]
) -> list[str]:
    """Return the keys of rows whose rollout gets no negative advantage; `rollouts` are in the order of
    `planned`."""
    sessions = [(uid, member) for uid, group in planned.items() for member in range(len(group))]
    left = {
        where
        for where, one in zip(sessions, rollouts, strict=True)
        if one.assignment.unpunished(one.reward)
    }
    return [key for key in keys if session(key) in left]


def collect(
    keys: Sequence[str],
    partition: str,
    planned: Mapping[str, Sequence[Assignment]],
    texts: LateTexts,
    sampled_by: SampledBy,
    success: Success,
) -> list[Rollout]:
    """Build the rollouts of whole groups, in the order of `planned` (uids and their assignments).

    `keys` are the existing rows, in any order. The last output of a rollout holds its reward. A rollout
    without a row was aborted. Completions stay in TransferQueue until `texts` is asked for them.
    `sampled_by` reads the policy version from a row's extra fields, `success` picks the reward that
    counts. Raises HostError if a row did not run as planned, or lacks that reward.
    """
    in_order = sorted(keys, key=lambda key: int(key.rsplit("_", 1)[1]))
    last = {session(key): key for key in in_order}
    found = dict(zip(last, _read(list(last.values()), partition), strict=True))
    return [
        _rollout(assignment, found.get((uid, member)), texts, sampled_by, success)
        for uid, assignments in planned.items()
        for member, assignment in enumerate(assignments)
    ]


def texts_of(keys: Sequence[str], partition: str, tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """Fetch and decode the completions of some rows."""
    texts: list[str] = []
    for some in (list(keys[start : start + _AT_ONCE]) for start in range(0, len(keys), _AT_ONCE)):
        data = tq.kv_batch_get(keys=some, partition_id=partition, select_fields=["responses"])
        texts += tokenizer.batch_decode(data["responses"].unbind(), skip_special_tokens=True)
    return texts


def _read(keys: list[str], partition: str) -> list[_Row]:
    if not keys:
        return []
    data = tq.kv_batch_get(keys=keys, partition_id=partition, select_fields=["extra_fields"])
    extras = extras_of(data)
    rewards = {
        key: reward
        for key, extra in zip(keys, extras, strict=True)
        if (reward := extra.get(REWARD)) is not None
    }
    # A reward model that shares the rollout's devices delivers its rewards later.
    if later := [key for key in keys if key not in rewards]:
        data = tq.kv_batch_get(keys=later, partition_id=partition, select_fields=["rm_scores"])
        scores = data["rm_scores"].unbind()
        rewards |= {key: float(one.sum()) for key, one in zip(later, scores, strict=True)}
    return [(key, rewards[key], extra) for key, extra in zip(keys, extras, strict=True)]


def _rollout(
    assignment: Assignment,
    row: _Row | None,
    texts: LateTexts,
    sampled_by: SampledBy,
    success: Success,
) -> Rollout:
    if row is None:
        return aborted(assignment, sampled_by({}))
    key, reward, extra = row
    if extra.get(ERROR):
        raise HostError(extra[ERROR])
    ran_as = list(extra.get(COLUMN) or ())
    if ran_as != [assignment.round, assignment.group, assignment.member]:
        raise HostError(
            f"a rollout of question {assignment.question_id!r} did not run through the agent loop of "
            f"+coevo (it reports {ran_as}); +coevo does not support an agent loop manager that ignores "
            "agent_name"
        )
    if extra.get(BEGAN_WITH) is None:
        raise HostError(
            f"a rollout does not say with which weights it began ({BEGAN_WITH} in its extra_fields), so "
            f"its staleness is unknown; let your agent loop keep what the server returns, or {ADVICE}"
        )
    version, status = sampled_by(extra), extra.get(STATUS)
    values = {"reward": reward, **(extra.get("reward_extra_info") or {})}
    decides = success.of(reward, values)
    return Rollout.scored(assignment, texts.late(key), decides, version, status)
