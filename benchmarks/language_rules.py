"""Measure answer-format rules that a question does not say and a program checks, or write them as a
dataset.

    python benchmarks/language_rules.py probe MODEL [--items 6] [--samples 8] [--rules A,B] [--json FILE]
    python benchmarks/language_rules.py write FOLDER

`probe` measures how often a completion keeps each rule, bare and under each template that names it, and at
how many items one does; bare has twice the samples. No training. `write` makes files to train on: the
questions of `TRAINED` with those of `PLAIN`, and the instructions of a teacher that knows which rules there
are but not which one a question wants. `docs/results.md` has the command that trains.
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

import torch
from language_forms import (
    LEFT_OUT,
    MOST_TOKENS,
    TRAINED,
    Rule,
    instructions,
    questions,
    write_files,
)
from language_probe import load, rates
from probe_tables import rules

from prompt_coevo.demo.digits import chat
from prompt_coevo.demo.unnamed.tasks import matches


def measure(model: Any, tokenizer: Any, rule: Rule, items: int, samples: int) -> dict[str, Any]:
    """Count completions that keep the rule, and items with at least one, bare and under its templates."""
    chosen = random.Random(0).sample(sorted(rule.answers), min(items, len(rule.answers)))
    patterns = [rule.pattern_of(item) for item in chosen]
    asked = [rule.question.format(item) for item in chosen]

    def right(number: int, text: str) -> float:
        return matches(text, patterns[number])

    torch.manual_seed(0)
    bare = {"bare": [chat(question) for question in asked]}
    told = {text: [chat(f"{text}\n\n{question}") for question in asked] for text in rule.templates}
    return {
        "rule": rule.name,
        "question": asked[0],
        "items": len(chosen),
        **rates(model, tokenizer, bare, right, 2 * samples, MOST_TOKENS),
        **rates(model, tokenizer, told, right, samples, MOST_TOKENS),
    }


def _probe(options: argparse.Namespace) -> None:
    known = {rule.name: rule for rule in (*TRAINED, *LEFT_OUT)}
    names = options.rules.split(",") if options.rules else list(known)
    if unknown := set(names) - set(known):
        raise SystemExit(
            f"--rules: there is no {', '.join(sorted(unknown))}; known: {', '.join(known)}"
        )
    model, tokenizer = load(options.model)
    rows: list[dict[str, Any]] = []
    measured = {"samples": options.samples, "rules": rows}
    for name in names:
        with torch.no_grad():
            rows.append(measure(model, tokenizer, known[name], options.items, options.samples))
        print(json.dumps(rows[-1]), flush=True)
        if options.json:
            options.json.write_text(json.dumps(measured, indent=1) + "\n", "utf-8")
    print(rules(measured))


def _write(options: argparse.Namespace) -> None:
    write_files(options.folder, questions(), instructions())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(required=True)
    probe = commands.add_parser("probe")
    probe.add_argument("model", help="its folder or name")
    probe.add_argument("--items", type=int, default=6, help="of each rule")
    probe.add_argument("--samples", type=int, default=8, help="of each item, under each template")
    probe.add_argument("--rules", help="separated by commas; all by default")
    probe.add_argument("--json", type=Path, help="the file for the numbers")
    probe.set_defaults(run=_probe)
    write = commands.add_parser("write")
    write.add_argument("folder", type=Path)
    write.set_defaults(run=_write)
    options = parser.parse_args()
    options.run(options)


if __name__ == "__main__":
    main()
