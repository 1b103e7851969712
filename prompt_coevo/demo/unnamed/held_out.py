"""Score a language model, however trained, on held-out questions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from prompt_coevo.demo.digits import chat
from prompt_coevo.demo.evaluate import Model, completions, undisturbed
from prompt_coevo.demo.results import Share, WordScore
from prompt_coevo.demo.unnamed.tasks import Questions
from prompt_coevo.demo.unnamed.values import TEMPERATURE
from prompt_coevo.tokens import Tokenizer

_ROWS_AT_ONCE: Final = 128


class HeldOut:
    """The held-out questions of one split, sampled as in training, without any template."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._tasks = {task.question: task for task in questions.held_out}
        self.said: list[dict[str, str]] = []
        """The first answer to every question, at every point."""

    def score(self, model: Model, tokenizer: Tokenizer, instruction: str | None) -> dict[str, int]:
        """Count the right answers to every question, out of `Questions.samples`."""
        answers = self._answers(model, tokenizer, instruction)
        self.said.append({question: texts[0] for question, texts in answers.items()})
        return self._right(answers)

    def _answers(
        self, model: Model, tokenizer: Tokenizer, instruction: str | None
    ) -> dict[str, list[str]]:
        asked, most = sorted(self._tasks, key=len), self._questions.most_tokens
        chats = [chat(question, instruction) for question in asked]
        with undisturbed(model):
            answers = sample(model, tokenizer, chats, self._questions.samples, most)
        return dict(zip(asked, answers, strict=True))

    def _right(self, answers: Mapping[str, Sequence[str]]) -> dict[str, int]:
        reward = self._questions.reward
        return {
            question: sum(reward(text, self._tasks[question].answer) >= 1 for text in texts)
            for question, texts in answers.items()
        }

    def accuracy(self, right: Mapping[str, int], kind: str) -> float:
        """Average over the questions of a family; "hard" averages over all families meant to be hard."""
        families = self._questions.hard if kind == "hard" else (kind,)
        found = [right[name] for name, task in self._tasks.items() if task.family in families]
        return sum(found) / self._questions.samples / len(found)

    def words(self, right: Sequence[Mapping[str, int]]) -> dict[str, WordScore]:
        """Collect the scores of all points by question."""
        return {
            name: WordScore(task.family, self._questions.samples, tuple(one[name] for one in right))
            for name, task in sorted(self._tasks.items())
        }

    def last(self, model: Model, tokenizer: Tokenizer, instruction: str | None) -> dict[str, Share]:
        """Return the score without the instruction, if there is one."""
        if instruction is None:
            return {}
        right = self._right(self._answers(model, tokenizer, None))
        asked = self._questions.samples * len(right)
        return {"without instruction": Share(sum(right.values()), asked)}


def sample(
    model: Model,
    tokenizer: Tokenizer,
    chats: Sequence[list[dict[str, str]]],
    count: int,
    most_tokens: int,
) -> list[list[str]]:
    """Sample `count` completions of each conversation, as training does."""
    texts = completions(
        model,
        tokenizer,
        chats,
        max(1, _ROWS_AT_ONCE // count),
        do_sample=True,
        temperature=TEMPERATURE,
        # Like TRL, whose own values override those that a model brings along.
        top_k=0,
        top_p=1.0,
        repetition_penalty=1.0,
        max_new_tokens=most_tokens,
        num_return_sequences=count,
    )
    return [list(of_one) for of_one in zip(*[iter(texts)] * count, strict=True)]
