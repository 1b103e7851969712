"""Make tables of an untrained language model's pass rates."""

from __future__ import annotations

import html
from collections.abc import Mapping
from typing import Any, Final

_NO_TEMPLATE: Final = frozenset({"family", "rule", "question", "items", "bare", "all six"})


def families(found: Mapping[str, Any]) -> str:
    """Show pass rates per family: bare, under the better of two instructions, and under one for all."""
    many = f"pass@{found['samples']}"
    lines = [
        f"| family | bare, pass@1 | {many} | better instruction, pass@1 | {many} | one for all, pass@1 |",
        "|---|---|---|---|---|---|",
    ]
    for one in found["families"]:
        cells = [one["family"], *_rates(one["bare"]), *_best(one)[1:]]
        cells.append(rate(one["all six"]["right"]) if "all six" in one else "–")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def rules(found: Mapping[str, Any]) -> str:
    """Show pass rates per form that nobody asks for, bare and under the better template."""
    bare, told = (f"pass@{times * found['samples']}" for times in (2, 1))
    lines = [
        f"| form | a question | bare, pass@1 | {bare} | better template | pass@1 | {told} |",
        "|---|---|---|---|---|---|---|",
    ]
    for one in found["rules"]:
        cells = (one["rule"], one["question"], *_rates(one["bare"]), *_best(one))
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def templates(one: Mapping[str, Any]) -> list[str]:
    """Return the templates that a family or a form was tried under."""
    return [name for name in one if name not in _NO_TEMPLATE]


def rate(value: float) -> str:
    """Write a share with two digits."""
    return f"{value:.2f}"


def _best(one: Mapping[str, Any]) -> tuple[str, str, str]:
    """Return the template with the highest rate, and its two rates."""
    if not (names := templates(one)):
        return "–", "–", "–"
    name = max(names, key=lambda name: one[name]["right"])
    return (html.escape(name, quote=False), *_rates(one[name]))


def _rates(found: Mapping[str, float]) -> tuple[str, str]:
    return rate(found["right"]), rate(found["items"])
