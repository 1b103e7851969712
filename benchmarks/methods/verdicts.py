"""Make the table of verdicts: the first sentences of docs/results.md rest on it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import language_model
import tabular
import transformer
from language_page import GROUPS, scored
from language_studied import WORLD
from store import Run
from tables import AREA, Claim, outcome


@dataclass(frozen=True)
class Row:
    """A claim about the runs of a place, and its questions in a reader's words."""

    place: str
    questions: str
    claim: Claim


_OVER_RUN: Final = "mean over the run"
_MODEL: Final = "language model"
_SMALL: Final = "small transformer"
_FEWER: Final = "small transformer, fewer hard questions"
_EARLIER: Final = "small transformer, earlier `stream`"
_C, _E = "table world C, earlier `stream`", "table world E, earlier `stream`"
ROWS: Final = (
    Row(_MODEL, "task unstated", Claim("stream", "grpo")),
    Row(_MODEL, f"task unstated, {_OVER_RUN}", Claim("stream", "grpo", column=AREA)),
    Row(_MODEL, "task stated", Claim("stream", "grpo", "plain")),
    Row(_MODEL, f"task stated, {_OVER_RUN}", Claim("stream", "grpo", "plain", AREA)),
    Row(_MODEL, "task unstated", Claim("stream", "grpo-twice")),
    Row(_MODEL, "task stated", Claim("stream", "grpo-twice", "plain")),
    Row(_MODEL, "task unstated", Claim("stream", "p2o")),
    Row(_MODEL, "task unstated", Claim("p2o", "grpo")),
    Row(_MODEL, f"task unstated, {_OVER_RUN}", Claim("p2o", "grpo", column=AREA)),
    Row(_MODEL, "task unstated", Claim("stream", "drawn")),
    Row(_MODEL, "task unstated", Claim("blind", "grpo")),
    Row(_MODEL, "task unstated", Claim("stream", "blind")),
    Row(_MODEL, "task unstated", Claim("random", "grpo")),
    Row(_MODEL, "task unstated", Claim("stream", "random")),
    Row(_MODEL, "task unstated", Claim("stream", "hints")),
    Row(_MODEL, "task unstated", Claim("stream", "sft")),
    Row(_SMALL, "hard", Claim("stream", "grpo")),
    Row(_SMALL, "medium", Claim("stream", "grpo", "medium")),
    Row(_SMALL, f"medium, {_OVER_RUN}", Claim("stream", "grpo", "medium", AREA)),
    Row(_SMALL, "easy", Claim("stream", "grpo", "easy")),
    Row(_FEWER, "hard", Claim("stream", "grpo")),
    Row(_FEWER, f"medium, {_OVER_RUN}", Claim("stream", "grpo", "medium", AREA)),
    Row(_EARLIER, "hard", Claim("stream", "p2o")),
    Row(_EARLIER, "medium", Claim("p2o", "grpo", "medium")),
    Row(_EARLIER, "hard", Claim("stream", "gold-hints")),
    Row(_EARLIER, "hard", Claim("stream", "frozen-first")),
    Row(_EARLIER, f"hard, {_OVER_RUN}", Claim("stream", "frozen-first", column=AREA)),
    Row(_C, "hard", Claim("stream", "p2o")),
    Row(_C, "hard", Claim("p2o", "search, then train")),
    Row(_C, "all", Claim("inspo", "static", "all")),
    Row(_C, "all", Claim("inspo", "inspo, after", "all")),
    Row(_E, "hard", Claim("stream", "true hints")),
)


def blocks(stores: Mapping[str, Sequence[Run]]) -> dict[str, Callable[[], str]]:
    """Return the table, by name."""
    return {"verdicts": lambda: verdicts(stores)}


def verdicts(stores: Mapping[str, Sequence[Run]]) -> str:
    """Show each claim with its paired difference and what came of it."""
    transformers = transformer.labels()
    few = [run for run in stores["transformer"] if run["draw"] == 0 and run["seed"] < 3]
    headline = [run for run in stores["transformer"] if run["arm"] in transformer.HEADLINE]
    unnamed = [run for run in stores["language_model"] if run["world"] == WORLD]
    places = {
        _MODEL: scored(unnamed, GROUPS),
        _SMALL: stores["search"],
        _FEWER: stores["balanced"],
        _EARLIER: [*few, *(run for run in headline if run not in few)],
        _C: [run for run in stores["tabular"] if run["world"] == "C"],
        _E: [run for run in stores["tabular"] if run["world"] == "E"],
    }
    names = dict.fromkeys((_C, _E), tabular.labels()) | {_MODEL: language_model.labels()}
    lines = ["| above | below | questions | in | pairs | difference | |", "|---" * 7 + "|"]
    for row in ROWS:
        labels = names.get(row.place, transformers)
        cells = [labels[row.claim.better], labels[row.claim.worse], row.questions, row.place]
        cells += outcome(places[row.place], row.claim)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)
