"""Apply the engine's plan in the trainer's generation round.

Four methods of the trainer *instance* are wrapped. `_generate` gets prompts with instruction and
template and returns the prompt ids of the question alone (`distill.py`). Rewards, environments and logs
keep the original prompts.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Final

import torch

from prompt_coevo.adapters.common.completion_texts import Completion, completion_text
from prompt_coevo.adapters.common.patching import swapped, wrap
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.common.rows import Row
from prompt_coevo.adapters.common.success import scaled
from prompt_coevo.adapters.trl.contract import check_names, check_rows, marks_of
from prompt_coevo.adapters.trl.distill import PromptExchange
from prompt_coevo.adapters.trl.environments import Environments
from prompt_coevo.adapters.trl.host import (
    VERSIONS,
    Batch,
    Generated,
    Ids,
    Trainer,
    has_own_rollouts,
)
from prompt_coevo.adapters.trl.late_rows import LateRows
from prompt_coevo.adapters.trl.policy import Answered, TrlPolicy
from prompt_coevo.adapters.trl.ranked_engine import RankedEngine, RankedPlan
from prompt_coevo.adapters.trl.ranked_policy import Scored
from prompt_coevo.adapters.trl.ratio import DistillRatio, punish_nothing
from prompt_coevo.adapters.trl.search_rewards import told_of_search
from prompt_coevo.errors import HostError
from prompt_coevo.placement import Prompt
from prompt_coevo.rendered import ChatReader
from prompt_coevo.settings import Settings
from prompt_coevo.types import Assignment

STATUS: Final = "coevo_status"
"""Under this key a `rollout_func` may return what happened to each rollout, such as `tool_error`."""


class GenerationAdapter:
    """Plans, places, distils and observes inside the trainer's own generation."""

    def __init__(
        self,
        trainer: Trainer,
        settings: Settings,
        engine: RankedEngine,
        questions: QuestionIndex,
        policy: TrlPolicy,
        read_chat: ChatReader,
        decides: int | None,
        environments: Environments,
    ) -> None:
        """Take `decides` as the index of the reward function that decides on success, None for the sum."""
        self._trainer = trainer
        self._engine = engine
        self._questions = questions
        self._policy = policy
        self._read_chat = read_chat
        self._late_rows = LateRows(questions, engine, policy)
        self._exchange = PromptExchange(trainer)
        self._ratio = DistillRatio(trainer, settings)
        self._success = settings.success
        self._decides = decides
        self._environments = environments
        self._rows: Sequence[Row] = []
        """The rows of the trainer's current round."""
        self._round: RankedPlan | None = None
        self._assigned: Sequence[Assignment] = []
        """The assignments of the rows that the trainer is generating for right now."""
        self._unpunished: list[bool] = []
        """True for the rows of this round that get no negative advantage."""
        self._rolled_out: Ids = []
        self._trained: Ids = []
        self._marks: list[dict[int, int]] = []
        """Of this round's completions, to recognise their rows."""
        self._reached: set[str] = set()
        """The wrapped methods that this round has called."""
        self.rounds = 0
        """Number of generation rounds that came through here."""

    def open(self) -> list[Callable[[], None]]:
        """Wrap the trainer's methods, once. Return functions that restore them. Raises HostError."""
        check_names(self._trainer)
        return [
            wrap(self._trainer, "_generate_and_score_completions", self._around_round, VERSIONS),
            wrap(self._trainer, "_generate", self._around_generate, VERSIONS),
            wrap(self._trainer, "_generate_single_turn", self._around_single_turn, VERSIONS),
            wrap(self._trainer, "_calculate_rewards", self._around_rewards, VERSIONS),
            *self._ratio.open(),
        ]

    # The wrapped methods

    def _around_round(self, original: Callable[[list[Row]], Batch], inputs: list[Row]) -> Batch:
        if self._policy.active is not None:
            with swapped(self, "_assigned", [one.assignment for one in self._policy.active]):
                return original(inputs)
        if not self._trainer.model.training:
            # The trainer's own evaluation runs under the best instruction, if there is one.
            best = self._engine.evaluation() or Assignment("validation")
            with swapped(self, "_assigned", [best] * len(inputs)):
                return original(inputs)
        self.rounds += 1
        self._reached.clear()
        with (
            swapped(self, "_rows", inputs),
            swapped(self, "_round", None),
            swapped(self, "_assigned", []),
            swapped(self, "_unpunished", []),
        ):
            if not self._environments.name_questions:
                self._plan(inputs)
            try:
                output = original(inputs)
                if self._round_gone_through().distilled_somewhere:
                    distilled = [assignment.distilled for assignment in self._assigned]
                    self._ratio.apply(output, self._rolled_out, self._trained, distilled)
                    check_rows(self._trainer, output, self._marks)
                    punish_nothing(output, self._unpunished)
            finally:
                self._ratio.forget()
        return output

    def _plan(self, rows: Sequence[Row]) -> None:
        """Plan the assignments of this round's rows."""
        ids, size = self._questions.ids_of(rows), self._trainer.num_generations
        self._late_rows.meet(rows)
        self._round = self._engine.plan(ids, size, "num_generations")
        self._assigned = self._round.mine

    def _around_generate(
        self, original: Callable[[list[Prompt]], Generated], prompts: list[Prompt]
    ) -> Generated:
        if self._rows and self._round is None:  # the questions are known only after reset()
            self._plan(self._environments.named(self._rows, prompts))
        if not self._assigned:
            return original(prompts)  # a user's own call, outside a round
        read = [
            self._read_chat(prompt) if one.instruction or one.templated else prompt
            for one, prompt in zip(self._assigned, prompts, strict=True)
        ]

        def place() -> list[Prompt]:
            if self._policy.active is not None:
                self._environments.check_asked([one.question_id for one in self._assigned])
            pairs = zip(self._assigned, read, strict=True)
            return [assignment.rollout_prompt(prompt) for assignment, prompt in pairs]

        if self._policy.active is not None:
            return self._policy.in_step.generate(original, prompts, place)
        result = original(place())
        if self._round is None:
            return result
        self._reached.add("_generate")
        self._rolled_out = [list(ids) for ids in result[0]]
        self._exchange.check_placed(self._assigned, read, self._rolled_out)
        self._trained = self._exchange.apply(self._assigned, read, self._rolled_out)
        if self._round.distilled_somewhere:
            self._ratio.begin(self._rolled_out, [one.distilled for one in self._assigned])
        return (self._trained, *result[1:])

    def _around_single_turn(
        self, original: Callable[..., Generated], /, *args: object, **kwargs: object
    ) -> Generated:
        """Make a vLLM server sample each prompt once if the prompts of a group may differ. By itself it
        samples every `num_generations`-th prompt that many times."""
        self._reached.add("_generate_single_turn")
        trainer = self._trainer
        mixed = self._round is not None and self._round.mixed_somewhere
        if not trainer.use_vllm or not (mixed or self._policy.active is not None):
            return original(*args, **kwargs)
        # The class's signature: another wrapper of the instance's method may hide it.
        signature = inspect.signature(type(trainer)._generate_single_turn)
        if "num_generations" in signature.parameters:
            bound = signature.bind(trainer, *args, **kwargs)
            bound.arguments["num_generations"] = 1
            return original(*bound.args[1:], **bound.kwargs)
        # Before 1.15 and in RLOO the number is read from the trainer.
        with swapped(trainer, "num_generations", 1), swapped(trainer, "num_generations_eval", 1):
            return original(*args, **kwargs)

    def _around_rewards(
        self,
        original: Callable[[list[Row], list[Prompt], list[Completion], Ids], torch.Tensor],
        inputs: list[Row],
        prompts: list[Prompt],
        completions: list[Completion],
        completion_ids_list: Ids,
    ) -> torch.Tensor:
        def calculate() -> torch.Tensor:
            return original(inputs, prompts, completions, completion_ids_list)

        if self._policy.active is not None:
            functions = told_of_search(self._trainer.reward_funcs)
            with swapped(self._trainer, "reward_funcs", functions):
                per_function = self._policy.in_step.rewards(calculate, len(prompts))
        else:
            self._marks = marks_of(completion_ids_list)  # reward functions may change the lists
            per_function = calculate()
        if self._policy.active is not None or self._round is not None:
            self._reached.add("_calculate_rewards")
            rewards = self._deciding(per_function)
            texts = [completion_text(completion) for completion in completions]
            reports = [row.get(STATUS) for row in inputs]
            start = self._engine.ranks.rank * len(texts)
            mine = rewards[start : start + len(texts)]
            if self._policy.active is not None:
                raise Answered([Scored(*row) for row in zip(texts, mine, reports, strict=True)])
            pairs = zip(self._assigned, mine, strict=True)
            self._unpunished = [one.unpunished(reward) for one, reward in pairs]
            self._engine.observe(list(zip(self._assigned, texts, reports, strict=True)), rewards)
        self._log_candidates()
        return per_function

    # Helpers

    def _round_gone_through(self) -> RankedPlan:
        """Return the round's plan. Raise HostError if the round bypassed a wrapped method, and so the
        plan."""
        needed, current = {"_generate", "_calculate_rewards"}, self._round
        mixed = current is not None and current.mixed_somewhere
        if self._trainer.use_vllm and mixed and not has_own_rollouts(self._trainer):
            needed.add("_generate_single_turn")
        past = sorted(needed - self._reached)
        if past or current is None:
            raise HostError(
                f"the trainer generated a batch without calling {', '.join(past)}, so the plan of "
                f"prompt_coevo was not in it; a subclass or a patch has replaced it, or {VERSIONS}"
            )
        return current

    def _deciding(self, per_function: torch.Tensor) -> list[float]:
        """Return the rewards that decide on success, of all ranks' rows, NaN where there is none."""
        if self._decides is not None:
            found = per_function[:, self._decides]
        else:
            weights = self._trainer.reward_weights.to(per_function.device)
            found = (per_function * weights).nansum(dim=1)
            found[per_function.isnan().all(dim=1)] = torch.nan
        return [scaled(reward, self._success) for reward in found.tolist()]

    def _log_candidates(self) -> None:
        """Add columns to the completions table. Rows without a candidate get None, so columns line up."""
        if getattr(self._trainer, "log_completions", False):
            log = self._trainer._log_completion_extra
            log("coevo_instruction", [one.instruction_text for one in self._assigned])
            log("coevo_template", [one.template_text for one in self._assigned])
