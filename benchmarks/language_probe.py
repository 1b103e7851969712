"""Find the families of questions that a language model answers only when told what to do.

    python benchmarks/language_probe.py MODEL [--items 10] [--samples 16] [--families A,B] [--json FILE]
    python benchmarks/language_probe.py MODEL --held-out [--samples 4] [--json FILE]

Measures for each family how often a completion is right, bare, under either instruction that names the
task, and under one system message that names all six, and at how many items one of the completions is.
No training. `prompt_coevo/demo/unnamed/families.py` has the families that were chosen by it; those of
`FURTHER` were tried and left out.

`--held-out` asks the benchmark's held-out questions instead, under either instruction that names the task;
those that state their task without one.
"""

from __future__ import annotations

import argparse
import json
import random
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from probe_tables import families

from prompt_coevo.demo.digits import chat
from prompt_coevo.demo.trainer import quieten
from prompt_coevo.demo.unnamed.families import FAMILIES, UNNAMED, Family
from prompt_coevo.demo.unnamed.held_out import sample
from prompt_coevo.demo.unnamed.load import load_model, load_tokenizer
from prompt_coevo.demo.unnamed.tasks import MOST_TOKENS, Questions, reward
from prompt_coevo.machine import computes_bfloat16

DRAWS: Final = (0, 1)
"""Splits of the questions."""


def _family(label: str, pairs: str, *right: str) -> Family:
    answers = dict(pair.rsplit(" ", 1) for pair in pairs.split("|"))
    first, second = right
    return Family(label.lower(), label, answers, (first, second))


FURTHER: Final = (
    _family(
        "Verb",
        "go went|eat ate|see saw|run ran|take took|write wrote|come came|give gave|find found|sing sang",
        "What is the past tense of this verb?",
        "Write the past tense of this verb.",
    ),
    _family(
        "Nation",
        "Peru America|Norway Europe|Japan Asia|Egypt Africa|Poland Europe|Kenya Africa|India Asia",
        "On which continent is this nation?",
        "Name the continent of this nation.",
    ),
    _family(
        "City",
        "Paris France|Rome Italy|Tokyo Japan|Madrid Spain|Berlin Germany|Cairo Egypt|Moscow Russia",
        "In which country is this city?",
        "Name the country of this city.",
    ),
    _family(
        "Animal",
        "eagle bird|dog mammal|shark fish|sparrow bird|cow mammal|salmon fish|owl bird|horse mammal",
        "Is this animal a mammal, a bird or a fish?",
        "Say whether it is a mammal, a bird or a fish.",
    ),
    _family(
        "English",
        "cat chat|dog chien|house maison|water eau|bread pain|book livre|red rouge|friend ami|sun soleil",
        "What is this word in French?",
        "Translate this word into French.",
    ),
    _family(
        "Month",
        "January February|March April|April May|June July|August September|October November",
        "Which month comes after this month?",
        "Name the month that follows.",
    ),
    _family(
        "Adjective",
        "big bigger|small smaller|tall taller|fast faster|cold colder|strong stronger|old older",
        "What is the comparative of this adjective?",
        "Write the comparative form of this adjective.",
    ),
    _family(
        "Land",
        "Brazil Portuguese|Germany German|France French|Japan Japanese|Mexico Spanish|Russia Russian|"
        "Greece Greek|Poland Polish|Sweden Swedish",
        "Which language is spoken in this land?",
        "Name the language of this land.",
    ),
    _family(
        "Male",
        "king queen|father mother|brother sister|son daughter|uncle aunt|husband wife|boy girl",
        "What is the female form of this word?",
        "Who is the female counterpart?",
    ),
    _family(
        "Color",
        "banana yellow|grass green|sky blue|blood red|snow white|coal black|lemon yellow|tomato red",
        "What colour is this thing?",
        "Name the color of this thing.",
    ),
    _family(
        "Young",
        "dog puppy|cat kitten|cow calf|horse foal|sheep lamb|pig piglet|goose gosling|duck duckling",
        "What is the young of this animal called?",
        "Name the young of this animal.",
    ),
    _family(
        "Spelling",
        "cat tac|dog god|sun nus|map pam|red der|pen nep|box xob|lid dil",
        "Spell this word backwards.",
        "Write the letters of this word in reverse order.",
    ),
)


ALL_SIX: Final = (
    "The user writes a single thing. Of a country name the capital, of a word the opposite, of a noun "
    "the plural, of an element the symbol. Of a review say whether it is positive or negative, of a food "
    "whether it is a fruit or a vegetable."
)
"""A possible system message for all families."""


def measure(model: Any, tokenizer: Any, family: Family, items: int, samples: int) -> dict[str, Any]:
    """Count right completions, and items with at least one, bare and under instructions."""
    torch.manual_seed(0)
    chosen = random.Random(0).sample(sorted(family.answers), min(items, len(family.answers)))
    found: dict[str, Any] = {"family": family.name, "items": len(chosen)}
    asked = [family.question(item) for item in chosen]
    conversations = {"bare": [chat(question) for question in asked]}
    if family.label is not None:
        for text in family.right:
            conversations[text] = [chat(f"{text}\n\n{question}") for question in asked]
    if family in UNNAMED:
        conversations["all six"] = [chat(question, ALL_SIX) for question in asked]
    answers = [family.answers[item] for item in chosen]

    def right(number: int, text: str) -> float:
        return reward(text, answers[number])

    return {**found, **rates(model, tokenizer, conversations, right, samples, MOST_TOKENS)}


def rates(
    model: Any,
    tokenizer: Any,
    conversations: Mapping[str, Sequence[list[dict[str, str]]]],
    right: Callable[[int, str], float],
    samples: int,
    most_tokens: int,
) -> dict[str, Any]:
    """Score completions of conversations about each item, by what precedes the question.

    `right` scores a completion, given the number of its item.
    """
    found = {}
    for name, chats in conversations.items():
        texts = sample(model, tokenizer, chats, samples, most_tokens)
        scores = [[right(number, text) for text in of_item] for number, of_item in enumerate(texts)]
        found[name] = {
            "right": round(sum(map(sum, scores)) / samples / len(chats), 3),
            "items": round(sum(map(max, scores)) / len(chats), 2),
            "said": texts[0][0],
        }
    return found


def under_templates(model: Any, tokenizer: Any, samples: int) -> list[dict[str, Any]]:
    """Return the share right of each held-out question of both splits, under its family's instructions."""
    rows = []
    for draw in DRAWS:
        torch.manual_seed(draw)
        tasks = sorted(Questions.unnamed(draw).held_out, key=lambda task: len(task.question))
        words: dict[str, list[Any]] = {task.question: [task.family] for task in tasks}
        for which in (0, 1):
            told = {family.name: f"{family.right[which]}\n\n" for family in UNNAMED}
            chats = [chat(told.get(task.family, "") + task.question) for task in tasks]
            texts = sample(model, tokenizer, chats, samples, MOST_TOKENS)
            for task, of_task in zip(tasks, texts, strict=True):
                right = sum(reward(text, task.answer) for text in of_task)
                words[task.question].append(right / samples)
        rows.append({"draw": draw, "words": words})
        print(json.dumps(rows[-1]), flush=True)
    return rows


def load(folder: str, dtype: torch.dtype | None = None) -> tuple[Any, Any]:
    """Load a model and its tokenizer; by default in bfloat16 where the CPU computes in it."""
    quieten()
    dtype = dtype or (torch.bfloat16 if computes_bfloat16() else torch.float32)
    return load_model(folder, dtype).eval(), load_tokenizer(folder)


def _chosen(names: str | None) -> list[Family]:
    known = {family.name: family for family in (*FAMILIES, *FURTHER)}
    if unknown := set(names.split(",") if names else ()) - set(known):
        raise SystemExit(
            f"--families: there is no {', '.join(sorted(unknown))}; known: {', '.join(known)}"
        )
    return [known[name] for name in names.split(",")] if names else list(known.values())


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", help="its folder or name")
    parser.add_argument("--items", type=int, help="of each family (10)")
    parser.add_argument("--samples", type=int, help="of each item (16, of held-out questions 4)")
    parser.add_argument("--held-out", action="store_true", help="the benchmark's questions")
    parser.add_argument("--families", help="separated by commas; all by default")
    parser.add_argument("--json", type=Path, help="the file for the numbers")
    options = parser.parse_args()
    if options.held_out and (options.items or options.families):
        parser.error("--held-out asks all held-out questions; leave out --items and --families")
    samples = options.samples or (4 if options.held_out else 16)
    if options.held_out:
        # In float32, as the weights are in training.
        found = under_templates(*load(options.model, torch.float32), samples)
        _write(options.json, {"samples": samples, "splits": found})
        return
    model, tokenizer = load(options.model)
    rows = []
    with torch.no_grad():
        for family in _chosen(options.families):
            rows.append(measure(model, tokenizer, family, options.items or 10, samples))
            print(json.dumps(rows[-1]), flush=True)
    measured = {"samples": samples, "families": rows}
    _write(options.json, measured)
    print(families(measured))


def _write(file: Path | None, found: dict[str, Any]) -> None:
    if file:
        file.write_text(json.dumps(found, indent=1) + "\n", "utf-8")


if __name__ == "__main__":
    main()
