"""Plant faults that an adapter may have, one at a time, into `docs/examples/own_adapter.py`.

The list was written before the laws that must find them. The first six come from someone who had not
seen the laws either.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import torch

from own_adapter import OwnAdapter, PlannedRow
from own_trainer import Config, OwnTrainer, Row
from prompt_coevo import Rollout, RolloutRequest
from prompt_coevo.errors import HostError, StateError
from prompt_coevo.placement import Placement
from prompt_coevo.types import Assignment, Candidate, Sampling

Adapter: TypeAlias = type[OwnAdapter]


@dataclass(frozen=True)
class Fault:
    """A fault in a sentence, the law that it breaks, and a function that plants it into an adapter."""

    name: str
    sentence: str
    law: str
    plant: Callable[[Adapter], Adapter]


FAULTS: Final[dict[str, Fault]] = {}


def fault(
    sentence: str, law: str
) -> Callable[[Callable[[Adapter], Adapter]], Callable[[Adapter], Adapter]]:
    def keep(plant: Callable[[Adapter], Adapter]) -> Callable[[Adapter], Adapter]:
        name = plant.__name__.replace("_", " ")
        FAULTS[name] = Fault(name, sentence, law, plant)
        return plant

    return keep


# The six that were given


@fault(
    "groups whose rewards are all equal are dropped before they are observed",
    "every generated group is observed",
)
def flat_groups_dropped(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def observe(self, rows: Sequence[PlannedRow]) -> None:
            rewards = {
                group: {row.reward for row in rows if row.group == group}
                for group in {row.group for row in rows}
            }
            super().observe([row for row in rows if len(rewards[row.group]) > 1])

    return Mutant


@fault(
    "temperature 0 is taken for none, so greedy rollouts are sampled",
    "greedy is greedy",
)
def greedy_is_falsy(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
            return super().rollout(
                [
                    replace(request, sampling=Sampling(request.sampling.temperature or None))
                    for request in requests
                ]
            )

    return Mutant


@fault(
    "policy rollouts come from a copy of the weights that is renewed once a round",
    "policy rollouts are by the live weights",
)
def yesterdays_weights(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def round(self, questions: Sequence[dict[str, Any]]) -> Sequence[Row]:
            self.served = copy.deepcopy(self.model)
            return super().round(questions)

        def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
            live, self.model = self.model, getattr(self, "served", self.model)
            try:
                return super().rollout(requests)
            finally:
                self.model = live

    return Mutant


@fault(
    "a distilled row is trained on the bare question, without its instruction",
    "the loss is on the train prompt",
)
def instruction_distilled_away(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def round(self, questions: Sequence[dict[str, Any]]) -> Sequence[Row]:
            rows = super().round(questions)
            for row in rows:
                if row.assignment.distilled:
                    row.prompt_ids = self.encode(row.question["prompt"])
            return rows

    return Mutant


@fault(
    "the loss mask of a distilled row begins where the templated prompt ended",
    "the loss covers the completion",
)
def mask_where_the_template_ended(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def log_probs(self, model: Any, rows: Sequence[Row]) -> Any:
            values, mask = super().log_probs(model, rows)
            for row, kept in zip(rows, mask, strict=True):
                placed = self.encode(row.assignment.rollout_prompt(row.question["prompt"]))
                end = len(placed) + len(row.completion_ids) - 1
                kept[:] = False
                kept[len(placed) - 1 : end] = True
            return values, mask

    return Mutant


@fault(
    "placing writes into the messages of the dataset's own row",
    "the dataset stays as it is",
)
def placing_writes_into_the_row(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def placed(self, assignment: Assignment) -> PlannedRow:
            row = super().placed(assignment)
            _write(row.question["prompt"], assignment.rollout_prompt(row.question["prompt"]))
            return row

        def evaluation_prompt(self, question: dict[str, Any]) -> Any:
            _write(question["prompt"], super().evaluation_prompt(question))
            return question["prompt"]

    return Mutant


def _write(prompt: Any, placed: Any) -> None:
    prompt[-1]["content"] = placed[-1]["content"]


# Training inputs


@fault(
    "rows with a template are trained on the prompt that they were rolled out with",
    "the loss is on the train prompt",
)
def template_left_in_the_trained_prompt(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def round(self, questions: Sequence[dict[str, Any]]) -> Sequence[Row]:
            rows = super().round(questions)
            for row in rows:
                prompt = row.assignment.rollout_prompt(row.question["prompt"])
                row.prompt_ids = self.encode(prompt)
            return rows

    return Mutant


@fault(
    "a template that is not to be distilled is taken out as well",
    "the loss is on the train prompt",
)
def every_template_is_distilled(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def round(self, questions: Sequence[dict[str, Any]]) -> Sequence[Row]:
            rows = super().round(questions)
            for row in rows:
                bare = replace(row.assignment, distill=True)
                row.prompt_ids = self.encode(bare.train_prompt(row.question["prompt"]))
            return rows

    return Mutant


@fault(
    "the old log-probs are those of the sampler, under the template",
    "every log prob is on the trained prompt",
)
def old_log_probs_under_the_template(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def loss(self, rows: Sequence[Row], old: Any, reference: Any) -> Any:
            return super().loss(rows, _under_the_template(self, self.model, rows, old), reference)

    return Mutant


@fault(
    "the reference policy's log-probs are computed under the template",
    "every log prob is on the trained prompt",
)
def reference_log_probs_under_the_template(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def loss(self, rows: Sequence[Row], old: Any, reference: Any) -> Any:
            if reference is not None:
                reference = _under_the_template(self, self.reference, rows, reference)
            return super().loss(rows, old, reference)

    return Mutant


def _under_the_template(adapter: Any, model: Any, rows: Sequence[Row], clean: Any) -> Any:
    values = clean.clone()
    for number, row in enumerate(rows):
        prompt_ids = adapter.encode(row.assignment.rollout_prompt(row.question["prompt"]))
        with torch.no_grad():
            placed = replace(row, prompt_ids=prompt_ids)
            found, mask = OwnTrainer.log_probs(adapter, model, [placed])
        start = len(row.prompt_ids) - 1
        values[number, start : start + len(row.completion_ids)] = found[mask]
    return values


# Assignments and observations


@fault(
    "two members of a group run under each other's plan",
    "rewards belong to their member",
)
def two_members_swapped(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def observe(self, rows: Sequence[PlannedRow]) -> None:
            rows = sorted(rows, key=lambda row: (row.assignment.group, row.assignment.member))
            size = self.config.group_size
            for first in range(0, len(rows), size):
                one, other = rows[first], rows[first + 1]
                one.assignment, other.assignment = other.assignment, one.assignment
            super().observe(rows)

    return Mutant


@fault(
    "every rollout is credited with the reward of the row before it",
    "rewards belong to their member",
)
def rewards_one_row_off(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def observe(self, rows: Sequence[PlannedRow]) -> None:
            rewards = [row.reward for row in rows]
            shifted = [*rewards[-1:], *rewards[:-1]]
            super().observe(
                [replace(row, reward=one) for row, one in zip(rows, shifted, strict=True)]
            )

    return Mutant


@fault(
    "finished rows are given the plan's assignments by their position",
    "rewards belong to their member",
)
def attribution_by_position(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def observe(self, rows: Sequence[PlannedRow]) -> None:
            def place(row: PlannedRow) -> tuple[int, int]:
                return row.assignment.group, row.assignment.member

            plan = [row.assignment for row in sorted(rows, key=place)]
            super().observe(
                [replace(row, assignment=one) for row, one in zip(rows, plan, strict=True)]
            )

    return Mutant


@fault(
    "rollouts that come late are taken for those of the round that is under way",
    "late rollouts keep their assignment",
)
def late_rows_are_taken_for_new_ones(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def sample(self, rows: Sequence[Row], temperature: float) -> list[Row]:
            if self.model.training and isinstance(rows[0], PlannedRow):
                self.current = {
                    (row.assignment.group, row.assignment.member): row.assignment for row in rows
                }
            return super().sample(rows, temperature)

        def observe(self, rows: Sequence[PlannedRow]) -> None:
            wanted = [self.current.get((r.assignment.group, r.assignment.member)) for r in rows]
            super().observe(
                [
                    replace(row, assignment=one)
                    for row, one in zip(rows, wanted, strict=True)
                    if one is not None
                ]
            )

    return Mutant


@fault(
    "a round is rolled out under the plan of the round before",
    "the plan is placed",
)
def plan_of_the_round_before(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        before: dict[int, Assignment] = {}  # noqa: RUF012 (replaced, never written to)

        def placed(self, assignment: Assignment) -> PlannedRow:
            row = super().placed(assignment)
            stale = self.before.get(assignment.member)
            if stale is not None and self.is_in_round:
                told = replace(assignment, instruction=stale.instruction, template=stale.template)
                row.prompt_ids = self.encode(told.rollout_prompt(row.question["prompt"]))
            return row

        is_in_round = False

        def round(self, questions: Sequence[dict[str, Any]]) -> Sequence[Row]:
            self.is_in_round = True
            try:
                rows = super().round(questions)
            finally:
                self.is_in_round = False
            self.before = {row.assignment.member: row.assignment for row in rows}
            return rows

    return Mutant


@fault(
    "a question that comes again has the plan that it had before",
    "every round is planned once",
)
def plan_used_twice(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            plan, kept = self.engine.plan, {}

            def once_a_question(ids: Sequence[str], size: int) -> list[Assignment]:
                new = [one for one in ids if one not in kept]
                planned = plan(new, size)
                for number, one in enumerate(new):
                    kept[one] = planned[number * size : (number + 1) * size]
                return [assignment for one in ids for assignment in kept[one]]

            self.engine.plan = once_a_question

    return Mutant


@fault(
    "all rollouts of a group run under the plan of its first member",
    "the plan is placed",
)
def one_plan_per_group(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def round(self, questions: Sequence[dict[str, Any]]) -> Sequence[Row]:
            self.first: dict[int, Assignment] = {}
            return super().round(questions)

        def placed(self, assignment: Assignment) -> PlannedRow:
            row = super().placed(assignment)
            first = getattr(self, "first", {}).setdefault(assignment.group, assignment)
            if first.question_id == assignment.question_id:
                row.prompt_ids = self.encode(first.rollout_prompt(row.question["prompt"]))
            return row

    return Mutant


@fault(
    "the texts are joined to the prompt in a way of the adapter's own",
    "the plan is placed",
)
def placement_of_its_own(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def placed(self, assignment: Assignment) -> PlannedRow:
            row = super().placed(assignment)
            told = replace(assignment, placement=Placement())
            row.prompt_ids = self.encode(told.rollout_prompt(row.question["prompt"]))
            return row

    return Mutant


@fault(
    "completions that reached the length limit are not observed",
    "every generated group is observed",
)
def long_completions_left_out(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def observe(self, rows: Sequence[PlannedRow]) -> None:
            limit = self.config.max_new_tokens
            super().observe([row for row in rows if len(row.completion_ids) < limit])

    return Mutant


@fault(
    "a completion without a reward is observed as a failure",
    "a rollout without a reward is unfit",
)
def no_reward_is_a_failure(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def observe(self, rows: Sequence[PlannedRow]) -> None:
            super().observe(
                [row if math.isfinite(row.reward) else replace(row, reward=0.0) for row in rows]
            )

    return Mutant


@fault(
    "the reward function is given the placed prompt",
    "rewards see the questions own prompt",
)
def reward_sees_the_placed_prompt(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def placed(self, assignment: Assignment) -> PlannedRow:
            row = super().placed(assignment)
            prompt = assignment.rollout_prompt(row.question["prompt"])
            row.question = {**row.question, "prompt": prompt, "bare": row.question["prompt"]}
            return row

        def round(self, questions: Sequence[dict[str, Any]]) -> Sequence[Row]:
            rows = super().round(questions)
            for row in rows:
                prompt = row.assignment.train_prompt(row.question["bare"])
                row.prompt_ids = self.encode(prompt)
            return rows

    return Mutant


# The policy


@fault(
    "every call for policy rollouts begins with the same random numbers",
    "sampled rollouts are drawn anew",
)
def random_numbers_used_again(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        @contextmanager
        def aside(self) -> Iterator[None]:
            before = self.aside_random
            with super().aside():
                yield
            self.aside_random = before

    return Mutant


@fault(
    "policy rollouts draw from the training's random numbers",
    "a run that asks trains as one that does not",
)
def random_numbers_of_the_training(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        @contextmanager
        def aside(self) -> Iterator[None]:
            trains = self.model.training
            yield
            self.model.train(trains)

    return Mutant


@fault(
    "the model is left in evaluation mode after policy rollouts",
    "policy rollouts leave the host alone",
)
def mode_left_behind(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
            rollouts = super().rollout(requests)
            self.model.eval()
            return rollouts

    return Mutant


@fault(
    "policy rollouts come back as they finish, not in the order of the requests",
    "policy rollouts are placed and in order",
)
def answers_in_another_order(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
            rollouts = super().rollout(requests)
            order = sorted(range(len(rollouts)), key=lambda n: len(rollouts[n].completion))
            return [
                replace(rollouts[n], assignment=request.assignment)
                for n, request in zip(order, requests, strict=True)
            ]

    return Mutant


@fault(
    "a request without a temperature is sampled greedily",
    "requests have their temperature",
)
def none_is_greedy(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
            return super().rollout(
                [
                    replace(request, sampling=Sampling(request.sampling.temperature or 0.0))
                    for request in requests
                ]
            )

    return Mutant


@fault(
    "all requests of a batch are sampled at the first one's temperature",
    "requests have their temperature",
)
def one_temperature_a_batch(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
            return super().rollout(
                [replace(request, sampling=requests[0].sampling) for request in requests]
            )

    return Mutant


@fault(
    "policy rollouts are placed without their instruction",
    "policy rollouts are placed and in order",
)
def policy_rollouts_without_an_instruction(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
            bare = [
                replace(one, assignment=replace(one.assignment, instruction=None))
                for one in requests
            ]
            return [
                replace(rollout, assignment=request.assignment)
                for rollout, request in zip(super().rollout(bare), requests, strict=True)
            ]

    return Mutant


@fault(
    "the policy names only the questions that were trained on so far",
    "the policy knows all questions",
)
def only_questions_seen_so_far(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def round(self, questions: Sequence[dict[str, Any]]) -> Sequence[Row]:
            ids = [self.questions.id_of(question) for question in questions]
            self.seen = list(dict.fromkeys([*getattr(self, "seen", []), *ids]))
            return super().round(questions)

        def question_ids(self) -> list[str]:
            return list(getattr(self, "seen", []))

    return Mutant


# The moments of training


@fault(
    "step_end is called once a round, though a round updates the weights twice",
    "every update is a step",
)
def step_end_once_a_round(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def change_weights(self, loss: Any) -> None:
            OwnTrainer.change_weights(self, loss)
            if self.step % self.config.updates_per_round == 0:
                self.engine.step_end(self, last=self.step == self.total_steps)

    return Mutant


@fault(
    "step_end is called twice on the last step",
    "every update is a step",
)
def step_end_twice_at_the_end(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def change_weights(self, loss: Any) -> None:
            super().change_weights(loss)
            if self.step == self.total_steps:
                self.engine.step_end(self, last=True)

    return Mutant


@fault(
    "the last step_end does not say that it is the last",
    "every update is a step",
)
def the_last_step_is_not_said(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def change_weights(self, loss: Any) -> None:
            OwnTrainer.change_weights(self, loss)
            self.engine.step_end(self)

    return Mutant


@fault(
    "epoch_end is called after the last epoch, too",
    "an epoch ends before the next one",
)
def epoch_end_after_the_last(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def train(self, epochs: int) -> None:
            self.engine.begin(self)
            OwnTrainer.train(self, epochs)
            self.engine.epoch_end(self)
            self.engine.end(self)

    return Mutant


@fault(
    "epoch_end is never called",
    "an epoch ends before the next one",
)
def epoch_end_never(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def order_of_epoch(self) -> list[int]:
            return OwnTrainer.order_of_epoch(self)

    return Mutant


@fault(
    "a run that is resumed between two epochs does not make up for the epoch_end",
    "a resumed run goes on where it was",
)
def epoch_end_lost_between_two_runs(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        is_resumed = False

        def load_state(self, state: dict[str, Any]) -> None:
            super().load_state(state)
            self.is_resumed = True

        def order_of_epoch(self) -> list[int]:
            if self.is_resumed and self.position == 0:
                self.is_resumed = False
                return OwnTrainer.order_of_epoch(self)
            return super().order_of_epoch()

    return Mutant


@fault(
    "the end of training is never told",
    "training begins and ends once",
)
def end_never_told(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def train(self, epochs: int) -> None:
            self.engine.begin(self)
            OwnTrainer.train(self, epochs)

    return Mutant


# Evaluation, metrics


@fault(
    "the evaluation runs under the template that was used last",
    "evaluation runs under its instruction alone",
)
def evaluation_under_a_template(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def round(self, questions: Sequence[dict[str, Any]]) -> Sequence[Row]:
            rows = super().round(questions)
            texts = [r.assignment.template.text for r in rows if r.assignment.templated]
            self.lingering = texts[-1] if texts else getattr(self, "lingering", None)
            return rows

        def evaluation_prompt(self, question: dict[str, Any]) -> Any:
            prompt = super().evaluation_prompt(question)
            return self.placement.place(prompt, None, getattr(self, "lingering", None))

    return Mutant


@fault(
    "the evaluation runs without the evaluation instruction",
    "evaluation runs under its instruction alone",
)
def evaluation_without_its_instruction(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def evaluation_prompt(self, question: dict[str, Any]) -> Any:
            return question["prompt"]

    return Mutant


@fault(
    "the evaluation instruction is asked for after a step and lost on resume",
    "evaluation runs under its instruction alone",
)
def evaluation_instruction_lost_on_resume(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        told: Candidate | None = None

        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.told = self.engine.evaluation_instruction()

        def change_weights(self, loss: Any) -> None:
            super().change_weights(loss)
            self.told = self.engine.evaluation_instruction()

        def evaluation_prompt(self, question: dict[str, Any]) -> Any:
            text = self.told.text if self.told else None
            return self.placement.place(question["prompt"], text, None)

    return Mutant


@fault(
    "what evaluation sampled is observed as a round of training",
    "every round is planned once",
)
def evaluation_is_observed(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def evaluate(self, dataset: Sequence[dict[str, Any]]) -> float:
            known = set(self.questions.ids())
            ids = [i for i in map(self.questions.id_of, dataset) if i in known]
            plan = self.engine.plan(ids, 1)
            self.engine.observe([Rollout(one, "", 0.0) for one in plan])
            return super().evaluate(dataset)

    return Mutant


@fault(
    "the engine's metrics are never logged",
    "the engines metrics reach the log",
)
def metrics_not_logged(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def numbers(self, rows: Sequence[Row]) -> dict[str, float]:
            return OwnTrainer.numbers(self, rows)

    return Mutant


# Checkpoints


@fault(
    "the engine's state is not in the checkpoint",
    "the state travels in the checkpoint",
)
def state_lost(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def state(self) -> dict[str, Any]:
            return OwnTrainer.state(self)

    return Mutant


@fault(
    "the state in a checkpoint is the one of the checkpoint before",
    "the state travels in the checkpoint",
)
def state_of_the_checkpoint_before(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def state(self) -> dict[str, Any]:
            state = super().state()
            kept = getattr(self, "kept", state["coevo"])
            self.kept, state["coevo"] = state["coevo"], kept
            return state

    return Mutant


@fault(
    "the random numbers of policy rollouts begin anew in a resumed run",
    "a resumed run decides as the whole one",
)
def random_numbers_not_saved(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def load_state(self, state: dict[str, Any]) -> None:
            fresh = self.aside_random
            super().load_state(state)
            self.aside_random = fresh

    return Mutant


@fault(
    "training begins before the state is loaded",
    "training begins and ends once",
)
def begun_before_the_state_is_loaded(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def __init__(self, *arguments: Any, **options: Any) -> None:
            super().__init__(*arguments, **options)
            self.engine.begin(self)

        def train(self, epochs: int) -> None:
            OwnTrainer.train(self, epochs)
            self.engine.end(self)

    return Mutant


# Failures


@fault(
    "what a reward raises in a policy rollout ends the run",
    "a reward that raises ends the call alone",
)
def failing_reward_ends_the_run(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
            try:
                return super().rollout(requests)
            except RuntimeError as error:
                raise HostError(f"a policy rollout failed: {error}") from error

    return Mutant


@fault(
    "policy rollouts whose reward raised come back as failures",
    "a reward that raises ends the call alone",
)
def failing_reward_is_a_failure(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
            try:
                return super().rollout(requests)
            except RuntimeError:
                version = self.engine.policy_version
                return [Rollout.scored(one.assignment, "", 0.0, version) for one in requests]

    return Mutant


@fault(
    "after a policy rollout that failed its random numbers are left to the training",
    "a reward that raises ends the call alone",
)
def random_numbers_left_by_a_failure(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
            try:
                return super().rollout(requests)
            except RuntimeError:
                torch.manual_seed(len(requests))
                raise

    return Mutant


# Refusals


@fault(
    "a state that cannot be read is passed over, and co-evolution starts anew",
    "an unreadable state is refused",
)
def unreadable_state_passed_over(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def load_state(self, state: dict[str, Any]) -> None:
            try:
                super().load_state(state)
            except StateError:
                return

    return Mutant


@fault(
    "two questions with one id are taken for one",
    "two questions with one id are refused",
)
def questions_with_one_id(adapter: Adapter) -> Adapter:
    class Mutant(adapter):
        def __init__(
            self,
            model: Any,
            tokenizer: Any,
            dataset: Any,
            reward: Any,
            config: Config,
            **options: Any,
        ) -> None:
            column = options["settings"].question_id_column or "id"
            first = {row[column]: row for row in reversed(dataset)}
            unique = [row for row in dataset if first[row[column]] is row]
            super().__init__(model, tokenizer, unique, reward, config, **options)

    return Mutant
