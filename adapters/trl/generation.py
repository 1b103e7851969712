"""The trainer's generation round, with our plan in it.

Four methods of the trainer *instance* are wrapped. `_generate` gets prompts with instruction and
template and returns the prompt ids of the question alone: everything that the trainer computes
afterwards (old, reference and new log-probs, the loss) is then on `x`, which is the whole of context
distillation here. Rewards, environments and logs keep the original prompts.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from prompt_coevo.adapters.trl.ranks import Ranks
from prompt_coevo.adapters.trl.ratio import LOSS_MASK, DistillRatio
from prompt_coevo.adapters.trl.rollouts import Scored, TrlPolicy
from prompt_coevo.doors.distill import swap_prompts
from prompt_coevo.doors.questions import QuestionIndex
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.errors import HostError
from prompt_coevo.placement import question_text
from prompt_coevo.settings import Settings
from prompt_coevo.types import Assignment, Candidate, PolicyVersion, Rollout

STATUS: Final = "coevo_status"
"""The key under which a `rollout_func` may return what happened to each rollout, such as `tool_error`."""
_WRAPPED = (
    "_generate_and_score_completions",
    "_generate",
    "_generate_single_turn",
    "_calculate_rewards",
)


@dataclass
class _Round:
    """One generation round on this rank."""

    assignments: list[Assignment]
    distilled_somewhere: bool
    mixed_somewhere: bool
    rollout_prompts: list[list[int]] = field(default_factory=list)

    @property
    def distilled(self) -> list[bool]:
        return [assignment.distilled for assignment in self.assignments]


class GenerationDoor:
    """Plans, places, distils and observes inside the trainer's own generation."""

    def __init__(
        self,
        trainer: Any,
        settings: Settings,
        engine: Coevolution | None,
        questions: QuestionIndex,
        ranks: Ranks,
        policy: TrlPolicy,
    ) -> None:
        self._trainer = trainer
        self._engine = engine
        self._questions = questions
        self._ranks = ranks
        self._policy = policy
        self._ratio = DistillRatio(trainer, settings)
        self._masks_loss = settings.distill_ratio == "band"
        self._round: _Round | None = None
        self._loss_mask: torch.Tensor | None = None
        self._placement = settings.placement.build()
        self._evaluation_instruction: str | None = None
        self.rounds = 0
        """Generation rounds that came through here."""

    def open(self) -> None:
        """Wrap the trainer's methods. They stay wrapped; wrap only once."""
        names = (*_WRAPPED, "_compute_loss", "_get_per_token_logps_and_entropies")
        for name in names if self._masks_loss else _WRAPPED:
            wrap(self._trainer, name, getattr(self, f"_around{name}"))

    # The wrapped methods

    def _around_generate_and_score_completions(
        self, original: Callable[..., Any], inputs: list[dict[str, Any]]
    ) -> Any:
        if self._policy.active is not None:
            return original(inputs)
        if not self._trainer.model.training:
            return self._evaluate(original, inputs)
        self.rounds += 1
        self._round = self._plan(inputs)
        try:
            output = original(inputs)
            if self._round.distilled_somewhere:
                self._ratio.apply(output, self._round.rollout_prompts, self._round.distilled)
            return output
        finally:
            self._round = None

    def _around_generate(self, original: Callable[..., Any], prompts: list[Any]) -> Any:
        if self._policy.active is not None:
            requests = zip(self._policy.active, prompts, strict=True)
            return original([request.assignment.rollout_prompt(p) for request, p in requests])
        if self._round is None:
            return original([self._evaluation_prompt(prompt) for prompt in prompts])
        pairs = list(zip(self._round.assignments, prompts, strict=True))
        placed = [assignment.rollout_prompt(prompt) for assignment, prompt in pairs]
        result = original(placed)
        if not any(self._round.distilled):
            self._round.rollout_prompts = [list(ids) for ids in result[0]]
            return result
        self._check_tokenization(placed, result[0])
        self._round.rollout_prompts = [list(ids) for ids in result[0]]
        train_ids = self._tokenize(
            [assignment.train_prompt(prompt) for assignment, prompt in pairs]
        )
        prompt_ids = swap_prompts(result[0], train_ids, self._round.distilled)
        return (prompt_ids, *result[1:])

    def _around_generate_single_turn(
        self, original: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        """A vLLM server samples every `num_generations`-th prompt that many times: right only if the
        prompts of a group are equal, which they are not under different templates."""
        mixed = self._round is not None and self._round.mixed_somewhere
        if not self._trainer.use_vllm or not (mixed or self._policy.active is not None):
            return original(*args, **kwargs)
        trainer = self._trainer
        # The class's signature, because somebody else may have wrapped the method without keeping it.
        signature = inspect.signature(type(trainer)._generate_single_turn)
        if "num_generations" in signature.parameters:
            bound = signature.bind(trainer, *args, **kwargs)
            bound.arguments["num_generations"] = 1
            return original(*bound.args[1:], **bound.kwargs)
        # Before 1.15 and in RLOO the number is read from the trainer.
        kept = trainer.num_generations, trainer.num_generations_eval
        trainer.num_generations = trainer.num_generations_eval = 1
        try:
            return original(*args, **kwargs)
        finally:
            trainer.num_generations, trainer.num_generations_eval = kept

    def _around_calculate_rewards(
        self,
        original: Callable[..., Any],
        inputs: list[dict[str, Any]],
        prompts: list[Any],
        completions: list[Any],
        completion_ids_list: list[Any],
    ) -> Any:
        per_function = original(inputs, prompts, completions, completion_ids_list)
        if self._policy.active is None and self._round is None:
            rows = len(prompts)
            self._log_candidates([self._evaluation_instruction] * rows, [None] * rows)
            return per_function
        rewards = self._total(per_function)
        texts = [completion_text(completion) for completion in completions]
        reports = [row.get(STATUS) for row in inputs]
        if self._policy.active is not None:
            start = self._ranks.rank * len(texts)
            mine = rewards[start : start + len(texts)]
            raise Scored(list(zip(texts, mine, reports, strict=True)))
        assert self._round is not None
        self._observe(list(zip(self._round.assignments, texts, reports, strict=True)), rewards)
        self._log_candidates(
            [_text(assignment.instruction) for assignment in self._round.assignments],
            [_text(assignment.template) for assignment in self._round.assignments],
        )
        return per_function

    def _around_compute_loss(self, original: Callable[..., Any], model: Any, inputs: Any) -> Any:
        self._loss_mask = inputs.get(LOSS_MASK)
        try:
            return original(model, inputs)
        finally:
            self._loss_mask = None

    def _around_get_per_token_logps_and_entropies(
        self, original: Callable[..., Any], *args: Any, **kwargs: Any
    ) -> Any:
        result = original(*args, **kwargs)
        if self._loss_mask is None:
            return result
        return (result[0] * self._loss_mask, *result[1:])

    # Their parts

    def _evaluate(self, original: Callable[..., Any], inputs: list[dict[str, Any]]) -> Any:
        """The host's own evaluation: under the best instruction, if there is one to use."""
        instruction = self._engine.evaluation_instruction() if self._engine else None
        text = self._ranks.broadcast(instruction.text if instruction else None)
        self._evaluation_instruction = text
        try:
            return original(inputs)
        finally:
            self._evaluation_instruction = None

    def _evaluation_prompt(self, prompt: Any) -> Any:
        if self._evaluation_instruction is None:
            return prompt
        return self._placement.place(prompt, self._evaluation_instruction, None)

    def _plan(self, inputs: list[dict[str, Any]]) -> _Round:
        """Rank 0's plan for all rows of the round; rows are process-major, groups can span ranks."""
        ids = self._ranks.gather(self._questions.ids_of(inputs))
        size = self._trainer.num_generations
        plan = self._engine.plan(_one_per_group(ids, size), size) if self._engine else None
        plan = self._ranks.broadcast(plan)
        start = self._ranks.rank * len(inputs)
        return _Round(
            assignments=plan[start : start + len(inputs)],
            distilled_somewhere=any(assignment.distilled for assignment in plan),
            mixed_somewhere=any(assignment.templated for assignment in plan),
        )

    def _observe(
        self, mine: list[tuple[Assignment, str, str | None]], rewards: list[float]
    ) -> None:
        rows = self._ranks.gather(mine)
        if self._engine is None:
            return
        version: PolicyVersion = self._engine.policy_version
        self._engine.observe(
            [
                Rollout.scored(assignment, text, reward, version, reported)
                for (assignment, text, reported), reward in zip(rows, rewards, strict=True)
            ]
        )

    def _total(self, per_function: torch.Tensor) -> list[float]:
        """Weighted sums over the reward functions, of all ranks' rows; NaN where none gave a reward."""
        weights = self._trainer.reward_weights.to(per_function.device)
        total = (per_function * weights).nansum(dim=1)
        total[per_function.isnan().all(dim=1)] = torch.nan
        rewards: list[float] = total.tolist()
        return rewards

    def _tokenize(self, prompts: list[Any]) -> list[list[int]]:
        """The token ids of the distilled rows' prompts, as the trainer tokenises them."""
        assert self._round is not None
        chosen = prompts
        distilled = self._round.distilled
        # Environments bring a tool schema for every row, so all rows have to go in together.
        together = getattr(self._trainer, "environment_factories", None) is not None
        if not together:
            chosen = [prompt for prompt, ours in zip(prompts, distilled, strict=True) if ours]
        ids = self._trainer._tokenize_prompts(chosen)[0]
        if together:
            ids = [row for row, ours in zip(ids, distilled, strict=True) if ours]
        return [list(row) for row in ids]

    def _check_tokenization(self, placed: list[Any], prompt_ids: list[list[int]]) -> None:
        """A user's rollout_func may tokenise in its own way; then we cannot know the ids of x."""
        if getattr(self._trainer, "rollout_func", None) is None:
            return
        assert self._round is not None
        theirs = [ids for ids, ours in zip(prompt_ids, self._round.distilled, strict=True) if ours]
        if [list(ids) for ids in theirs] != self._tokenize(placed):
            raise HostError(
                "the rollout_func returned prompt_ids that differ from the trainer's own "
                "tokenisation of the "
                "prompts, so the template cannot be taken out of them; tokenise with the trainer's "
                "chat template, "
                "or set context_distillation = false"
            )

    def _log_candidates(
        self, instructions: Sequence[str | None], templates: Sequence[str | None]
    ) -> None:
        """Columns in the completions table; rows without one get None, so that columns line up."""
        if getattr(self._trainer, "log_completions", False):
            self._trainer._log_completion_extra("coevo_instruction", instructions)
            self._trainer._log_completion_extra("coevo_template", templates)


def _text(candidate: Candidate | None) -> str | None:
    return candidate.text if candidate else None


def wrap(target: Any, name: str, around: Callable[..., Any]) -> None:
    """Replace a method of one object by `around(original, ...)`.

    Raises HostError if there is no such method, or if it is wrapped already.
    """
    original = getattr(target, name, None)
    if hasattr(original, "_wrapped_by_coevo"):
        raise HostError(
            f"this {type(target).__name__} already has a CoevoCallback; make one per trainer"
        )
    if original is None:
        raise HostError(
            f"{type(target).__name__} has no method {name}, which prompt_coevo wraps; "
            "use TRL 1.0 or newer (below 2), without 1.15.0"
        )

    @functools.wraps(original)
    def wrapped(*args: Any, **kwargs: Any) -> Any:
        return around(original, *args, **kwargs)

    wrapped._wrapped_by_coevo = True  # type: ignore[attr-defined]
    setattr(target, name, wrapped)


def completion_text(completion: Any) -> str:
    """A completion as one text: the string, or the messages' contents."""
    if isinstance(completion, str):
        return completion
    if len(completion) == 1:
        return _content(completion[0])
    return "\n".join(f"{message['role']}: {_content(message)}" for message in completion)


def _content(message: Any) -> str:
    if message.get("content") is None:
        return ""
    return question_text([{"role": "user", "content": message["content"]}])


def _one_per_group(ids: list[str], size: int) -> list[str]:
    for first in range(0, len(ids), size):
        if len(set(ids[first : first + size])) != 1:
            raise HostError(
                f"rows {first} to {first + size - 1} of a generation batch should be {size} "
                "rollouts of one "
                "question, but are not; a custom sampler must repeat every question "
                "num_generations times"
            )
    return ids[::size]
