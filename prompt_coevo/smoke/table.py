"""The outcomes as a Markdown table, with the machine that they come from."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from prompt_coevo import __version__
from prompt_coevo.smoke.parts import Adapter
from prompt_coevo.smoke.running import Outcome

_FRAMEWORKS = ("torch", "transformers", "trl", "verl", "openrlhf", "vllm", "deepspeed", "ray")
_SHOWN = (*_FRAMEWORKS, "peft", "flash_attn")


def markdown(adapter: Adapter, outcomes: Sequence[Outcome], machine: str) -> str:
    """Return the whole file."""
    rows = [["variant", "", "", "seconds", "what was checked, or what is wrong"]]
    rows.append(["---"] * 5)
    for one in outcomes:
        seconds = f"{one.seconds:.0f}" if one.seconds else ""
        rows.append([f"`{one.variant.name}`", one.variant.says, one.state, seconds, one.said])
    table = "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in rows)
    head = f"# Smoke: {adapter.title}\n\n{machine}. {_versions()}."
    return f"{head}\n\n**{summary(outcomes)}.**\n\n{table}\n"


def summary(outcomes: Sequence[Outcome]) -> str:
    """Return how many variants work, have failed and were not run."""
    counts = Counter(one.state for one in outcomes)
    return f"{counts['works']} work, {counts['failed']} failed, {counts['not run']} not run"


def _cell(text: str) -> str:
    """Escape a log text so that it cannot end the cell or become markup."""
    return text.replace("|", "\\|").replace("<", "&lt;")


def _versions() -> str:
    found = [f"prompt-coevo {__version__}", f"Python {platform.python_version()}"]
    for package in _SHOWN:
        try:
            found.append(f"{package} {version(package)}")
        except PackageNotFoundError:
            continue
    return ", ".join(found)
