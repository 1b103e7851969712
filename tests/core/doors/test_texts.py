from __future__ import annotations

from typing import Any

import pytest

from prompt_coevo.doors.texts import completion_text

CALL = {"role": "assistant", "content": None}
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
        (
            [CALL, PARTS, {"role": "assistant", "content": "42"}],
            "assistant: \ntool: found\nit\nassistant: 42",
        ),
    ],
)
def test_a_completion_as_one_text(completion: Any, text: str) -> None:
    assert completion_text(completion) == text
