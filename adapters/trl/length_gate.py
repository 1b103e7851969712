"""A gate of this door: the placed prompt must fit into the model."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from prompt_coevo.adapters.trl.questions import QuestionIndex

from prompt_coevo.cover import TemplateCover
from prompt_coevo.markers import hookimpl
from prompt_coevo.placement import Placement
from prompt_coevo.types import Candidate

_LONGEST_LOOKED_AT = 32  # by characters; among them is, as good as certainly, the longest in tokens


class PromptLengthGate:
    """Refuses a candidate that would push the longest question beyond the model's context.

    It is placed as in a rollout: an instruction shares the prompt with templates and the other way
    round, so the longest of the other kind is there as well. Nothing in TRL truncates a prompt; an
    overlong one fails in vLLM or runs out of positions.
    """

    def __init__(self, trainer: Any, questions: QuestionIndex, placement: Placement) -> None:
        self._trainer = trainer
        self._questions = questions
        self._placement = placement
        self._longest = {"instruction": "", "template": ""}

    @hookimpl
    def coevo_after_population_changed(self, population: Sequence[Candidate]) -> None:
        self._longest["instruction"] = self._longest_of(population)

    @hookimpl
    def coevo_after_templates_assigned(self, cover: TemplateCover | None) -> None:
        self._longest["template"] = self._longest_of(cover.templates if cover else ())

    @hookimpl
    def coevo_check_candidate(self, candidate: Candidate) -> str | None:
        if self._limit is None:
            return None
        needed = self._needed({**self._longest, candidate.kind: candidate.text})
        if needed <= self._limit:
            return None
        if self._needed({**self._longest, candidate.kind: ""}) > self._limit:
            return None  # the user's own prompts do not fit either
        return f"with it the longest question needs {needed} tokens, the model has room for {self._limit}"

    @hookimpl
    def coevo_state(self) -> dict[str, str]:
        return dict(self._longest)

    @hookimpl
    def coevo_load_state(self, state: dict[str, str]) -> None:
        self._longest = dict(state)

    def _longest_of(self, candidates: Sequence[Candidate]) -> str:
        texts = (candidate.text for candidate in candidates)
        return max(
            texts, key=lambda text: count_tokens(self._trainer.processing_class, text), default=""
        )

    def _needed(self, texts: dict[str, str]) -> int:
        """Tokens of the longest question with these texts in it, and of a completion."""
        prompts = [
            self._placement.place(prompt, texts["instruction"], texts["template"])
            for prompt in self._longest_prompts
        ]
        return self._prompt_tokens(prompts) + (self._trainer.max_completion_length or 0)

    def _prompt_tokens(self, prompts: list[Any]) -> int:
        if isinstance(prompts[0], str):
            return max(count_tokens(self._trainer.processing_class, prompt) for prompt in prompts)
        ids = self._trainer.processing_class.apply_chat_template(
            prompts, add_generation_prompt=True, tokenize=True, return_dict=True
        )["input_ids"]
        return max(map(len, ids))

    @cached_property
    def _longest_prompts(self) -> list[Any]:
        return self._questions.longest_prompts(_LONGEST_LOOKED_AT)

    @cached_property
    def _limit(self) -> int | None:
        trainer = self._trainer
        limits = [getattr(trainer.model.config, "max_position_embeddings", None)]
        if trainer.use_vllm:
            limits.append(getattr(trainer.args, "vllm_max_model_length", None))
        return min((limit for limit in limits if limit is not None), default=None)


def count_tokens(processing_class: Any, text: str) -> int:
    """Length of a text in tokens of the policy."""
    tokenizer = getattr(processing_class, "tokenizer", processing_class)
    return len(tokenizer(text, add_special_tokens=False)["input_ids"])
