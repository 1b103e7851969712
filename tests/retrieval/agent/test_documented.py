"""Check that the documentation of the search agent's settings matches the code."""

from __future__ import annotations

import json
from pathlib import Path

from prompt_coevo.retrieval.agent.settings import SearchAgentSettings

DOCUMENT = Path(__file__).parents[3] / "docs" / "settings.md"


def test_every_setting_is_documented() -> None:
    rows = []
    for name, field in SearchAgentSettings.model_fields.items():
        default = "none" if field.default is None else json.dumps(field.default)
        rows.append(f"| `{name}` | `{default}` | {' '.join((field.description or '').split())} |")
    table = "\n".join(["| setting | default | |", "|---|---|---|", *rows])
    assert DOCUMENT.read_text("utf-8").endswith(f"\n\n{table}\n")
