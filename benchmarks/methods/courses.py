"""Run an arm of tier 2: as the demo does, with another loss, frozen, or with another trainer."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch
from arms import Studied
from examined import Examined, Seen
from outside import ForTheHard
from transformers import AutoModelForCausalLM, AutoTokenizer

from prompt_coevo import Question
from prompt_coevo.adapters.trl.ratio import DistillRatio
from prompt_coevo.demo import train as demo
from prompt_coevo.demo.arms import LEARNING_RATE
from prompt_coevo.demo.digits import chat, spell
from prompt_coevo.demo.job import Job
from prompt_coevo.demo.results import ArmResult
from prompt_coevo.demo.rule_teacher import ERROR
from prompt_coevo.demo.splits import Shares
from prompt_coevo.demo.teacher import RULES, FactsTeacher, teacher
from prompt_coevo.demo.trainer import quieten, trainer_values
from prompt_coevo.demo.watch import run
from prompt_coevo.demo.world import World, base_path, clause, reward
from prompt_coevo.placement import question_text

Options: TypeAlias = Mapping[str, Any]

_PARENT: Final = re.compile(r"<current_[12]>(.*?)</current_[12]>", re.DOTALL)


def _silent(spent: int, hard: float | None) -> None: ...


def job_of(
    arm: str,
    studied: Studied,
    seed: int,
    out: Path,
    draw: int,
    base: Path,
    budget: int,
    shares: Shares,
) -> Job:
    """Return the demo's job, with the arm's teacher."""
    reflection = {"function": teacher(studied.teacher, seed=seed, error=studied.error)}
    return Job(arm, studied.spec, seed, out, draw, base, budget, reflection, shares=shares)


def _train(job: Job, studied: Studied, seen: Seen | None = None, **changes: Any) -> ArmResult:
    """Train as the demo does, with the arm's changes."""
    seen, world = seen or Seen(), World(job.draw)
    tasks = job.tasks()
    own = studied.plugins(world, job.seed) if studied.plugins else {}
    return demo.train(
        job,
        _silent,
        plugins={"seen": seen, **own},
        columns=studied.columns(world, tasks) if studied.columns else None,
        changes=studied.trainer,
        reserve=studied.reserve,
        held_out=Examined(world, tasks, seen),
        **changes,
    )


def plainly(job: Job, studied: Studied) -> ArmResult:
    """Run as the demo does."""
    return _train(job, studied)


def crossing(job: Job, studied: Studied) -> ArmResult:
    """Run with a teacher that also answers E-SPL's crossover."""
    return _train(replace(job, reflection={"function": CrossingTeacher(job.seed)}), studied)


class CrossingTeacher:
    """The demo's teacher; to join two instructions it takes the rules of both, with errors."""

    def __init__(self, seed: int) -> None:
        self._reasoner = FactsTeacher(seed=seed, max_clauses=RULES)
        self._reflects = teacher(seed=seed)

    def __call__(self, prompt: str) -> str:
        return self._crossed(prompt) if "<current_1>" in prompt else self._reflects(prompt)

    def _crossed(self, prompt: str) -> str:
        rng, reasoner = self._reasoner.rng_of(prompt), self._reasoner
        first, second = (reasoner.rules_in(text) for text in _PARENT.findall(prompt))
        rules = first | {
            word: rule
            for word, rule in second.items()
            if word not in first or rng.random() < 0.5  # they contradict each other: either one
        }
        if rules and rng.random() < ERROR:
            rules[rng.choice(list(rules))] = reasoner.invented(rng)[1]
        while len(rules) > reasoner.max_clauses:
            rules.pop(rng.choice(list(rules)))
        return f"<ins_1>\n{reasoner.spelled(rules, rng)}\n</ins_1>"


def frozen(job: Job, studied: Studied) -> ArmResult:
    """Run with a policy that does not learn, to see what a search finds by itself."""
    return _train(job, studied, learning_rate=0.0)


def frozen_first(job: Job, studied: Studied) -> ArmResult:
    """Spend part of the budget on a search with the frozen policy, the rest on training.

    A question about a word for which templates were found runs under the one that solved most questions
    about it, and once without, until that solves it.
    """
    search, seen = int(studied.options["search"] * job.budget), Seen()
    found = _train(
        replace(job, out=job.out / "search", budget=search), studied, seen, learning_rate=0.0
    )
    templates = seen.best_by_word(job.tasks())

    def best(question: Question) -> str:
        return templates.get(question_text(question.prompt).split()[1], "")

    def write(question: Question, round: int, count: int) -> list[str]:
        return [best(question)] * count

    training = replace(job.spec, values={"ground_truth_column": "answer", "algorithms": []})
    hints = {"hints": ForTheHard(write, lambda one: bool(best(one)))}
    left = job.budget - found.train_rollouts - found.other_rollouts
    rest = replace(job, spec=training, out=job.out / "training", budget=left)
    trained = _train(rest, replace(studied, plugins=lambda world, seed: hints))
    return _one_after_the_other(found, trained)


def _one_after_the_other(first: ArmResult, second: ArmResult) -> ArmResult:
    return replace(
        second,
        budget=first.train_rollouts + first.other_rollouts + second.budget,
        spent=(*first.spent, *(first.spent[-1] + spent for spent in second.spent[1:])),
        words={
            word: replace(score, right=(*first.words[word].right, *score.right[1:]))
            for word, score in second.words.items()
        },
        train_rollouts=first.train_rollouts + second.train_rollouts,
        other_rollouts=first.other_rollouts + second.other_rollouts,
        batches=first.batches + second.batches,
        calls=first.calls,
        tokens=first.tokens,
        seconds=first.seconds + second.seconds,
        cpu_seconds=first.cpu_seconds + second.cpu_seconds,
    )


def weighted(job: Job, studied: Studied) -> ArmResult:
    """Run with a higher weight for successes under templates: their log-likelihood joins the objective."""
    graded: list[float] = []

    def grade(completion: str, answer: str) -> float:
        graded.append(reward(completion, answer))
        return graded[-1]

    with _weighing_more(graded, studied.options["weight"]):
        return _train(job, studied, grade=grade)


@contextmanager
def _weighing_more(graded: Sequence[float], weight: float) -> Iterator[None]:
    """Change rounds with distilled rows; a round's rewards are the last ones graded."""
    apply = DistillRatio.apply

    def changing(
        self: DistillRatio, output: Any, rolled_out: Any, trained: Any, distilled: list[bool]
    ) -> None:
        apply(self, output, rolled_out, trained, distilled)
        solved = torch.tensor(graded[-len(distilled) :]) >= 1.0
        more = weight * (solved & torch.tensor(distilled))
        output["advantages"] = output["advantages"] + more

    DistillRatio.apply = changing  # type: ignore[method-assign]
    try:
        yield
    finally:
        DistillRatio.apply = apply  # type: ignore[method-assign]


# Other trainers


def sdft(job: Job, studied: Studied) -> ArmResult:
    """Run TRL's SDFT: the base policy with the explanation teaches the policy without it."""
    from trl.experimental.sdft import SDFTConfig, SDFTTrainer

    return _self_distilled(job, SDFTTrainer, SDFTConfig, studied.options)


def sdpo(job: Job, studied: Studied) -> ArmResult:
    """Run TRL's SDPO: an average of the policy with a success of its group teaches the policy.

    The policy's vocabulary lacks the other words of the authors' prompts.
    """
    from trl.experimental.sdpo import SDPOConfig, SDPOTrainer

    def graded(completions: Sequence[Any], answer: Sequence[str], **_: Any) -> list[float]:
        pairs = zip(completions, answer, strict=True)
        return [reward(completion[0]["content"], truth) for completion, truth in pairs]

    return _self_distilled(job, SDPOTrainer, SDPOConfig, studied.options, reward_funcs=graded)


def _self_distilled(
    job: Job, trainer_class: Any, config_class: Any, options: Options, **more: Any
) -> ArmResult:
    import datasets

    quieten()
    torch.manual_seed(job.seed)
    world = World(job.draw)
    tasks = job.tasks()
    rows = [
        {
            "prompt": chat(task.question),
            "answer": spell(task.answer),
            "privileged_context": clause(task.word, world.meaning[task.word]),
        }
        for task in tasks
    ]
    base = job.base or base_path(world)
    common = trainer_values(job.out, job.seed, epochs=8, learning_rate=LEARNING_RATE)
    trainer = trainer_class(
        model=AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(base),
        train_dataset=datasets.Dataset.from_list(rows),
        args=config_class(**common, **options),
        **more,
    )
    return run(job, trainer, None, Examined(world, tasks, Seen()), _silent)


COURSES: Final[Mapping[str, Callable[[Job, Studied], ArmResult]]] = {
    "train": plainly,
    "crossing": crossing,
    "weighted": weighted,
    "frozen": frozen,
    "frozen first": frozen_first,
    "sdft": sdft,
    "sdpo": sdpo,
}
