"""Make the page of adapter capabilities: from the laws, the harnesses' `lacks`, settings and packages.

What a host cannot do is declared once, by the harness that applies the laws to its adapter (`lacks`); the
tests enforce every other law. So the page cannot claim more than is tested.
"""

from __future__ import annotations

import ast
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from prompt_coevo.testing.adapter import LAWS

ROOT: Final = Path(__file__).resolve().parent.parent
ADAPTERS: Final[Mapping[str, tuple[str, str, str]]] = {
    "TRL": ("tests/helpers/trl_under_test.py", "adapters/trl", "trl"),
    "VeRL": ("tests/helpers/verl_under_test.py", "adapters/verl", "verl"),
    "OpenRLHF": ("tests/helpers/openrlhf_under_test.py", "adapters/openrlhf", "openrlhf"),
    "own trainer": ("tests/helpers/own_adapter_run.py", "docs/examples/own_adapter.py", ""),
}
"""By the name of the adapter: its harness, its sources and its package."""
_WORDS: Final = {
    "late rollouts": "rollouts of a round may come after the next one was planned",
    "rollouts in parts": "a group may come in parts",
    "rewards of none": "a reward may be missing",
    "evaluation": "its evaluation runs under the best instruction",
    "log-probs": "log-probs of distilled rows are on the question",
    "live greedy": "a search's rollouts are by the current weights",
    "host state": "a search leaves the host's state as it was",
    "temperatures": "each request of a search has its temperature",
    "exact resume": "a resumed run goes on as the uninterrupted one",
    "steps in checkpoints": "the end of a step is told before its checkpoint is written",
    "ranks": "several processes that each have the adapter",
    "failing rewards": "tested with rewards that raise in a search ([the rule](adapters.md#what-raises))",
}
_PAGE: Final = """\
# What each adapter can do

<!-- Made by tools/pages.py from the laws, the harnesses and pyproject.toml. -->

{count} [laws](laws.md) are put to every adapter, with the real trainer in it. A law that needs what a
host cannot have does not apply to it; the reasons are below. In these tests VeRL, OpenRLHF and TRL's vLLM
ran with [stand-ins](testing.md#the-real-vllm), never on a GPU; options of the trainers are on the pages of
[TRL](trl.md#what-works), [VeRL](verl.md#what-works) and [OpenRLHF](openrlhf.md#what-works).

{table}

Methods (`stream`, P2O, INSPO, hints, and installed ones), searches, gates, budgets and the journal
are the engine's, and the same behind every adapter. "own trainer" is [the adapter for a trainer of one's
own](adapters.md).

## Why not

{reasons}
"""


def capabilities_page() -> str:
    lacks = {adapter: _lacks(ROOT / harness) for adapter, (harness, _, _) in ADAPTERS.items()}
    return _PAGE.format(
        count=len(LAWS), table="\n".join(_table(lacks)), reasons="\n".join(_reasons(lacks))
    )


def _table(lacks: Mapping[str, Mapping[str, str]]) -> list[str]:
    rows = [["", *ADAPTERS], ["---"] * (len(ADAPTERS) + 1)]
    rows.append(["versions", *(_versions(package) for _, _, package in ADAPTERS.values())])
    applying = [
        sum(not set(law.needs) & set(lacks[adapter]) for law in LAWS.values())
        for adapter in ADAPTERS
    ]
    rows.append(["laws that hold", *(f"{number} of {len(LAWS)}" for number in applying)])
    for name, words in _WORDS.items():
        rows.append([words, *("no" if name in lacks[adapter] else "yes" for adapter in ADAPTERS)])
    rows.append(
        [
            "the [search agent](search-agent.md)",
            *(_agent(ROOT / s) for _, s, _ in ADAPTERS.values()),
        ]
    )
    return [f"| {' | '.join(row)} |" for row in rows]


def _reasons(lacks: Mapping[str, Mapping[str, str]]) -> list[str]:
    return [
        f"- **{adapter}**, {_WORDS[name].partition(' (')[0]}: {reason}"
        for adapter, found in lacks.items()
        for name, reason in found.items()
    ]


def _lacks(harness: Path) -> dict[str, str]:
    """Return the literal value of a harness's `lacks`."""
    for node in ast.walk(ast.parse(harness.read_text("utf-8"))):
        if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == "lacks" and node.value:
            return dict(ast.literal_eval(node.value))
    raise ValueError(f"{harness} does not say what it lacks")


def _versions(package: str) -> str:
    if not package:
        return ""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    wanted = project["optional-dependencies"][package]
    return next(f"`{one.removeprefix(package)}`" for one in wanted if one.startswith(f"{package}>"))


def _agent(source: Path) -> str:
    return "yes" if source.is_dir() and (source / "search_agent.py").exists() else "no"
