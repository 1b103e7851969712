"""The first instruction of a search agent."""

from __future__ import annotations

from typing import Final

SEARCH_INSTRUCTION: Final = (
    "Answer the given question. You must conduct reasoning inside <think> and </think> first every "
    "time you get new information. After reasoning, if you find you lack some knowledge, you can "
    "call a search engine by <search> query </search> and it will return the top searched results "
    "between <information> and </information>. You can search as many times as your want. If you "
    "find no further external knowledge needed, you can directly provide the answer inside "
    "<answer> and </answer>, without detailed illustrations. For example, <answer> Beijing </answer>."
)
"""Search-R1's instruction, word for word: INSPO's first instruction (arXiv:2512.01945, appendix F)."""
