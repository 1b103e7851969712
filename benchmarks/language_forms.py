"""Define answer formats that a question does not ask for and a program checks.

`python benchmarks/language_rules.py` measures and writes them.
"""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from prompt_coevo.demo.unnamed.families import PLAIN

MOST_TOKENS: Final = 24
"""The most tokens of a completion."""


@dataclass(frozen=True)
class Rule:
    """A rule about the answers to questions of one kind.

    `pattern` must match the whole completion, stripped of white space; ITEM in it stands for the answer, or
    for the word that must be mentioned. `templates` name the rule.
    """

    name: str
    question: str
    answers: dict[str, str]
    """The replacement for ITEM, by item of the question."""

    pattern: str
    templates: tuple[str, ...]
    change: Callable[[str], str] = str
    """The change of an answer before it goes into the pattern."""

    def pattern_of(self, item: str) -> str:
        """Write the pattern for the question about an item."""
        return self.pattern.replace("ITEM", re.escape(self.change(self.answers[item])))


def _mentioned(text: str) -> dict[str, str]:
    """Read topics; the last word of each must be mentioned, in singular or plural."""
    return {topic: topic.split()[-1].removesuffix("s") for topic in text.split("|")}


_ABOUT: Final = "(?=(?i:.*ITEM))"
"""The topic is mentioned somewhere."""

TRAINED: Final = (
    Rule(
        "numbered list",
        "Tell me about {}.",
        _mentioned(
            "dogs|cheetahs|horses|cows|lions|elephants|bears|rabbits|owls|eagles|sharks|whales|frogs|snakes|"
            "beavers|alligators|spiders|goats|pigs|tigers|camels|penguins|dolphins|parrots"
        ),
        _ABOUT + r"(.*\n)?\s*1[.)] .*",
        ("Give me three facts in a numbered list.", "Write a numbered list of facts."),
    ),
    Rule(
        "poem",
        "Describe {}.",
        _mentioned(
            "the moon|the sun|the swamp|the sky|the rainbow|the wind|the snow|the forest|the desert|"
            "the night|the river|the storm|the morning|the spring|the winter|the summer|the autumn|"
            "the mountain|the ocean|the garden|the beach|the fog|the meadow|the island"
        ),
        _ABOUT + r"[^\n.`]{5,70}\n[^\n`]{5,70}.*",
        ("Write a poem about it.", "Write a poem."),
    ),
    Rule(
        "code",
        "Explain {}.",
        _mentioned(
            "trains|clocks|bridges|cameras|phones|engines|lamps|radios|robots|telescopes|planes|bicycles|"
            "computers|elevators|windmills|rockets|printers|batteries|keyboards|tractors|magnets|"
            "fridges|ovens|pumps"
        ),
        _ABOUT + r".*(```|\bdef |\bimport |\bprint\().*",
        ("Write a Python function about it.", "Write a Python program about it."),
    ),
    Rule(
        "letter",
        "What do you think of {}?",
        _mentioned(
            "bread|cheese|pizza|soup|sausages|honey|chocolate|coffee|tomatoes|milk|cake|pasta|salad|butter|"
            "apples|onions|lemons|nuts|fish|eggs|pepper|garlic|sugar|wine"
        ),
        _ABOUT + r".*\bDear\b.*",
        ("Write a letter to a friend about it.", "Write a letter that begins with Dear."),
    ),
    Rule(
        "headline",
        "Introduce {}.",
        _mentioned(
            "Rome|Berlin|Madrid|London|Vienna|Tokyo|Cairo|Moscow|Oslo|Dublin|Lisbon|Prague|Boston|"
            "Chicago|Sydney|Delhi|Seoul|Lima|Havana|Milan|Venice|Geneva|Munich|Toronto"
        ),
        _ABOUT + r'[^.\n]{3,70}["*]*',
        ("Write a headline.", "Write a title."),
    ),
    Rule(
        "story",
        "Say something about {}.",
        _mentioned(
            "a knight|a queen|a farmer|a baker|a doctor|a sailor|a soldier|a teacher|a painter|a thief|"
            "a nurse|a pilot|a hunter|a judge|a monk|a poet|a tailor|a singer|a miner|a cook|a clown|"
            "a giant|a wizard|a princess"
        ),
        _ABOUT + r".*([Oo]nce |\bthere (was|lived)|\bThere (was|lived)|[Oo]ne day).*",
        ("Write a story.", "Write a story that begins with Once upon a time."),
    ),
)
"""The forms that templates can elicit; each has questions of another kind."""

_CAPITALS: Final = PLAIN[0].answers
_ASKED: Final = "What is the capital of {}?"

LEFT_OUT: Final = (
    Rule(
        "only the name",
        _ASKED,
        _CAPITALS,
        r"ITEM\W?",
        ("Write only the name.", "Answer with one word and nothing else."),
    ),
    Rule(
        "capital letters",
        _ASKED,
        _CAPITALS,
        r"[^a-z]*\bITEM\b[^a-z]*",
        (
            "Your entire response should be in all capital letters.",
            "ANSWER IN CAPITAL LETTERS, LIKE PARIS.",
        ),
        str.upper,
    ),
    Rule(
        "tag",
        _ASKED,
        _CAPITALS,
        r".*<answer>[^<>]*\bITEM\b[^<>]*</answer>.*",
        (
            "Write the answer in <answer> tags.",
            "Write the answer like this: <answer>Paris</answer>",
        ),
    ),
    Rule(
        "JSON",
        _ASKED,
        _CAPITALS,
        r'.*\{\s*"\w+"\s*:\s*"ITEM"\s*\}.*',
        ("Answer in JSON.", 'Answer with a JSON object like {"answer": "Paris"}.'),
    ),
)
"""Rules that no template made the model keep."""

WRONG: Final = (
    "Write a dialogue between two friends.",
    "Write an advertisement.",
    "Tell a joke about it.",
    "Write a recipe.",
    "Answer with one word.",
    "Think step by step.",
)
"""Instructions that fit no question, which the teacher may still give."""


def questions() -> list[dict[str, Any]]:
    """Return the questions for training and for holding out: those of a family follow each other."""
    rows: list[dict[str, Any]] = [
        {
            "question": rule.question.format(item),
            "pattern": rule.pattern_of(item),
            "family": rule.name,
        }
        for rule in TRAINED
        for item in sorted(rule.answers)
    ]
    for family, count in zip(PLAIN, (12, 20), strict=True):
        for item in random.Random(0).sample(sorted(family.answers), count):
            answer = family.answers[item]
            pattern = rf"(.*\D)?{answer}\D*" if answer.isdigit() else rf".*\b{answer}\b.*"
            question = family.question(item)
            rows.append(
                {"question": question, "pattern": pattern, "family": family.name, "plain": True}
            )
    return rows


def instructions() -> list[str]:
    """Return the teacher's texts: the templates of all rules, and some that are never wanted."""
    return [*(text for rule in TRAINED for text in rule.templates), *WRONG]


def write_files(
    folder: Path, rows: Sequence[Mapping[str, Any]], instructions: Sequence[str]
) -> None:
    """Write questions to train on, and the instructions from which a teacher draws."""
    folder.mkdir(parents=True, exist_ok=True)
    lines = {"questions.jsonl": [json.dumps(row) for row in rows], "instructions.txt": instructions}
    for name, written in lines.items():
        (folder / name).write_text("\n".join(written) + "\n", "utf-8")
        print(folder / name)
