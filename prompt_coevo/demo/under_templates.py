"""What ran under templates, and with what success: a plugin that listens."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from prompt_coevo.demo.results import Cracked
from prompt_coevo.markers import hookimpl
from prompt_coevo.placement import question_text
from prompt_coevo.policy import Policy
from prompt_coevo.types import Group


class UnderTemplates:
    """Counts the training groups' members under templates; it changes nothing."""

    def __init__(self, solved_at: float = 1.0) -> None:
        self._solved_at = solved_at
        self._policy: Policy | None = None
        self._bare_successes: Counter[str] = Counter()
        self._cracked: dict[str, Cracked] = {}
        self.templated: Counter[str] = Counter()
        """Members under templates, by the text of the question."""

        self.texts: Counter[str] = Counter()
        """Members by the text of their template."""

        self.successes: dict[str, Counter[str]] = {}
        """By the text of the question: templates, and how often it was solved under each."""

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
                template = rollout.assignment.template
                solved = rollout.reward >= self._solved_at
                if template is None or not rollout.assignment.templated:
                    self._bare_successes[text] += solved
                    continue
                self.templated[text] += 1
                self.texts[template.text] += 1
                if solved:
                    self.successes.setdefault(text, Counter())[template.text] += 1
                    if not self._bare_successes[text]:
                        truth = question.ground_truth or ""
                        self._cracked.setdefault(template.text, Cracked(template.text, text, truth))

    def cracked(self, count: int) -> tuple[Cracked, ...]:
        """Templates that solved the most, each with a question that only templates had solved then."""
        solved: Counter[str] = Counter()
        for by_template in self.successes.values():
            solved += by_template
        best = [text for text, _ in solved.most_common() if text in self._cracked]
        return tuple(self._cracked[text] for text in best[:count])

    def best_by(self, groups: Mapping[str, str]) -> dict[str, str]:
        """The template that solved the most questions of each group; `groups` says whose a question is."""
        totals: dict[str, Counter[str]] = {}
        for question, by_template in self.successes.items():
            if question in groups:
                totals.setdefault(groups[question], Counter()).update(by_template)
        return {group: counts.most_common(1)[0][0] for group, counts in totals.items()}
