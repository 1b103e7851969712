"""A plugin that only listens: which templates solved what the bare policy had not, and which instructions
the rollouts had."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from prompt_coevo.demo.results import Cracked
from prompt_coevo.markers import hookimpl
from prompt_coevo.placement import question_text
from prompt_coevo.policy import Policy
from prompt_coevo.types import Group


class UnderTemplates:
    """Count the successes of training groups under templates, and the rollouts of each instruction."""

    def __init__(self) -> None:
        self._policy: Policy | None = None
        self._bare_successes: Counter[str] = Counter()
        self._cracked: dict[str, Cracked] = {}
        self.successes: dict[str, Counter[str]] = {}
        """By question text: how often each template solved it."""
        self.instructions: dict[str, tuple[int, int]] = {}
        """By instruction: the first round that had it, from 0, and its rollouts."""

    @hookimpl
    def coevo_train_begin(self, policy: Policy) -> None:
        self._policy = policy

    @hookimpl
    def coevo_observe(self, groups: Sequence[Group]) -> None:
        assert self._policy is not None
        for group in groups:
            question = self._policy.question(group.question_id)
            text = question_text(question.prompt)
            for rollout in group.rollouts:
                template, instruction = rollout.assignment.template, rollout.assignment.instruction
                if instruction is not None:
                    first, count = self.instructions.get(
                        instruction.text, (rollout.assignment.round, 0)
                    )
                    self.instructions[instruction.text] = first, count + 1
                solved = rollout.reward >= 1.0
                if template is None or not rollout.assignment.templated:
                    self._bare_successes[text] += solved
                    continue
                if solved:
                    self.successes.setdefault(text, Counter())[template.text] += 1
                    if not self._bare_successes[text]:
                        truth = question.ground_truth or ""
                        self._cracked.setdefault(template.text, Cracked(template.text, text, truth))

    def cracked(self, count: int) -> tuple[Cracked, ...]:
        """Return the templates that solved the most, each with a question that only templates had solved
        then."""
        solved: Counter[str] = Counter()
        for by_template in self.successes.values():
            solved += by_template
        best = [text for text, _ in solved.most_common() if text in self._cracked]
        return tuple(self._cracked[text] for text in best[:count])
