"""A gate for adapters: a candidate must not bring special tokens or marks of turns into a prompt."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from prompt_coevo.markers import hookimpl
from prompt_coevo.placement import Placement, Prompt, texts
from prompt_coevo.types import Candidate

_HARMLESS: Final = "Think."


class SpecialTokenGate:
    """Refuses a candidate that adds special tokens or marks of turns to a prompt.

    Such a token ends a turn or begins another one, whatever characters it was made from. So the gate
    counts token ids: in the text alone, and in a prompt that holds the text, where it may form a token
    together with its surroundings. `special` maps the ids of these tokens to their texts, `encode` returns
    the ids of a text or a chat. A candidate may have as many as a parent has, and those of
    `required_tags`, because the user chose these.

    `marks` are texts that the chat template puts between turns: plain text can forge a turn as well.

    Any unusual word gets the id `unknown`, so at most as many of these count as the text spells out.

    Not checked: tokens that the text forms with a candidate of the other kind, or with the beginning of a
    question other than `prompt`.
    """

    def __init__(
        self,
        special: Mapping[int, str],
        encode: Callable[[Prompt], Sequence[int]],
        placement: Placement,
        prompt: Callable[[], Prompt],
        required_tags: Sequence[str] = (),
        unknown: int | None = None,
        marks: Sequence[str] = (),
    ) -> None:
        self._special = special
        self._encode = encode
        self._placement = placement
        self._prompt = prompt
        self._required_tags = required_tags
        self._unknown = unknown
        self._marks = marks

    @hookimpl
    def coevo_check_candidate(
        self, candidate: Candidate, parents: Sequence[Candidate]
    ) -> str | None:
        for mark in self._marks:
            most = max((parent.text.count(mark) for parent in parents), default=0)
            most += sum(tag.count(mark) for tag in self._required_tags)
            if candidate.text.count(mark) > most:
                return f"it has {mark!r}, which the policy's chat template puts between turns"
        if not self._special:
            return None
        required = sum(map(self._count, self._required_tags), Counter[int]())
        for count in (self._count, self._count_placed(candidate)):
            allowed = count(_HARMLESS)
            for parent in parents:
                allowed |= count(parent.text)
            for token in count(candidate.text) - allowed - required:
                return (
                    f"it has the special token {self._special[token]!r} of the policy's tokenizer"
                )
        return None

    def _count_placed(self, candidate: Candidate) -> Callable[[str], Counter[int]]:
        def count(text: str) -> Counter[int]:
            texts = (text, None) if candidate.kind == "instruction" else (None, text)
            return self._count(self._placement.place(self._prompt(), *texts))

        return count

    def _count(self, prompt: Prompt) -> Counter[int]:
        found = Counter(token for token in self._encode(prompt) if token in self._special)
        if self._unknown is not None and self._unknown in found:
            spelled = "\n".join(texts(prompt)).count(self._special[self._unknown])
            found[self._unknown] = min(found[self._unknown], spelled)
        return found
