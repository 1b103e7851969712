"""Find the reasoning-gym families that a language model solves only under a template.

    pip install reasoning-gym
    python benchmarks/language_gym.py MODEL [--items 6] [--bare 8] [--samples 4] [--json FILE]
    python benchmarks/language_gym.py --write FOLDER

Every family has its smallest sizes. Each item is asked bare and under four templates: "Write only the
answer.", the answer in tags, a hint written for the family, and two worked examples. reasoning-gym's own
verifier scores five readings of a completion (`readings`); right is what it gives the full score. No
training.

`--write` makes files to train on, as `language_rules.py write` does: questions of `TRAINED` and of plain
families, and the instructions from which a teacher draws. A completion is right if it is the answer and
nothing else, in any case and with or without a full stop.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import torch
from language_forms import WRONG, write_files
from language_forms import questions as plain_and_ruled
from language_probe import load

from prompt_coevo.demo.digits import chat
from prompt_coevo.demo.unnamed.held_out import sample

MOST_TOKENS: Final = 24
ONLY: Final = "Write only the answer."
TAGS: Final = "Write the answer in tags, like <answer>7</answer>."
_NUMBER: Final = "Answer with a number."

FAMILIES: Final[Mapping[str, tuple[Mapping[str, Any], str]]] = {
    "chain_sum": ({"min_terms": 2, "max_terms": 2, "max_digits": 1}, _NUMBER),
    "products": ({"max_digits": 1}, _NUMBER),
    "calendar_arithmetic:leap": ({"tasks": ["is_leap_year"]}, "Answer with Yes or No."),
    "number_sorting": (
        {"min_numbers": 3, "max_numbers": 3, "min_value": 0, "max_value": 20, "max_decimals": 0},
        "Write a Python list of strings, like ['1', '2', '3'].",
    ),
    "word_sorting": (
        {"min_words": 2, "max_words": 2},
        "Write both words, separated by a comma, the first in the alphabet first.",
    ),
    "coin_flip": (
        {"min_trials": 1, "max_trials": 2},
        "Write the probability as a decimal number, like 0.5.",
    ),
    "time_intervals": (
        {"task_types": ["date"], "max_date_difference_days": 5},
        "Write the number of days, like 3 days.",
    ),
    "letter_counting": ({"min_words": 1, "max_words": 2}, _NUMBER),
    "family_relationships": (
        {"min_family_size": 4, "max_family_size": 4},
        "Answer with a word such as father, mother, son, daughter, husband or wife.",
    ),
    "gcd": ({"max_value": 20}, _NUMBER),
    "needle_haystack": ({"min_num_statements": 2, "max_num_statements": 3}, "Answer with a name."),
    "fraction_simplification": (
        {"max_value": 5, "max_factor": 3, "styles": ["plain"]},
        "Write a fraction like 1/2.",
    ),
    "word_sequence_reversal": ({"min_words": 3, "max_words": 3}, "Write the last word first."),
    "color_cube_rotation": ({"max_rotations": 1}, "Answer with the name of a color."),
    "syllogism": ({}, "Answer with Yes or No."),
    "leg_counting": (
        {"min_animals": 1, "max_animals": 1, "max_instances": 3},
        "An insect has 6 legs, a spider 8, a mammal 4, a bird 2. Answer with a number.",
    ),
    "simple_equations": ({"min_terms": 2, "max_terms": 2, "max_value": 9}, _NUMBER),
    "sentence_reordering": (
        {"min_words_in_sentence": 3, "max_words_in_sentence": 4},
        "Write the sentence with its words in order.",
    ),
    "number_filtering": (
        {"min_numbers": 3, "max_numbers": 3, "max_decimals": 0, "min_value": 0, "max_value": 20},
        "Write a Python list of strings, like ['1', '2'].",
    ),
    "prime_factorization": ({"max_value": 20}, "Write the prime factors like 2 × 2 × 3."),
    "lcm": ({"max_value": 10}, _NUMBER),
    "count_primes": (
        {"max_n": 20},
        "The primes are 2, 3, 5, 7, 11, 13, 17, 19. Answer with a number.",
    ),
    "calendar_arithmetic": (
        {"tasks": ["weekday_of_date"]},
        "Answer with the name of a day of the week.",
    ),
    "caesar_cipher": (
        {"min_words": 1, "max_words": 1, "max_rotation": 1},
        "Put each letter one back in the alphabet: B is A, C is B.",
    ),
    "spell_backward": (
        {"min_word_len": 3, "max_word_len": 3},
        "Write the letters of the word from the last to the first.",
    ),
    "base_conversion": ({"max_base": 10, "max_value": 15}, "Write the number in the other base."),
    "self_reference": ({"difficulty": 1}, _NUMBER),
    "number_sequence": (
        {"min_terms": 4, "max_terms": 5, "max_complexity": 1, "min_value": 0, "max_value": 20},
        "What is the next number?",
    ),
    "basic_arithmetic": (
        {
            "min_terms": 2,
            "max_terms": 2,
            "max_digits": 1,
            "allow_parentheses": False,
            "allow_negation": False,
        },
        _NUMBER,
    ),
}
"""The sizes of a family, and the hint. What stands behind a colon tells apart two of one dataset."""


TRAINED: Final = (
    *("time_intervals", "letter_counting", "gcd", "syllogism", "lcm", "calendar_arithmetic"),
    "spell_backward",
)
"""Where no whole completion was right bare, and a fiftieth under some template."""
_EACH: Final = 24


def readings(completion: str) -> dict[str, str | None]:
    """Read the answer in five ways: the whole completion, its last line, last number, last word, and the
    content of the last `<answer>` tags. None where there is no such part."""
    text = completion.strip()
    lines = [line.strip() for line in text.split("\n") if line.strip()]
    found = {
        "whole": [text],
        "last line": lines,
        "last number": re.findall(r"-?\d+(?:\.\d+)?", text),
        "last word": re.findall(r"[\w']+", text),
        "tags": [one.strip() for one in re.findall(r"<answer>(.*?)</answer>", text, re.DOTALL)],
    }
    return {name: parts[-1] if parts else None for name, parts in found.items()}


def right(dataset: Any, item: Mapping[str, Any], answer: str | None) -> bool:
    """Tell whether the family's verifier gives the full score. An answer that crashes it is wrong."""
    if answer is None:
        return False
    try:
        return bool(dataset.score_answer(answer, item) >= 1)
    except Exception:  # of verifiers, which parse what a model says
        return False


def items_of(family: str, size: int) -> tuple[Any, list[Mapping[str, Any]]]:
    """Return the family's dataset, and those of its items whose questions differ."""
    import reasoning_gym

    sizes, _ = FAMILIES[family]
    dataset = reasoning_gym.create_dataset(family.split(":")[0], seed=1, size=size, **sizes)
    return dataset, list({item["question"]: item for item in dataset if item["answer"]}.values())


def write(folder: Path) -> None:
    """Write questions to train on and the teacher's instructions into the folder."""
    rows = [row for row in plain_and_ruled() if row.get("plain")]
    for family in TRAINED:
        for item in items_of(family, 3 * _EACH)[1][:_EACH]:
            pattern = f"(?i:{re.escape(item['answer'])})\\.?"
            rows.append(
                {"question": item["question"].strip(), "pattern": pattern, "family": family}
            )
    told = [ONLY, TAGS, *dict.fromkeys(FAMILIES[family][1] for family in TRAINED), *WRONG]
    write_files(folder, rows, told)


def measure(
    model: Any, tokenizer: Any, family: str, items: int, bare: int, samples: int
) -> dict[str, Any]:
    """Count, by template and reading, right completions and items with at least one."""
    torch.manual_seed(0)
    _, hint = FAMILIES[family]
    dataset, distinct = items_of(family, 30)
    chosen, examples = distinct[:items], distinct[items : items + 2]
    shown = "\n\n".join(f"{one['question'].strip()}\n{one['answer']}" for one in examples)
    found: dict[str, Any] = {
        "family": family,
        "items": len(chosen),
        "question": chosen[0]["question"],
    }
    templates = {"bare": "", ONLY: ONLY, TAGS: TAGS, hint: hint, "two examples": shown}
    for name, template in templates.items():
        asked = [f"{template}\n\n{item['question']}".strip() for item in chosen]
        count = samples if template else bare
        texts = sample(model, tokenizer, [chat(one) for one in asked], count, MOST_TOKENS)
        found[name] = {"said": texts[0][0], **_scores(dataset, chosen, texts)}
    return found


def _scores(
    dataset: Any, items: Sequence[Mapping[str, Any]], texts: Sequence[Sequence[str]]
) -> dict[str, list[float]]:
    scores = {}
    for reading in readings(""):
        of_items = [
            [right(dataset, item, readings(text)[reading]) for text in of_item]
            for item, of_item in zip(items, texts, strict=True)
        ]
        count = sum(map(len, of_items))
        scores[reading] = [
            round(sum(map(sum, of_items)) / count, 3),
            round(sum(map(any, of_items)) / len(items), 2),
        ]
    return scores


def qualifies(row: Mapping[str, Any]) -> list[tuple[str, str]]:
    """List the readings and templates by which a family is trainable: bare no item is solved, under the
    template a fiftieth of the completions or a fifth of the items."""
    return [
        (reading, name)
        for reading, (_, solved) in _by_reading(row["bare"]).items()
        if solved == 0
        for name, told in row.items()
        if isinstance(told, dict) and (told[reading][0] >= 0.02 or told[reading][1] >= 0.2)
    ]


def _by_reading(one: Mapping[str, Any]) -> dict[str, Any]:
    return {reading: one[reading] for reading in readings("")}


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return every family, bare and under its best template, by the best reading and by the whole."""
    lines = [
        "| family | bare, whole | any reading | best template, whole | any reading | it | the reading |",
        "|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        told = {
            (name, reading): score
            for name, one in row.items()
            if isinstance(one, dict) and name != "bare"
            for reading, score in _by_reading(one).items()
        }
        whole = max(score for (_, reading), score in told.items() if reading == "whole")
        name, reading = max(told, key=lambda key: told[key])
        bare = max(_by_reading(row["bare"]).values())
        cells = [row["family"], _pair(row["bare"]["whole"]), _pair(bare), _pair(whole)]
        cells += [_pair(told[name, reading]), name, reading]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _pair(score: Sequence[float]) -> str:
    return f"{score[0]} / {score[1]}"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("model", nargs="?", help="its folder or name")
    parser.add_argument("--write", type=Path, help="the folder for files to train on")
    parser.add_argument("--items", type=int, default=6, help="of each family")
    parser.add_argument("--bare", type=int, default=8, help="completions of each item, bare")
    parser.add_argument("--samples", type=int, default=4, help="and under each template")
    parser.add_argument("--families", help="separated by commas; all by default")
    parser.add_argument("--json", type=Path, help="the file for the numbers")
    options = parser.parse_args()
    if options.write:
        write(options.write)
        return
    if not options.model:
        parser.error("name a model, or a folder by --write")
    chosen = options.families.split(",") if options.families else list(FAMILIES)
    if unknown := set(chosen) - set(FAMILIES):
        raise SystemExit(f"--families: there is no {', '.join(sorted(unknown))}")
    model, tokenizer = load(options.model)
    rows = []
    for family in chosen:
        with torch.no_grad():
            row = measure(model, tokenizer, family, options.items, options.bare, options.samples)
        rows.append(row)
        print(json.dumps({**row, "qualifies": qualifies(row)}), flush=True)
        if options.json:
            said = {
                "dtype": str(model.dtype),
                "bare": options.bare,
                "samples": options.samples,
                "families": rows,
            }
            options.json.write_text(json.dumps(said, indent=1) + "\n", "utf-8")
    print(table(rows))


if __name__ == "__main__":
    main()
