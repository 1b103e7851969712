"""The reflection teacher for instructions: a list of rules for all questions (INSPO).

It answers the three meta-prompts of INSPO's proposers as a remote model would: reflection reasons about the
failures like the teacher for templates, paraphrase only reorders, history recombines the rules of
instructions that scored well. The last two sometimes invent a rule; otherwise they could never add anything
new.
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from typing import Final, Generic

from prompt_coevo.demo.rule_teacher import FailureT, Rule, RuleTeacher

_PARENT: Final = re.compile(r"<ins_0>(.*?)</ins_0>", re.DOTALL)
_SCORED: Final = re.compile(r"<ins_(\d+)>(.*?)</ins_\1>\s*<score_\1>(\d+)</score_\1>", re.DOTALL)
_COUNT: Final = re.compile(r"[Ww]rite (\d+) ")
_INVENTS: Final = 0.3
_MOST_FILLERS: Final = 3


class InstructionTeacher(Generic[FailureT, Rule]):
    """Call it with any of the three meta-prompts. The reply is a function of the prompt and the seed.

    `reasoner` is the world's teacher: it knows how to write rules and how many fit into an instruction.
    """

    def __init__(self, reasoner: RuleTeacher[FailureT, Rule]) -> None:
        self._reasoner = reasoner

    def __call__(self, prompt: str) -> str:
        rng = self._reasoner.rng_of(prompt)
        return reply(self._one(prompt, rng) for _ in range(wanted(prompt)))

    def _one(self, prompt: str, rng: random.Random) -> str:
        reasoner = self._reasoner
        parent = _PARENT.search(prompt)
        rules: dict[str, Rule] = reasoner.rules_in(parent[1]) if parent else {}
        scored = [
            (float(found[3]), reasoner.rules_in(found[2])) for found in _SCORED.finditer(prompt)
        ]
        if failures := reasoner.failures_in(prompt):
            rules = reasoner.improve(rules, failures, rng)
        elif scored:
            rules = _recombined(scored, rng)
        if not failures and rng.random() < _INVENTS:
            word, rule = reasoner.invented(rng)
            rules[word] = rule
        while len(rules) > reasoner.max_clauses:
            rules.pop(rng.choice(list(rules)))
        return reasoner.spelled(rules, rng, _MOST_FILLERS)


def wanted(prompt: str) -> int:
    """Return how many instructions a meta-prompt asks for."""
    asked = _COUNT.search(prompt)
    return int(asked[1]) if asked else 1


def reply(texts: Iterable[str]) -> str:
    """Write instructions as INSPO's proposers read them."""
    return "\n\n".join(
        f"<ins_{number}>\n{text}\n</ins_{number}>" for number, text in enumerate(texts, start=1)
    )


def _recombined(scored: list[tuple[float, dict[str, Rule]]], rng: random.Random) -> dict[str, Rule]:
    """Combine the best instruction with some rules of two others that did well."""
    ranked = [rules for _, rules in sorted(scored, key=lambda entry: -entry[0])[:6]]
    rules = dict(ranked[0])
    for other in rng.sample(ranked, min(2, len(ranked))):
        rules |= {word: rule for word, rule in other.items() if rng.random() < 0.5}
    if rules and rng.random() < 0.5:
        rules.pop(rng.choice(list(rules)))
    return rules
