"""Plant faults of language models, each into a copy of `Small`."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from laws.core.mutant import Mutant, planter
from prompt_coevo.proposals import Reply, Usage
from prompt_coevo.threads import map_in_threads

MUTANTS: list[Mutant] = []
plant = planter(MUTANTS)


class Small:
    """A language model that obeys the laws, backed by a function."""

    def __init__(self, answer: Callable[[str], str]) -> None:
        self.answer = answer

    def complete(self, prompts: Sequence[str]) -> list[Reply]:
        return map_in_threads(self.ask, prompts, 4)

    def ask(self, prompt: str) -> Reply:
        try:
            return Reply(self.answer(prompt), "stop", usage=Usage(len(prompt), 1))
        except Exception as error:
            return Reply(None, error=repr(error))


@plant(
    "as-they-come",
    "Replies come back in the order in which they were finished.",
    "replies_come_in_the_order_of_the_prompts",
)
class AsTheyCome(Small):
    def complete(self, prompts: Sequence[str]) -> list[Reply]:
        done: list[Reply] = []
        map_in_threads(lambda prompt: done.append(self.ask(prompt)), prompts, 4)
        return done


@plant(
    "asked-once",
    "A prompt that comes twice is answered once.",
    "replies_come_in_the_order_of_the_prompts",
)
class AskedOnce(Small):
    def complete(self, prompts: Sequence[str]) -> list[Reply]:
        return super().complete(list(dict.fromkeys(prompts)))


@plant(
    "raises",
    "What the backend raises passes through.",
    "errors_become_replies",
)
class Raises(Small):
    def ask(self, prompt: str) -> Reply:
        return Reply(self.answer(prompt), "stop")


@plant(
    "all-or-nothing",
    "One prompt that fails takes the others along.",
    "errors_become_replies",
)
class AllOrNothing(Small):
    def complete(self, prompts: Sequence[str]) -> list[Reply]:
        replies = super().complete(prompts)
        failed = next((one for one in replies if one.error), None)
        return [failed or one for one in replies]


@plant(
    "error-is-empty",
    "A call that failed is an empty reply.",
    "errors_become_replies",
)
class ErrorIsEmpty(Small):
    def ask(self, prompt: str) -> Reply:
        reply = super().ask(prompt)
        return Reply(reply.text or "", reply.finish_reason)


@plant(
    "unknown-is-minus-one",
    "Usage that nobody knows is -1.",
    "usage_is_never_negative",
)
class UnknownIsMinusOne(Small):
    def ask(self, prompt: str) -> Reply:
        reply = super().ask(prompt)
        return Reply(reply.text, reply.finish_reason, reply.error, Usage(-1, -1))


@plant(
    "one-caller",
    "Two threads that ask at the same time get each other's replies.",
    "threads_do_not_mix",
)
class OneCaller(Small):
    def complete(self, prompts: Sequence[str]) -> list[Reply]:
        self.prompts = prompts
        self.replies = super().complete(self.prompts)
        return self.replies if len(self.replies) == len(prompts) else []

    def ask(self, prompt: str) -> Reply:
        reply = super().ask(prompt)
        return reply if prompt in self.prompts else Reply("of another caller", "stop")
