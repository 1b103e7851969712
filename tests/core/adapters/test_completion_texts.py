from __future__ import annotations

from typing import Any

import pytest

from prompt_coevo.adapters.common.completion_texts import completion_text

CALL = {"role": "assistant", "content": None}
CALLED = "assistant: \ntool: ["
PARTS = {
    "role": "tool",
    "content": [{"type": "text", "text": "found"}, {"type": "text", "text": "it"}],
}


@pytest.mark.parametrize(
    ("completion", "text"),
    [
        ("plain", "plain"),
        ([{"role": "assistant", "content": "one"}], "one"),
        ([CALL], ""),
        ([CALL, {"role": "tool", "content": [("a", 1)]}], "assistant: \ntool: [('a', 1)]"),
        (
            [CALL, {"role": "tool", "content": [{"type": "gene"}, 2]}],
            CALLED + "{'type': 'gene'}, 2]",
        ),
        ([CALL, {"role": "tool", "content": [{"type": "text"}]}], CALLED + "{'type': 'text'}]"),
        (
            [CALL, PARTS, {"role": "assistant", "content": "42"}],
            "assistant: \ntool: found\nit\nassistant: 42",
        ),
    ],
)
def test_a_completion_as_one_text(completion: Any, text: str) -> None:
    assert completion_text(completion) == text
