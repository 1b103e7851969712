"""An endpoint whose policy answers sums, wrongly by a hundred unless it is told to be exact.

The same server is the reflection model: it answers prompts that ask for candidates.
"""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

MAGIC = "be exact"


def answer(body: dict[str, Any]) -> str:
    """Of the policy, or of the reflection model."""
    text = "\n".join(str(message["content"]) for message in body["messages"])
    if "<ins_0>" in text:
        return "\n".join(f"<ins_{n}>Add. {MAGIC} {n}</ins_{n}>" for n in range(1, 7))
    if "<template>" in text or "<current_template>" in text:
        return f"<template>Please {MAGIC} now.</template>"
    found = re.findall(r"(\d+) \+ (\d+)", text)
    if not found:
        return "ready"
    first, second = map(int, found[-1])
    off = 0 if MAGIC in text or first % 4 == 0 else 100
    return f"The sum is {first + second + off}."


def sums(path: Path, count: int = 16) -> Path:
    """Questions in a JSONL file."""
    rows = [
        {"prompt": f"What is {n} + {n * 7}?", "answer": str(n * 8)} for n in range(1, count + 1)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path
