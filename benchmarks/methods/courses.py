"""How an arm of tier 2 is run: as the demo runs it, with another loss, frozen, or by another trainer."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, TypeAlias

import torch
from outside import ForTheHard
from transformers import AutoModelForCausalLM, AutoTokenizer

from prompt_coevo import Question
from prompt_coevo.adapters.trl.ratio import DistilRatio
from prompt_coevo.demo import train as demo
from prompt_coevo.demo.arms import ERROR, RULES, Arm, teacher
from prompt_coevo.demo.evaluate import MAX_COMPLETION, chat
from prompt_coevo.demo.facts.splits import training_tasks
from prompt_coevo.demo.facts.teacher import FactsTeacher
from prompt_coevo.demo.facts.world import World, clause, reward
from prompt_coevo.demo.held_out import HeldOut, base_path
from prompt_coevo.demo.results import ArmResult
from prompt_coevo.demo.trainer import GROUP_SIZE, ROLLOUTS_PER_STEP, quieten
from prompt_coevo.demo.under_templates import UnderTemplates
from prompt_coevo.demo.world import spell
from prompt_coevo.placement import question_text

Change: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]

_PARENT: Final = re.compile(r"<current_[12]>(.*?)</current_[12]>", re.DOTALL)


def _job(
    name: str, spec: Arm, seed: int, draw: int, base: Path | None, out: Path, **more: Any
) -> demo.Job:
    return demo.Job(name, spec, seed, out, draw, base, **more)


def _silent(spent: int, hard: float | None) -> None: ...


def plainly(*run: Any) -> ArmResult:
    """As the demo does."""
    return demo.train(_job(*run), _silent)


def crossing(name: str, spec: Arm, seed: int, draw: int, base: Path | None, out: Path) -> ArmResult:
    """With a teacher that also answers E-SPL's crossover."""
    reflection = {"function": CrossingTeacher(seed)}
    return demo.train(_job(name, spec, seed, draw, base, out, reflection=reflection), _silent)


class CrossingTeacher:
    """The demo's teacher; asked to join two instructions it takes the rules of both, and errs."""

    def __init__(self, seed: int) -> None:
        self._reasoner = FactsTeacher(seed=seed, max_clauses=RULES)
        self._reflects = teacher("reasoning", seed, ERROR)

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


def frozen(*run: Any) -> ArmResult:
    """The policy does not learn: what a search finds by itself."""
    return demo.train(_job(*run), _silent, learning_rate=0.0)


def frozen_first(
    name: str, spec: Arm, seed: int, draw: int, base: Path | None, out: Path
) -> ArmResult:
    """Half of the budget for a search on the frozen policy, the rest for training under what it found.

    A hard question runs under the template that solved most questions about its word, and once without.
    """
    half = demo.BUDGET // 2
    found = demo.train(
        _job(name, spec, seed, draw, base, out / "search", budget=half), _silent, learning_rate=0.0
    )

    def write(question: Question, round: int, count: int) -> list[str]:
        word = question_text(question.prompt).split()[1]
        return [found.best_templates.get(word, "")] * count

    training = replace(
        spec,
        values={"ground_truth_column": "answer", "algorithms": []},
        plugins=lambda world, seed: {"hints": ForTheHard(write)},
    )
    trained = demo.train(
        _job(name, training, seed, draw, base, out / "training", budget=half), _silent
    )
    return _one_after_the_other(found, trained)


def _one_after_the_other(first: ArmResult, second: ArmResult) -> ArmResult:
    return replace(
        second,
        budget=first.budget + second.budget,
        spent=(*first.spent, *(first.spent[-1] + spent for spent in second.spent[1:])),
        words={
            word: replace(score, right=(*first.words[word].right, *score.right[1:]))
            for word, score in second.words.items()
        },
        train_rollouts=first.train_rollouts + second.train_rollouts,
        other_rollouts=first.other_rollouts + second.other_rollouts,
        calls=first.calls,
        tokens=first.tokens,
        seconds=first.seconds + second.seconds,
        cpu_seconds=first.cpu_seconds + second.cpu_seconds,
    )


def weighted(*run: Any) -> ArmResult:
    """Successes under templates weigh one more: their log-likelihood is added to the objective."""
    return _with_advantages(
        lambda advantages, solved, distilled: advantages + 1.0 * (solved & distilled), *run
    )


def successes_alone(*run: Any) -> ArmResult:
    """What failed under a template is not trained on."""
    return _with_advantages(
        lambda advantages, solved, distilled: advantages * ~(distilled & ~solved), *run
    )


def _with_advantages(change: Change, *run: Any) -> ArmResult:
    """`change` makes new advantages of the old ones, of who succeeded and of who ran under a template."""
    graded: list[float] = []

    def grade(completion: str, answer: str) -> float:
        graded.append(reward(completion, answer))
        return graded[-1]

    with _changed_advantages(graded, change):
        return demo.train(_job(*run), _silent, grade=grade)


@contextmanager
def _changed_advantages(graded: Sequence[float], change: Change) -> Iterator[None]:
    """In rounds with distilled rows; the rewards of a round are the last ones graded."""
    apply = DistilRatio.apply

    def changing(self: DistilRatio, output: Any, prompts: Any, distilled: list[bool]) -> None:
        apply(self, output, prompts, distilled)
        solved = torch.tensor(graded[-len(distilled) :]) >= 1.0
        output["advantages"] = change(output["advantages"], solved, torch.tensor(distilled))

    DistilRatio.apply = changing  # type: ignore[method-assign]
    try:
        yield
    finally:
        DistilRatio.apply = apply  # type: ignore[method-assign]


# Other trainers

_COMMON: Final = {
    "per_device_train_batch_size": ROLLOUTS_PER_STEP,
    "num_generations": GROUP_SIZE,
    "max_completion_length": MAX_COMPLETION,
    "temperature": 1.0,
    "learning_rate": demo.LEARNING_RATE,
    "lr_scheduler_type": "constant_with_warmup",
    "warmup_steps": 5,
    "adam_beta2": 0.95,
    "gradient_checkpointing": False,
    "use_cpu": True,
    "bf16": False,
    "save_strategy": "no",
    "report_to": "none",
    "disable_tqdm": True,
}


def sdft(*run: Any) -> ArmResult:
    """TRL's SDFT: the base policy that is told the explanation teaches the policy that is not."""
    from trl.experimental.sdft import SDFTConfig, SDFTTrainer

    return _self_distilled(
        _job(*run),
        lambda **common: SDFTTrainer(
            args=SDFTConfig(
                **_COMMON,
                **common.pop("args"),
                distillation_mode="full_logits",
                distillation_topk=None,
                teacher_prompt_template="{privileged_context} {prompt}",
            ),
            **common,
        ),
    )


def sdpo(*run: Any) -> ArmResult:
    """TRL's SDPO: the policy that is shown a success of its group teaches the one that is not.

    What the authors' prompts say around it the policy's vocabulary does not have.
    """
    from trl.experimental.sdpo import SDPOConfig, SDPOTrainer

    def graded(completions: Sequence[Any], answer: Sequence[str], **_: Any) -> list[float]:
        pairs = zip(completions, answer, strict=True)
        return [reward(completion[0]["content"], truth) for completion, truth in pairs]

    return _self_distilled(
        _job(*run),
        lambda **common: SDPOTrainer(
            reward_funcs=graded,
            args=SDPOConfig(
                **_COMMON,
                **common.pop("args"),
                reprompt_template="{solution} {prompt}",
                solution_template="{successful_previous_attempt} .",
            ),
            **common,
        ),
    )


def _self_distilled(job: demo.Job, build: Any) -> ArmResult:
    import datasets

    quieten()
    torch.manual_seed(job.seed)
    world = World(job.draw)
    tasks = training_tasks(world, job.seed, demo.QUESTIONS)
    rows = [
        {
            "prompt": chat(task),
            "answer": spell(task.answer),
            "privileged_context": clause(task.word, world.meaning[task.word]),
        }
        for task in tasks
    ]
    base = job.base or base_path(world)
    trainer = build(
        model=AutoModelForCausalLM.from_pretrained(base, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(base),
        train_dataset=datasets.Dataset.from_list(rows),
        args={"output_dir": str(job.out), "seed": job.seed, "num_train_epochs": 8},
    )
    held_out = HeldOut(world)
    watch = demo.Watch(job, trainer, None, held_out, Counter(), _silent)
    trainer.add_callback(watch)
    began, began_cpu = time.monotonic(), time.process_time()
    trainer.train()
    watch.score()
    seconds = time.monotonic() - began - watch.seconds
    cpu_seconds = time.process_time() - began_cpu - watch.cpu_seconds
    model, tokenizer = trainer.model, trainer.processing_class
    return ArmResult(
        arm=job.arm,
        seed=job.seed,
        draw=job.draw,
        budget=job.rollouts,
        spent=tuple(watch.spent),
        words=held_out.words(watch.right),
        last=held_out.last(model, tokenizer, tasks, None, UnderTemplates()),
        train_rollouts=watch.trained,
        other_rollouts=0,
        batches=0,
        calls=0,
        tokens=0,
        seconds=round(seconds, 1),
        cpu_seconds=round(cpu_seconds, 1),
    )


COURSES: Final[Mapping[str, Any]] = {
    "train": plainly,
    "crossing": crossing,
    "weighted": weighted,
    "successes alone": successes_alone,
    "frozen": frozen,
    "frozen first": frozen_first,
    "sdft": sdft,
    "sdpo": sdpo,
}
