"""Groups under several prompts: asked for in parts, and joined again.

A Ray task imports the module that its function is in, so this one imports little.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

import ray

if TYPE_CHECKING:
    from prompt_coevo.adapters.openrlhf.host import Dispatch, Label, Reference, Response, Tag

TAG: Final = "coevo"
"""The entry of a response that says which member of which group it is."""


class AskedGroup(NamedTuple):
    """The rollouts of one question: who is asked which prompt."""

    label: Label
    members: Mapping[str, list[Tag]]


def dispatch_groups(
    dispatch: Dispatch, groups: Sequence[AskedGroup], generate_kwargs: Mapping[str, object]
) -> list[Reference]:
    """One reference per group, whatever number of prompts it has: OpenRLHF takes what stands together
    for a group."""
    wanted = [
        (number, text, group.label, len(tags))
        for number, group in enumerate(groups)
        for text, tags in group.members.items()
    ]
    references: dict[tuple[int, str], Reference] = {}
    for count in sorted({one[3] for one in wanted}):
        same = [one for one in wanted if one[3] == count]
        kwargs = {**generate_kwargs, "n_samples_per_prompt": count}
        found = dispatch([one[1] for one in same], [one[2] for one in same], **kwargs)
        references.update({one[:2]: ref for one, ref in zip(same, found, strict=True)})
    return [
        join.remote(
            list(group.members.values()), *[references[number, text] for text in group.members]
        )
        for number, group in enumerate(groups)
    ]


@ray.remote(num_cpus=0)  # type: ignore[untyped-decorator]
def join(tags: Sequence[Sequence[Tag]], *parts: Sequence[Response]) -> list[Response]:
    """All responses in the order of their tags, each with its tag."""
    tagged: list[Response] = [
        {**response, "prompt": str(response["prompt"]), TAG: tag}
        for of_part, part in zip(tags, parts, strict=True)
        for tag, response in zip(of_part, part, strict=True)
    ]
    return sorted(tagged, key=lambda response: response[TAG])
