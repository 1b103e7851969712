"""The reflection teacher for instructions: a list of clauses for all questions (INSPO).

It answers the three meta-prompts of INSPO's proposers as a remote model would: reflection reasons
about the failures as the teacher for templates does, paraphrase only reorders, history recombines the
rules of instructions that scored well. All three sometimes add a rule that they made up.
"""

from __future__ import annotations

import random
import re

from prompt_coevo.demo.teacher import CLAUSE, Teacher, read_failures
from prompt_coevo.demo.world import FILLERS, SKILL_NAMES, WORDS

_PARENT = re.compile(r"<ins_0>(.*?)</ins_0>", re.DOTALL)
_SCORED = re.compile(r"<ins_(\d+)>(.*?)</ins_\1>\s*<score_\1>(\d+)</score_\1>", re.DOTALL)
_COUNT = re.compile(r"[Ww]rite (\d+) ")
_INVENTS = 0.3

Rules = dict[str, str]


class InstructionTeacher:
    """Call it with any of the three meta-prompts. The reply is a function of the prompt and the seed."""

    def __init__(self, *, seed: int = 0, max_clauses: int = 10) -> None:
        self._reasoner = Teacher(seed=seed, max_clauses=max_clauses)
        self._max_clauses = max_clauses

    def __call__(self, prompt: str) -> str:
        rng = self._reasoner.rng_of(prompt)
        asked = _COUNT.search(prompt)
        texts = [self._one(prompt, rng) for _ in range(int(asked[1]) if asked else 1)]
        return "\n\n".join(
            f"<ins_{number}>\n{text}\n</ins_{number}>" for number, text in enumerate(texts, start=1)
        )

    def _one(self, prompt: str, rng: random.Random) -> str:
        parent = _PARENT.search(prompt)
        rules: Rules = dict(CLAUSE.findall(parent[1])) if parent else {}
        scored = [(float(m[3]), dict(CLAUSE.findall(m[2]))) for m in _SCORED.finditer(prompt)]
        if failures := read_failures(prompt):
            rules = self._reasoner.improve(rules, failures, rng)
        elif scored:
            rules = _recombined(scored, rng)
        if not failures and rng.random() < _INVENTS:
            rules[rng.choice(WORDS)] = rng.choice(SKILL_NAMES)
        while len(rules) > self._max_clauses:
            rules.pop(rng.choice(list(rules)))
        return _spelled(rules, rng)


def _recombined(scored: list[tuple[float, Rules]], rng: random.Random) -> Rules:
    """The best instruction with some rules of two others that did well."""
    ranked = [rules for _, rules in sorted(scored, key=lambda entry: -entry[0])[:6]]
    rules = dict(ranked[0])
    for other in rng.sample(ranked, min(2, len(ranked))):
        rules |= {word: skill for word, skill in other.items() if rng.random() < 0.5}
    if rules and rng.random() < 0.5:
        rules.pop(rng.choice(list(rules)))
    return rules


def _spelled(rules: Rules, rng: random.Random) -> str:
    """The rules in any order, with up to three filler words."""
    parts = [f"{word} means {rules[word]} ." for word in rng.sample(list(rules), len(rules))]
    for _ in range(rng.randrange(4)):
        parts.insert(rng.randint(0, len(parts)), rng.choice(FILLERS))
    return " ".join(parts)
