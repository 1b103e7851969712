"""A run with a real language model: TRL's own GRPOTrainer on questions that do not say what to do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import datasets
import torch
import transformers
import trl

from prompt_coevo.demo.evaluate import completions, undisturbed
from prompt_coevo.demo.job import Job
from prompt_coevo.demo.results import ArmResult, Report, Share, WordScore
from prompt_coevo.demo.trainer import quieten
from prompt_coevo.demo.unnamed.arms import POINTS, ROLLOUTS_PER_STEP
from prompt_coevo.demo.unnamed.tasks import Questions
from prompt_coevo.demo.unnamed.teachers import TeacherName, teacher
from prompt_coevo.demo.unnamed.values import CHAT, SAMPLES, TEMPERATURE, trainer_values
from prompt_coevo.demo.watch import counting, run
from prompt_coevo.errors import SettingsError
from prompt_coevo.settings import Settings
from prompt_coevo.visible import in_a_line

_ROWS_AT_ONCE: Final = 128


class HeldOut:
    """The held-out questions of one split, sampled as in training, without any template."""

    def __init__(self, questions: Questions) -> None:
        self._questions = questions
        self._tasks = {task.question: task for task in questions.held_out}
        self.said: list[dict[str, str]] = []
        """The first answer to every question, at every point."""

    def score(self, model: Any, tokenizer: Any, instruction: str | None) -> dict[str, int]:
        """Count the right answers to every question, of `SAMPLES`."""
        asked, most = sorted(self._tasks, key=len), self._questions.most_tokens
        chats = [chat(question, instruction) for question in asked]
        with undisturbed(model):
            answers = sample(model, tokenizer, chats, SAMPLES, most)
        self.said.append({name: texts[0] for name, texts in zip(asked, answers, strict=True)})
        return {
            question: self._right(question, texts)
            for question, texts in zip(asked, answers, strict=True)
        }

    def _right(self, question: str, texts: Sequence[str]) -> int:
        answer = self._tasks[question].answer
        return sum(self._questions.reward(text, answer) >= 1 for text in texts)

    def accuracy(self, right: Mapping[str, int], kind: str) -> float:
        """Average over the questions of a family; "hard" is all that are meant to be."""
        families = self._questions.hard if kind == "hard" else (kind,)
        found = [right[name] for name, task in self._tasks.items() if task.family in families]
        return sum(found) / SAMPLES / len(found)

    def words(self, right: Sequence[Mapping[str, int]]) -> dict[str, WordScore]:
        """Collect the scores of all points, by question."""
        return {
            name: WordScore(task.family, SAMPLES, tuple(one[name] for one in right))
            for name, task in sorted(self._tasks.items())
        }

    def last(self, model: Any, tokenizer: Any, instruction: str | None) -> dict[str, Share]:
        """Score nothing more."""
        return {}


def train(
    job: Job,
    report: Report,
    log: Callable[[dict[str, float]], None] | None = None,
    questions: Questions | None = None,
) -> ArmResult:
    """Train one arm and evaluate it before, on the way, and at the end.

    `job.base` is the model's folder, `job.draw` the split of the questions, unless others are given.
    `job.reflection` may name a teacher: `{"teacher": "blind"}`; else it is `reader`. `log` is told the
    trainer's log of every step.
    """
    quieten()
    torch.manual_seed(job.seed)
    questions = questions or Questions.unnamed(job.draw)
    trainer = build_trainer(job, questions)
    if log is not None:
        trainer.add_callback(_Log(log))
    calls, exam = Counter[str](), HeldOut(questions)
    result = run(
        job,
        trainer,
        settings_of(job, calls),
        exam,
        report,
        calls=calls,
        per_step=ROLLOUTS_PER_STEP,
        points=POINTS,
    )
    first, last = exam.said[0], exam.said[-1]
    return replace(result, said={name: (first[name], last[name]) for name in first})


class _Log(transformers.TrainerCallback):  # type: ignore[misc]
    def __init__(self, tell: Callable[[dict[str, float]], None]) -> None:
        self._tell = tell

    def on_log(
        self, args: object, state: object, control: object, logs: dict[str, float], **_: object
    ) -> None:
        if "reward" in logs:
            self._tell(dict(logs))


def settings_of(job: Job, calls: Counter[str]) -> Settings | None:
    """Make the settings of a job's arm, None for the bare trainer."""
    if job.spec.values is None:
        return None
    reflection = dict(job.reflection or {})
    name: TeacherName = reflection.pop("teacher", "reader")
    if not reflection.keys() & {"model", "function"}:
        reflection["function"] = counting(teacher(name, job.seed), calls)
    return Settings(seed=job.seed, reflection=reflection, **job.spec.values)


def build_trainer(job: Job, questions: Questions) -> Any:
    """Make TRL's GRPOTrainer, the same for every arm; on a GPU where there is one.

    Raises SettingsError for a model that cannot be loaded or has no chat template.
    """
    try:
        tokenizer = load_tokenizer(job.base)
        model = transformers.AutoModelForCausalLM.from_pretrained(job.base, dtype=torch.float32)
    except Exception as error:  # of transformers, safetensors, tokenizers, a hub
        said = in_a_line(error, 300)
        raise SettingsError(f"transformers cannot load a model from {job.base}: {said}") from None
    if not tokenizer.chat_template:
        raise SettingsError(
            f"the tokenizer in {job.base} has no chat template: give an instruction-tuned model"
        )
    rows = [{"prompt": chat(task.question), "answer": task.answer} for task in questions.training]

    def graded(completions: Sequence[Any], answer: Sequence[str], **_: Any) -> list[float]:
        pairs = zip(completions, answer, strict=True)
        return [questions.reward(completion[0]["content"], truth) for completion, truth in pairs]

    values = trainer_values(job, questions.most_tokens)
    trainer = trl.GRPOTrainer(
        model=model,
        reward_funcs=graded,
        args=trl.GRPOConfig(**values, use_cpu=not torch.cuda.is_available()),
        train_dataset=datasets.Dataset.from_list(rows),
        processing_class=tokenizer,
    )
    trainer.remove_callback(transformers.PrinterCallback)
    return trainer


def load_tokenizer(model: object) -> Any:
    """Load the tokenizer of a model by its folder or name; SmolLM2's gets the layout `CHAT`."""
    tokenizer = transformers.AutoTokenizer.from_pretrained(model, padding_side="left")
    if "named SmolLM" in (tokenizer.chat_template or ""):
        tokenizer.chat_template = CHAT
    return tokenizer


def chat(question: str, instruction: str | None = None) -> list[dict[str, str]]:
    """Write a conversation that asks the question, after the instruction if there is one."""
    system = [{"role": "system", "content": instruction}] if instruction else []
    return [*system, {"role": "user", "content": question}]


def sample(
    model: Any,
    tokenizer: Any,
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
        # As TRL samples: its own values stand above those that a model brings along.
        top_k=0,
        top_p=1.0,
        repetition_penalty=1.0,
        max_new_tokens=most_tokens,
        num_return_sequences=count,
    )
    return [list(of_one) for of_one in zip(*[iter(texts)] * count, strict=True)]
