"""A tool for VeRL's tool agent, and the turns that a policy too small for tools takes.

Loaded by VeRL as `multi_turn.function_tool_path`, and by the stand-in server as a script.
"""

from __future__ import annotations

from verl.tools.function_tool import function_tool

OBSERVATION = "note now carefully"


@function_tool
def search(query: str) -> str:
    """Look something up.

    Args:
        query: what to look for.
    """
    return OBSERVATION


def take_turns(prompt: str, sampled: str) -> str | None:
    """A call of the tool in the first turn; afterwards what the model says."""
    if OBSERVATION in prompt:
        return None
    return '<tool_call> {"name": "search", "arguments": {"query": "x"}} </tool_call>'
