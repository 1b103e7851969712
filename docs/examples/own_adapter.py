"""The adapter for `own_trainer.py`: everything that prompt_coevo needs of a trainer, in one subclass.

    python docs/examples/own_adapter.py

trains the demo's policy on hard questions, with P2O and without, and prints how many it answers.
"""

from __future__ import annotations

import copy
import logging
import random
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from own_trainer import Config, OwnTrainer, Row
from prompt_coevo import Assignment, Coevolution, Question, Rollout, RolloutRequest, Settings
from prompt_coevo.adapters.common.columns import index_columns
from prompt_coevo.errors import HostError

logger = logging.getLogger("own_adapter")


@dataclass
class PlannedRow(Row):
    """A rollout that knows what it ran under, so that nothing depends on the order of rows."""

    assignment: Assignment = field(kw_only=True)


class OwnAdapter(OwnTrainer):
    """The trainer with an engine. It is the engine's `Policy`, too."""

    def __init__(
        self,
        *arguments: Any,
        settings: Settings,
        output_dir: Path | None = None,
        plugins: Mapping[str, object] | None = None,
    ) -> None:
        super().__init__(*arguments)
        if settings.distill_forward:
            raise HostError("this trainer has no distill_forward; leave it out")
        self.questions = index_columns(self.dataset, settings)
        self.placement = settings.placement.build()
        counting = copy.deepcopy(self.tokenizer)  # counted with in another thread
        self.engine = Coevolution.from_settings(
            settings,
            output_dir=output_dir,
            count_tokens=lambda text: len(counting(text)["input_ids"]),
            system_message=self.questions.shared_system_message,
            plugins=plugins,
        )
        self.aside_random = torch.Generator().manual_seed(settings.seed + 1).get_state()

    # Rollouts: plan, place, observe, and take the template out again

    def round(self, questions: Sequence[dict[str, Any]]) -> Sequence[Row]:
        ids = [self.questions.id_of(question) for question in questions]
        plan = self.engine.plan(ids, self.config.group_size)
        finished = self.sample([self.placed(one) for one in plan], self.config.temperature)
        self.score(finished)
        self.observe(finished)
        for row in finished:
            row.prompt_ids = self.encode(row.assignment.train_prompt(row.question["prompt"]))
        return finished

    def placed(self, assignment: Assignment) -> PlannedRow:
        question = self.questions.row(assignment.question_id)
        prompt_ids = self.encode(assignment.rollout_prompt(question["prompt"]))
        return PlannedRow(question, assignment.group, prompt_ids, assignment=assignment)

    def observe(self, rows: Sequence[PlannedRow]) -> None:
        self.engine.observe([self.rollout_of(row) for row in rows])

    def rollout_of(self, row: PlannedRow) -> Rollout:
        return Rollout.scored(row.assignment, row.text, row.reward, self.engine.policy_version)

    # The policy, for the engine's own rollouts

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        rows = [self.placed(request.assignment) for request in requests]
        temperatures = [request.sampling.temperature for request in requests]
        pairs = list(zip(temperatures, rows, strict=True))
        with self.aside():
            for temperature, same in groupby(pairs, key=lambda pair: pair[0]):
                trained_with = self.config.temperature
                self.sample(
                    [row for _, row in same], trained_with if temperature is None else temperature
                )
            self.score(rows)
        return [self.rollout_of(row) for row in rows]

    @contextmanager
    def aside(self) -> Iterator[None]:
        """Random numbers of its own, which go on from call to call; the training's are kept."""
        trains, python, own = self.model.training, random.getstate(), torch.get_rng_state()
        torch.set_rng_state(self.aside_random)
        try:
            yield
        finally:
            self.aside_random = torch.get_rng_state()
            torch.set_rng_state(own)
            random.setstate(python)
            self.model.train(trains)

    def question(self, question_id: str) -> Question:
        return self.questions.question(question_id)

    def question_ids(self) -> list[str]:
        return self.questions.ids()

    # The moments of training

    def train(self, epochs: int) -> None:
        self.engine.begin(self)
        super().train(epochs)
        self.engine.end(self)

    def change_weights(self, loss: Tensor) -> None:
        super().change_weights(loss)
        self.engine.step_end(self, last=self.step == self.total_steps)

    def order_of_epoch(self) -> list[int]:
        if self.epoch > self.engine.epochs:  # one is over, and another one follows
            self.engine.epoch_end(self)
        return super().order_of_epoch()

    def evaluation_prompt(self, question: dict[str, Any]) -> Any:
        instruction = self.engine.evaluation_instruction()
        text = instruction.text if instruction else None
        return self.placement.place(question["prompt"], text, None)

    def numbers(self, rows: Sequence[Row]) -> dict[str, float]:
        return {**super().numbers(rows), **self.engine.metrics()}

    # Checkpoints

    def state(self) -> dict[str, Any]:
        own = {"coevo": self.engine.state_dict(), "aside_random": self.aside_random}
        return {**super().state(), **own}

    def load_state(self, state: dict[str, Any]) -> None:
        super().load_state(state)
        if "coevo" not in state:
            logger.warning("the checkpoint has no state of prompt_coevo: co-evolution starts anew")
            return
        self.engine.load_state_dict(state["coevo"], where="the checkpoint")
        self.aside_random = state["aside_random"]


def demonstrate(epochs: int = 8, seed: int = 0) -> dict[str, float]:
    """Train on 64 questions about four hard words; the share answered without any template."""
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from prompt_coevo.demo.digits import spell
    from prompt_coevo.demo.splits import training_tasks
    from prompt_coevo.demo.teacher import FactsTeacher
    from prompt_coevo.demo.world import World, base_path, reward

    world = World()
    words = world.words("hard")[:4]  # a template has room for so many explanations
    tasks = [task for task in training_tasks(world, seed) if task.word in words]
    dataset = [
        {
            "id": f"q{n}",
            "prompt": [{"role": "user", "content": task.question}],
            "answer": spell(task.answer),
        }
        for n, task in enumerate(tasks[:64])
    ]
    p2o = {
        "overspend": "never",
        "dev_size": 16,
        "minibatch_size": 6,
        "search_budget": 600,
        "minibatch_temperature": 1.0,
    }
    arms = {
        "GRPO": OwnTrainer,
        "GRPO and P2O": lambda *arguments: OwnAdapter(
            *arguments,
            settings=Settings(
                algorithms="p2o",
                p2o=p2o,
                reflection={"function": FactsTeacher(seed=seed)},
                seed=seed,
            ),
        ),
    }
    results = {}
    for name, make in arms.items():
        trainer = make(
            AutoModelForCausalLM.from_pretrained(base_path(world), dtype=torch.float32),
            AutoTokenizer.from_pretrained(base_path(world)),
            dataset,
            lambda question, text: reward(text, question["answer"]),
            Config(seed=seed),
        )
        trainer.train(epochs)
        results[name] = trainer.evaluate(dataset)
    return results


if __name__ == "__main__":
    torch.set_num_threads(1)
    for name, share in demonstrate().items():
        print(f"{name}: {share:.0%} of the questions answered, without any template")
