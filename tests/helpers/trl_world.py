"""Provide hard questions of the demo's world as a dataset, rewards, and fixed templates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from prompt_coevo import hookimpl
from prompt_coevo.demo.digits import spell
from prompt_coevo.types import EMPTY_TEMPLATE, Candidate, MemberPlan
from worlds.pairs.splits import make_splits
from worlds.pairs.world import Task, World, reward

WORLD = World(0)
TASKS = [t for t in make_splits(WORLD, 0, 64, 8).train if t.kind == "hard"][:8]


def right_hint(task: Task) -> str:
    return " ".join(f"{word} means {WORLD.meaning[word]} ." for word in dict.fromkeys(task.words))


def rows(tasks: Sequence[Task] = TASKS, kind: str = "chat") -> list[dict[str, Any]]:
    def prompt(task: Task) -> Any:
        chat = [{"role": "user", "content": task.question}]
        return chat if kind == "chat" else f"<user> {task.question} <end> <assistant>"

    return [
        {"id": f"q{n}", "prompt": prompt(task), "answer": spell(task.answer)}
        for n, task in enumerate(tasks)
    ]


def text_of(completion: Any) -> str:
    return completion if isinstance(completion, str) else completion[0]["content"]


def score(completions: Sequence[Any], answer: Sequence[str], **_: Any) -> list[float]:
    return [reward(text_of(c), truth) for c, truth in zip(completions, answer, strict=True)]


def length(completions: Sequence[Any], **_: Any) -> list[float]:
    """Return a reward that differs between rollouts, so that every group has a gradient."""
    return [len(set(text_of(completion).split())) / 20 for completion in completions]


class FixedTemplates:
    """A third-party plugin that maps question ids to their rollouts' templates, repeated as needed."""

    def __init__(self, templates: dict[str, list[str]], punished_from: float | None = None) -> None:
        self.templates = templates
        self.punished_from = punished_from

    @hookimpl
    def coevo_plan_group(self, question_id: str, group_size: int) -> list[MemberPlan] | None:
        texts = self.templates.get(question_id)
        if texts is None:
            return None
        return [
            MemberPlan(
                template=Candidate(texts[n % len(texts)], "template")
                if texts[n % len(texts)]
                else EMPTY_TEMPLATE,
                punished_from=self.punished_from,
            )
            for n in range(group_size)
        ]
