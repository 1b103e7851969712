"""The families of questions: what is asked, of what, and what the answers are.

Which families there are was decided by the pass rates of SmolLM2-135M-Instruct alone, before any training
(`python benchmarks/language_probe.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import product
from typing import Final


@dataclass(frozen=True)
class Family:
    """Questions of one kind.

    `label` stands before each item and is all that is said; with None the question is asked in full, as
    `asked` has it. `right` are the two instructions that name the task, `wrong` others that one might
    try; the teachers draw from them.
    """

    name: str
    label: str | None
    answers: dict[str, str]
    """By item."""

    right: tuple[str, str]
    wrong: tuple[str, ...] = ()
    rivals: frozenset[str] = frozenset()
    """Where the answer is one of a few labels, all of them: an answer with two of them is wrong."""

    def question(self, item: str) -> str:
        """Write the question about an item."""
        return self.right[0].format(item=item) if self.label is None else f"{self.label}: {item}"


def _pairs(text: str) -> dict[str, str]:
    """Read `item answer` pairs; `_` stands for a space."""
    pairs = (pair.rsplit(" ", 1) for pair in text.split("|"))
    return {item.replace("_", " "): answer for item, answer in pairs}


_CAPITALS: Final = _pairs(
    "France Paris|Italy Rome|Japan Tokyo|Spain Madrid|Germany Berlin|Egypt Cairo|Russia Moscow|"
    "Greece Athens|China Beijing|Cuba Havana|Norway Oslo|Portugal Lisbon|Austria Vienna|"
    "Ireland Dublin|Poland Warsaw|Peru Lima|Sweden Stockholm|Finland Helsinki|Denmark Copenhagen|"
    "Hungary Budapest|Turkey Ankara|Iran Tehran|Iraq Baghdad|Canada Ottawa|Chile Santiago|"
    "Kenya Nairobi|Belgium Brussels|Thailand Bangkok|Vietnam Hanoi|Romania Bucharest|"
    "Bulgaria Sofia|Croatia Zagreb|Serbia Belgrade|Ukraine Kyiv|Lebanon Beirut|Syria Damascus|"
    "Nepal Kathmandu|Indonesia Jakarta|Philippines Manila|Australia Canberra|Ghana Accra|"
    "Morocco Rabat|Colombia Bogota|Scotland Edinburgh|Netherlands Amsterdam|Iceland Reykjavik"
)
_OPPOSITES: Final = _pairs(
    "hot cold|big small|up down|old young|day night|fast slow|good bad|light dark|happy sad|"
    "open closed|wet dry|left right|early late|rich poor|hard soft|full empty|high low|long short|"
    "strong weak|loud quiet|clean dirty|win lose|love hate|north south|east west|war peace|"
    "black white|start end|inside outside|before after|push pull|give take|buy sell|first last|"
    "near far|deep shallow|wide narrow|thick thin|life death|summer winter|cheap expensive"
)
_PLURALS: Final = _pairs(
    "dog dogs|child children|foot feet|mouse mice|box boxes|city cities|leaf leaves|man men|"
    "baby babies|tooth teeth|cat cats|woman women|goose geese|knife knives|wolf wolves|bus buses|"
    "tree trees|church churches|story stories|party parties|wife wives|house houses|glass glasses|"
    "country countries|lady ladies|dish dishes|fox foxes|berry berries|shelf shelves|thief thieves"
)
_LANGUAGES: Final = _pairs(
    "Brazil Portuguese|Germany German|France French|Japan Japanese|Italy Italian|Mexico Spanish|"
    "Russia Russian|China Chinese|Greece Greek|Poland Polish|Spain Spanish|Austria German|"
    "Portugal Portuguese|Sweden Swedish|Norway Norwegian|Denmark Danish|Finland Finnish|"
    "Turkey Turkish|Hungary Hungarian|Argentina Spanish|Egypt Arabic|Chile Spanish|Vietnam Vietnamese|"
    "Thailand Thai|Iceland Icelandic|Cuba Spanish|Iraq Arabic|Romania Romanian|Ukraine Ukrainian|"
    "Bulgaria Bulgarian|Morocco Arabic|Angola Portuguese|Peru Spanish|Jamaica English|Canada English"
)
_FOODS: Final = _pairs(
    "apple fruit|carrot vegetable|banana fruit|onion vegetable|grape fruit|cabbage vegetable|"
    "orange fruit|spinach vegetable|peach fruit|broccoli vegetable|pear fruit|potato vegetable|"
    "cherry fruit|celery vegetable|mango fruit|lettuce vegetable|plum fruit|kale vegetable|"
    "lemon fruit|leek vegetable|melon fruit|turnip vegetable|strawberry fruit|radish vegetable|"
    "apricot fruit|beet vegetable|kiwi fruit|cauliflower vegetable|papaya fruit|asparagus vegetable"
)
_THINGS: Final = (
    "film",
    "book",
    "hotel",
    "meal",
    "phone",
    "game",
    "car",
    "song",
    "show",
    "lamp",
)
_PRAISE: Final = (
    "I loved this {}.",
    "This {} is wonderful.",
    "The best {} I ever had.",
    "I am so happy with this {}.",
)
_BLAME: Final = (
    "I hated this {}.",
    "This {} is terrible.",
    "The worst {} I ever had.",
    "I am so angry about this {}.",
)
_REVIEWS: Final = {
    sentence.format(thing): verdict
    for verdict, sentences in (("positive", _PRAISE), ("negative", _BLAME))
    for sentence, thing in product(sentences, _THINGS)
}
_SUMS: Final = {f"{a} + {b}": str(a + b) for a, b in product(range(1, 10), repeat=2)}

UNNAMED: Final = (
    Family(
        "capital of a country",
        "Country",
        _CAPITALS,
        ("What is the capital of this country?", "Name the capital city of this country."),
        (
            "What is the population of this country?",
            "Which currency does this country have?",
            "Who is the president of this country?",
            "What is this country famous for?",
        ),
    ),
    Family(
        "opposite of a word",
        "Word",
        _OPPOSITES,
        ("What is the opposite of this word?", "Say which word means the opposite."),
        (
            "What does this word mean?",
            "Use this word in a sentence.",
            "Which word rhymes with this word?",
            "What is the first letter of this word?",
        ),
    ),
    Family(
        "mood of a review",
        "Review",
        _REVIEWS,
        (
            "Is this review positive or negative?",
            "Say whether the writer of this review is positive or negative about it.",
        ),
        (
            "Is this review long or short?",
            "Who wrote this review?",
            "Summarize this review.",
            "Write a reply to this review.",
        ),
        rivals=frozenset({"positive", "negative"}),
    ),
    Family(
        "plural of a noun",
        "Noun",
        _PLURALS,
        ("What is the plural of this noun?", "Write the plural of this noun."),
        (
            "Define this noun.",
            "Write a sentence with this noun.",
            "Which adjective goes with this noun?",
            "How many letters does this noun have?",
        ),
    ),
    Family(
        "language of a land",
        "Land",
        _LANGUAGES,
        ("Which language is spoken in this land?", "Name the language of this land."),
        (
            "How many people live in this land?",
            "Which river flows through this land?",
            "What is the climate of this land?",
            "Which food is typical of this land?",
        ),
    ),
    Family(
        "fruit or vegetable",
        "Food",
        _FOODS,
        ("Is this food a fruit or a vegetable?", "Say whether it is a fruit or a vegetable."),
        (
            "Is this food sweet or sour?",
            "How is this food cooked?",
            "What does this food cost?",
            "Which vitamins are in this food?",
        ),
        rivals=frozenset({"fruit", "vegetable"}),
    ),
)
"""Nothing in the question says what is asked."""

PLAIN: Final = (
    Family("capital, asked", None, _CAPITALS, ("What is the capital of {item}?", "")),
    Family("sum, asked", None, _SUMS, ("What is {item}?", "")),
)
"""Asked in full; they must not suffer."""

FAMILIES: Final = (*UNNAMED, *PLAIN)
