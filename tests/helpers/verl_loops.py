"""Define agent loops that do what third-party loops may do. They build prompts as VeRL's do."""

from __future__ import annotations

from typing import Any

from verl.experimental.agent_loop.agent_loop import AgentLoopMetrics, AgentLoopOutput


class Loop:
    """A loop whose prompt ids are its texts' lengths; what it was given is in `extra_fields`."""

    def __init__(self, **parts: Any) -> None:
        self.parts = parts

    async def ct_build_initial_tokens(self, messages: Any, tools: Any = None) -> list[int]:
        return [len(message["content"]) for message in messages]

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
        ids = await self.ct_build_initial_tokens(row["raw_prompt"], tools=[])
        return self.output(ids, sampling_params, row)

    def output(self, ids: list[int], sampling_params: dict[str, Any], row: dict[str, Any]) -> Any:
        extra = {"sampling": sampling_params, "row": row, "parts": self.parts}
        return AgentLoopOutput(
            prompt_ids=ids,
            response_ids=[1, 2, 3],
            response_mask=[1, 1, 1],
            metrics=AgentLoopMetrics(),
            extra_fields=extra,
        )


class TwoOutputs(Loop):
    """A loop with two outputs; the second begins with all of the first."""

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
        one = await super().run(sampling_params, **row)
        behind = [*one.prompt_ids, *one.response_ids, 9]
        return [one, self.output(behind, sampling_params, row)]


class BeforeContinuousTokens(Loop):
    """A loop as of VeRL 0.9.0."""

    async def apply_chat_template(self, messages: Any, **_: Any) -> list[int]:
        return [len(message["content"]) for message in messages]

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
        return self.output(
            await self.apply_chat_template(row["raw_prompt"], tools=None), sampling_params, row
        )


class Secretive(Loop):
    """A loop that prefixes its prompt after it was built, so its prompt cannot be exchanged."""

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
        output = await super().run(sampling_params, **row)
        output.prompt_ids = [7, *output.prompt_ids]
        return output


class Deaf(Loop):
    """A loop that builds its prompt from another column of its row."""

    async def run(self, sampling_params: dict[str, Any], **row: Any) -> Any:
        return await super().run(sampling_params, **{**row, "raw_prompt": row["own"]})
