"""Place an instruction and a template in a prompt (string or chat).

`x~ = T(x, z)` of P2O section 3.2 and the system message of INSPO section 3.1. Texts written by a
language model are only ever concatenated: nothing here formats, evaluates or rescans them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Self, TypeAlias

from prompt_coevo.errors import DatasetError, SettingsError

Message: TypeAlias = Mapping[str, Any]
Prompt: TypeAlias = str | Sequence[Message]

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


def check_layout(
    layout: str, names: Sequence[str], where: str, optional: Sequence[str] = ()
) -> None:
    """Raise SettingsError unless `layout` contains each `{{name}}` exactly once.

    Placeholders in `optional` may occur any number of times, all others not at all.
    """
    found = _PLACEHOLDER.findall(layout)
    for name in names:
        if found.count(name) != 1:
            raise SettingsError(
                f"{where} must contain the placeholder {{{{{name}}}}} exactly once, but contains "
                "it "
                f"{found.count(name)} times: {layout!r}"
            )
    known = [*names, *optional]
    for name in found:
        if name not in known:
            raise SettingsError(
                f"{where} contains the unknown placeholder {{{{{name}}}}}; "
                f"known: {', '.join('{{' + one + '}}' for one in known)}"
            )


def fill(layout: str, **values: str) -> str:
    """Replace the layout's `{{name}}` placeholders by `values`, in one pass.

    Inserted texts are not scanned again: a placeholder inside a value stays as it is.
    """
    return _PLACEHOLDER.sub(lambda match: values[match[1]], layout)


class RenderedChat(str):
    """A text prompt that is a rendered chat. `start` and `end` delimit the last user message.

    `system` is the text of its system message, if it has one. Built by `prompt_coevo.rendered`.
    """

    start: int
    end: int
    system: str | None
    _with_system: Callable[[str, str], str]

    @classmethod
    def of(
        cls,
        text: str,
        start: int,
        end: int,
        system: str | None,
        with_system: Callable[[str, str], str],
    ) -> Self:
        """Build a rendered chat. `with_system(text, instruction)` sets the system message of a text."""
        chat = cls(text)
        chat.start, chat.end, chat.system, chat._with_system = start, end, system, with_system
        return chat

    @property
    def question(self) -> str:
        """The text of the last user message."""
        return str(self)[self.start : self.end]

    def edited(self, edit: Callable[[str], str]) -> RenderedChat:
        """Edit the text of the last user message."""
        text, question = str(self), edit(self.question)
        whole = text[: self.start] + question + text[self.end :]
        end = self.start + len(question)
        return RenderedChat.of(whole, self.start, end, self.system, self._with_system)

    def with_system(self, instruction: str) -> str:
        """Make the instruction the system message. Raise DatasetError if there is no place for one."""
        return self._with_system(str(self), instruction)


@dataclass(frozen=True)
class Placement:
    """The rules for placing an instruction and a template in a prompt.

    `instruction`: `"system"` makes it the system message of a chat and replaces an existing one;
    `"prefix"` puts it in front of the last user message. A string prompt has no system message: both
    modes put the instruction in front of it, unless it is a `RenderedChat`.
    """

    instruction: Literal["system", "prefix"] = "system"
    template_layout: str = "{{template}}\n\n{{question}}"

    def place(self, prompt: Prompt, instruction: str | None, template: str | None) -> Prompt:
        """Return `prompt` with the instruction and the template placed; the input is not changed.

        The template goes in front of the question first, then the instruction in front of both.
        The result is of the same kind as `prompt`: string or list of messages.
        """
        if template:
            prompt = _edit_question(
                prompt, lambda text: fill(self.template_layout, template=template, question=text)
            )
        if instruction:
            if self.instruction == "system" and isinstance(prompt, RenderedChat):
                return prompt.with_system(instruction)
            if self.instruction == "system" and not isinstance(prompt, str):
                return _with_system_message(prompt, instruction)
            prompt = _edit_question(prompt, lambda text: f"{instruction}\n\n{text}")
        return str(prompt) if isinstance(prompt, RenderedChat) else prompt


def question_text(prompt: Prompt) -> str:
    """Return the question as one text: the string itself, or the text of the last user message."""
    if isinstance(prompt, RenderedChat):
        return prompt.question
    if isinstance(prompt, str):
        return prompt
    return _message_text(prompt[_last_user_message(prompt)])


def texts(prompt: Prompt) -> list[str]:
    """Return all texts of a prompt: the string itself, or the text of each message."""
    return [prompt] if isinstance(prompt, str) else [_message_text(one) for one in prompt]


def system_message(prompt: Prompt) -> str | None:
    """Return the text of a chat's system message, None if it has none."""
    if isinstance(prompt, RenderedChat):
        return prompt.system
    if isinstance(prompt, str) or not prompt or prompt[0].get("role") != "system":
        return None
    return _message_text(prompt[0])


def _edit_question(prompt: Prompt, edit: Callable[[str], str]) -> Prompt:
    if isinstance(prompt, RenderedChat):
        return prompt.edited(edit)
    if isinstance(prompt, str):
        return str(edit(prompt))
    messages = list(prompt)
    index = _last_user_message(messages)
    messages[index] = {
        **messages[index],
        "content": _edit_content(messages[index].get("content"), edit),
    }
    return messages


def _edit_content(content: Any, edit: Callable[[str], str]) -> Any:
    if isinstance(content, str):
        return edit(content)
    parts = list(content or ())
    for index, part in enumerate(parts):
        if part.get("type") == "text":
            parts[index] = {**part, "text": edit(part["text"])}
            return parts
    raise DatasetError(
        "the last user message of a prompt has no text part, so there is nowhere to put a "
        "template; "
        'add a {"type": "text"} part to it'
    )


def _with_system_message(messages: Sequence[Message], instruction: str) -> list[Message]:
    rest = messages[1:] if messages and messages[0].get("role") == "system" else messages
    return [{"role": "system", "content": instruction}, *rest]


def _last_user_message(messages: Sequence[Message]) -> int:
    for index in range(len(messages) - 1, -1, -1):
        if messages[index].get("role") == "user":
            return index
    raise DatasetError(
        "a chat prompt has no user message, so there is nowhere to put a template; "
        'give every prompt a message with "role": "user"'
    )


def _message_text(message: Message) -> str:
    content = message.get("content") or ""
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part.get("type") == "text")
