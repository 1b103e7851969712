"""Token ids from a tokenizer or processor of transformers, which is not imported here."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol, TypeVar

from prompt_coevo.placement import Message, Prompt

T = TypeVar("T")

_ROLE_MARK: Final = re.compile(
    r"""\[/?[A-Z][A-Z_]+\] | \[\|\w+\|\]  # [INST], [/INST], [|user|]
    | <</?\w+>>                     # <<SYS>>
    | </?[\w|]*(?i:\||_\d|user|human|assistant|system|bot|of_turn|think|tool)[\w|]*>
                                    # <|user|>, <start_of_turn>, </think>, but no <answer> or <name>
    | \#{2,}\ ?[A-Z][\w\ ]*:       # ### Response:
    | (?:\b|(?<=\\n))(?i:user|human|assistant|system)\ ?:  # Jinja writes a line's end as \n""",
    re.VERBOSE,
)


class Tokenizer(Protocol):
    """The parts of a transformers tokenizer or processor that we use. Results depend on the options."""

    def __call__(self, text: str | list[str], **options: bool) -> Mapping[str, Any]: ...

    def apply_chat_template(
        self, chats: Sequence[Message] | Sequence[Sequence[Message]], **options: bool | str
    ) -> Any: ...

    def batch_decode(self, ids: Any, *, skip_special_tokens: bool) -> list[str]: ...


def tokenizer_of(processing_class: T) -> T:
    """Return the tokenizer itself, or the one in the processor of a vision-language model."""
    found: T = getattr(processing_class, "tokenizer", processing_class)
    return found


def encode(processing_class: Tokenizer, text: str) -> list[int]:
    """Return the ids of a text, without special tokens around it."""
    ids: list[int] = tokenizer_of(processing_class)(str(text), add_special_tokens=False)[
        "input_ids"
    ]
    return ids


def encode_all(processing_class: Tokenizer, texts: Sequence[str]) -> list[list[int]]:
    """Return the ids of each text, as `encode` does. There must be at least one text."""
    ids: list[list[int]] = tokenizer_of(processing_class)(
        [str(text) for text in texts],  # in a list, tokenizers accept no subclass of `str`
        add_special_tokens=False,
        return_attention_mask=False,
        return_token_type_ids=False,
    )["input_ids"]
    return ids


def encode_prompt(processing_class: Tokenizer, prompt: Prompt) -> list[int]:
    """Return the ids of a text, or of a chat rendered by the chat template."""
    if isinstance(prompt, str):
        return encode(processing_class, prompt)
    ids: list[list[int]] = processing_class.apply_chat_template(
        [prompt], add_generation_prompt=True, tokenize=True, return_dict=True
    )["input_ids"]
    return ids[0]


def special_tokens(processing_class: Tokenizer) -> dict[int, str]:
    """Return special tokens and the chat template's marks, by id.

    Unknown words may be encoded as one of them: see `unknown_token`.
    """
    tokenizer = tokenizer_of(processing_class)
    ids = getattr(tokenizer, "all_special_ids", ())
    found: dict[int, str] = dict(
        zip(ids, getattr(tokenizer, "all_special_tokens", ()), strict=True)
    )
    template = _chat_template(processing_class)
    for token_id, token in getattr(tokenizer, "added_tokens_decoder", {}).items():
        if token.special or (_is_mark(token.content) and token.content in template):
            found[token_id] = token.content
    return found


def role_marks(processing_class: Tokenizer) -> tuple[str, ...]:
    """Return the marks of turns in the chat template that are plain text, such as `[/INST]`."""
    special = special_tokens(processing_class).values()
    return tuple(
        sorted(set(_ROLE_MARK.findall(_chat_template(processing_class))).difference(special))
    )


def unknown_token(processing_class: Tokenizer) -> int | None:
    """Return the id of unknown words. Some tokenizers, such as GPT-2's, share it with the end of text."""
    unknown: int | None = getattr(tokenizer_of(processing_class), "unk_token_id", None)
    return unknown


def _chat_template(processing_class: Tokenizer) -> str:
    """Return the chat templates as one text; a processor and its tokenizer may have several, with names."""
    texts = set[str]()
    for owner in (processing_class, getattr(processing_class, "tokenizer", None)):
        found = getattr(owner, "chat_template", None) or ""
        texts.update([found] if isinstance(found, str) else found.values())
    return "\n".join(texts)


def _is_mark(token: str) -> bool:
    """Check whether a token looks like <this>: added tokens may also be words or indentation."""
    return len(token.strip()) > 2 and not token.strip()[0].isalnum()


def vocabulary_size(model_config: Any) -> int | None:
    """Return how many ids a transformers model has embeddings for; None if its configuration hides it."""
    size: int | None = getattr(model_config.get_text_config(), "vocab_size", None)
    return size
