"""A gate for adapters: the placed prompt must fit into the trainer's limit."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.errors import HostError
from prompt_coevo.markers import hookimpl
from prompt_coevo.placement import Placement, Prompt
from prompt_coevo.tokens import Tokenizer, encode
from prompt_coevo.types import Candidate

if TYPE_CHECKING:
    from prompt_coevo.candidates.searches import TemplatesInUse


@dataclass(frozen=True)
class PromptLimit:
    """The longest prompt that the trainer allows.

    `needed` returns how many tokens the longest of some placed prompts needs, `tokens` how many are
    allowed (None: no limit), and `name` introduces that number in a sentence. `leave_out` says how to leave
    out questions that are too long by themselves.
    """

    needed: Callable[[Sequence[Prompt]], int]
    tokens: Callable[[], int | None]
    name: str
    leave_out: str = "leave such questions out of the dataset"


class PromptLengthGate:
    """Refuses a candidate with which the longest question exceeds the trainer's limit.

    The candidate is placed as in a rollout. There an instruction shares the prompt with a template, so the
    longest one of the other kind is placed too.
    """

    def __init__(
        self,
        questions: QuestionIndex,
        placement: Placement,
        limit: PromptLimit,
        *,
        count_tokens: Callable[[str], int],
    ) -> None:
        self._questions = questions
        self._placement = placement
        self._limit = limit
        self._count_tokens = count_tokens
        self._longest = {"instruction": "", "template": ""}

    @hookimpl
    def coevo_after_population_changed(self, population: Sequence[Candidate]) -> None:
        self._longest["instruction"] = self._longest_of(population)

    @hookimpl
    def coevo_after_templates_assigned(self, cover: TemplatesInUse | None) -> None:
        self._longest["template"] = self._longest_of(cover.templates if cover else ())

    @hookimpl
    def coevo_check_candidate(self, candidate: Candidate) -> str | None:
        limit = self._limit.tokens()
        if limit is None:
            return None
        needed = self._needed_with({**self._longest, candidate.kind: candidate.text})
        if needed <= limit:
            return None
        if self._needed_with({**self._longest, candidate.kind: ""}) > limit:
            return None  # the user's own prompts do not fit either
        return f"with it the longest question needs {needed} tokens, {self._limit.name} {limit}"

    @hookimpl
    def coevo_state(self) -> dict[str, str]:
        return dict(self._longest)

    @hookimpl
    def coevo_load_state(self, state: dict[str, str]) -> None:
        self._longest = dict(state)

    def _longest_of(self, candidates: Sequence[Candidate]) -> str:
        texts = (candidate.text for candidate in candidates)
        return max(texts, key=self._count_tokens, default="")

    def _needed_with(self, texts: dict[str, str]) -> int:
        place = self._placement.place
        return self._limit.needed(
            [
                place(prompt, texts["instruction"], texts["template"])
                for prompt in self._questions.longest_prompts()
            ]
        )


def check_questions(questions: QuestionIndex, limit: PromptLimit) -> None:
    """Raise HostError if the longest question exceeds the limit even without a candidate's text.

    For trainers that cut a long prompt at the left, where a candidate's text would be.
    """
    needed, room = limit.needed(questions.longest_prompts()), limit.tokens()
    if room is not None and needed > room:
        raise HostError(
            f"the longest question needs {needed} tokens, {limit.name} {room}; raise it, or "
            f"{limit.leave_out}"
        )


def tokens_needed(processing_class: Tokenizer, prompts: Sequence[Prompt], **template: Any) -> int:
    """Return how many tokens the longest of some prompts has. They are all texts or all chats.

    `processing_class` is a tokenizer or processor of transformers; `template` are further arguments
    for its chat template, such as the tools.
    """
    if isinstance(prompts[0], str):
        return max(len(encode(processing_class, str(prompt))) for prompt in prompts)
    chats: list[Any] = list(prompts)
    ids = processing_class.apply_chat_template(
        chats, add_generation_prompt=True, tokenize=True, return_dict=True, **template
    )["input_ids"]
    return max(map(len, ids))
