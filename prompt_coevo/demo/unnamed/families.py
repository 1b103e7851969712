"""Families of questions: the task, its items and the answers.

The families were chosen by the pass rates of SmolLM2-135M-Instruct alone, before any training
(`python benchmarks/language_probe.py`).
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Final

_FEW: Final = 4


@dataclass(frozen=True)
class Family:
    """Questions of one kind.

    `label` precedes each item and is all that the question says; with None, `asked` is the question in
    full. `right` are the two instructions that name the task, `wrong` are other plausible ones; the
    teachers draw from them.
    """

    name: str
    label: str | None
    answers: dict[str, str]
    """The answer to each item."""

    right: tuple[str, str]
    wrong: tuple[str, ...] = ()

    @property
    def labels(self) -> frozenset[str]:
        """Return the few possible answers; none if nearly every item has its own answer."""
        found = frozenset(self.answers.values())
        return found if len(found) <= _FEW else frozenset()

    def question(self, item: str) -> str:
        """Write the question about an item."""
        return self.right[0].format(item=item) if self.label is None else f"{self.label}: {item}"


def _pairs(text: str) -> dict[str, str]:
    """Parse `item answer` pairs; `_` stands for a space."""
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
    "hot cold|big small|old young|day night|fast slow|light dark|happy sad|open closed|wet dry|early late|"
    "rich poor|hard soft|full empty|high low|strong weak|loud quiet|clean dirty|win lose|north south|"
    "east west|war peace|black white|inside outside|push pull|buy sell|deep shallow|wide narrow|"
    "thick thin|life death|summer winter|cheap expensive|love hate|friend enemy|smooth rough|"
    "brave cowardly|success failure"
)
_PLURALS: Final = _pairs(
    "dog dogs|child children|foot feet|mouse mice|box boxes|city cities|leaf leaves|man men|"
    "baby babies|tooth teeth|cat cats|woman women|goose geese|knife knives|wolf wolves|bus buses|"
    "tree trees|church churches|story stories|party parties|wife wives|house houses|glass glasses|"
    "country countries|lady ladies|dish dishes|fox foxes|berry berries|shelf shelves|thief thieves"
)
_SYMBOLS: Final = _pairs(
    "gold Au|silver Ag|iron Fe|carbon C|sodium Na|copper Cu|nitrogen N|oxygen O|hydrogen H|lithium Li|"
    "neon Ne|magnesium Mg|aluminium Al|silicon Si|phosphorus P|sulfur S|chlorine Cl|argon Ar|"
    "potassium K|calcium Ca|titanium Ti|zinc Zn|nickel Ni|tin Sn|lead Pb|mercury Hg|uranium U|"
    "platinum Pt|cobalt Co|chromium Cr|manganese Mn|krypton Kr|barium Ba|bromine Br"
)
_FOODS: Final = _pairs(
    "apple fruit|carrot vegetable|banana fruit|onion vegetable|grape fruit|cabbage vegetable|"
    "orange fruit|spinach vegetable|peach fruit|broccoli vegetable|pear fruit|potato vegetable|"
    "cherry fruit|celery vegetable|mango fruit|lettuce vegetable|plum fruit|kale vegetable|"
    "lemon fruit|leek vegetable|melon fruit|turnip vegetable|strawberry fruit|radish vegetable|"
    "apricot fruit|beet vegetable|kiwi fruit|cauliflower vegetable|papaya fruit|asparagus vegetable"
)
_REVIEWS: Final = dict.fromkeys(
    (
        "I loved this film.",
        "The best hotel in town.",
        "My kids adore this game.",
        "A delicious meal.",
        "This phone is wonderful.",
        "I am so happy with my new car.",
        "A beautiful song.",
        "What a brilliant book!",
        "Works perfectly, I would buy it again.",
        "The staff was kind and helpful.",
        "I laughed from beginning to end.",
        "Great value for the money.",
        "An amazing concert.",
        "It tastes fantastic.",
        "I could not stop reading it.",
        "Comfortable shoes, five stars.",
    ),
    "positive",
) | dict.fromkeys(
    (
        "I hated this show.",
        "The worst lamp I ever had.",
        "It broke after two days.",
        "A boring story.",
        "This restaurant is terrible.",
        "I am so angry about this camera.",
        "The room was dirty and cold.",
        "What a waste of money!",
        "I want a refund.",
        "The waiter was rude to us.",
        "I fell asleep halfway through.",
        "Far too expensive for what it does.",
        "An awful museum.",
        "The soup was disgusting.",
        "I would never go there again.",
        "Cheap plastic, one star.",
    ),
    "negative",
)
_SUMS: Final = {f"{a} + {b}": str(a + b) for a, b in combinations_with_replacement(range(1, 10), 2)}
"""Each pair of numbers in one order only, so that no held-out sum is a training sum reversed."""

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
        "symbol of an element",
        "Element",
        _SYMBOLS,
        ("What is the chemical symbol of this element?", "Write the symbol of this element."),
        (
            "What is this element used for?",
            "Who discovered this element?",
            "What colour does this element have?",
            "At which temperature does this element melt?",
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
    ),
)
"""The question does not say what is asked."""

PLAIN: Final = (
    Family("capital, asked", None, _CAPITALS, ("What is the capital of {item}?", "")),
    Family("sum, asked", None, _SUMS, ("What is {item}?", "")),
)
"""Asked in full; training must not make these worse."""

FAMILIES: Final = (*UNNAMED, *PLAIN)
