"""Define a tool for VeRL's tool agent, and the turns of a policy that is too small for tools.

VeRL loads the file as `multi_turn.function_tool_path`, the stand-in server as a script.
"""

from __future__ import annotations

from verl.tools.function_tool import function_tool

OBSERVATION = "nothing was found"
HINT = "say it kindly"


@function_tool
def search(query: str) -> str:
    """Look something up.

    Args:
        query: what to look for.
    """
    return OBSERVATION


def take_turns(prompt: str, sampled: str) -> str:
    """Call the tool first; then give the answer that is right only under the hint."""
    if OBSERVATION not in prompt:
        return '<tool_call>\n{"name": "search", "arguments": {"query": "x"}}\n</tool_call>'
    return "yes" if HINT in prompt else f"no {len(sampled)}"
