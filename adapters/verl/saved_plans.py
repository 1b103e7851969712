"""Plans of groups as JSON, for trainers whose checkpoints hold rollouts that were sampled ahead."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from prompt_coevo.errors import HostError
from prompt_coevo.lines import JSON
from prompt_coevo.types import Assignment, Candidate

_PARTS = ("instruction", "template")


def plans_to_json(groups: Mapping[str, Sequence[Assignment]]) -> dict[str, JSON]:
    """Convert plans, by the trainer's names for groups. A text that many rollouts share appears once."""
    candidates: dict[str, JSON] = {}
    plans: dict[str, list[JSON]] = {}
    for name, group in groups.items():
        plans[name] = []
        for one in group:
            line = {**vars(one), "placement": dict(vars(one.placement))}
            for part in _PARTS:
                candidate: Candidate | None = line[part]
                if candidate is not None:
                    candidates.setdefault(candidate.id, candidate.to_json())
                    line[part] = candidate.id
            plans[name].append(line)
    return {"candidates": candidates, "groups": plans}


def plans_from_json(data: Mapping[str, Any]) -> dict[str, list[Assignment]]:
    """Convert the output of `plans_to_json` back. Raises HostError for anything else."""
    try:
        texts = data["candidates"]
        return {
            name: [
                Assignment.from_json(
                    {**line, **{part: texts[line[part]] if line[part] else None for part in _PARTS}}
                )
                for line in group
            ]
            for name, group in data["groups"].items()
        }
    except (AttributeError, LookupError, TypeError) as error:
        raise HostError(
            f"the plans in a checkpoint cannot be read ({type(error).__name__}: {error}); resume from "
            "another one"
        ) from None
