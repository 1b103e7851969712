"""Provide an ideal reflection model and an event recorder for tests of template searches."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, Final

from prompt_coevo import hookimpl

SMALL_SEARCH: Final = {
    "overspend": "never",
    "minibatch_size": 2,
    "dev_size": 4,
    "beam_width": 2,
    "search_budget": 40,
}
"""P2O's settings of a short search."""


def learner(families: int = 1000) -> Callable[[str], str]:
    """Act as an ideal reflection model: add the keys of the shown questions to the template."""

    def reply(prompt: str) -> str:
        current = re.search(r"<current_template>\n(.*?)\n</current_template>", prompt, re.DOTALL)
        assert current is not None
        keys = re.findall(r"k\d+", current[1])
        keys += [f"k{int(n) % families}" for n in re.findall(r"what is (\d+)\?", prompt)]
        return f"<template>{' '.join(dict.fromkeys(keys))}</template>"

    return reply


class Recorder:
    """Keeps every event of a search."""

    def __init__(self) -> None:
        self.requests: list[Any] = []
        self.checked: list[tuple[Any, str | None]] = []
        self.verified: list[tuple[Any, bool]] = []
        self.errors: list[Any] = []

    @property
    def asked(self) -> list[Any]:
        """Return the requests one by one."""
        return [request for requests in self.requests for request in requests]

    @property
    def reasons(self) -> list[str | None]:
        return [reason for _, reason in self.checked]

    @hookimpl(tryfirst=True)
    def coevo_propose(self, requests: Any) -> None:
        self.requests.append(requests)

    @hookimpl
    def coevo_after_candidate_checked(self, candidate: Any, reason: str | None) -> None:
        self.checked.append((candidate, reason))

    @hookimpl
    def coevo_after_candidate_verified(self, trial: Any, accepted: bool) -> None:
        self.verified.append((trial, accepted))

    @hookimpl
    def coevo_on_reflection_error(self, proposal: Any) -> None:
        self.errors.append(proposal)


def assert_only_failures_were_shown(events: Recorder) -> None:
    """Assert that only failures were shown, each with its question's own answer."""
    assert events.asked
    for request in events.asked:
        assert request.failures
        for failure in request.failures:
            assert failure.completion == "wrong"
            number = failure.question.removeprefix("what is ").removesuffix("?")
            assert failure.ground_truth == f"answer {number}"
