"""A dry run in the launching process, where model and dataset can be read but nothing samples yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NoReturn

from prompt_coevo.adapters.common.policy import AdapterPolicy
from prompt_coevo.adapters.common.questions import QuestionIndex
from prompt_coevo.adapters.common.refused import refused
from prompt_coevo.engine.coevolution import Coevolution
from prompt_coevo.errors import CoevoError, HostError
from prompt_coevo.preflight.page import Line, Page
from prompt_coevo.redact import redact
from prompt_coevo.settings.method import Workload
from prompt_coevo.types import Rollout, RolloutRequest
from prompt_coevo.visible import in_a_line


@dataclass(frozen=True)
class Prepared:
    """Everything an adapter reads for a dry run. The engine has no output directory."""

    engine: Coevolution
    questions: QuestionIndex
    workload: Workload


def dry_run(prepare: Callable[[], Prepared]) -> NoReturn:
    """Print the preflight page and exit with status 0, or 1 if it shows a problem.

    `prepare` reads model and dataset. Any error from it, the trainer's included, exits with one sentence
    and status 1.
    """
    try:
        prepared = prepare()
        page = prepared.engine.preflight(Unsampled(prepared.questions), prepared.workload)
    except CoevoError as error:
        raise refused(error) from None
    except Exception as error:  # whatever a trainer raises for a missing path or column
        told = in_a_line(redact(f"{type(error).__name__}: {error}"), 1_000)
        raise SystemExit(f"error: model or dataset cannot be read: {told}") from None
    none_made = Line("note", "rollout", "none was made: a dry run ends before the workers start")
    page = Page((*page.lines, none_made))
    print(page.text(), flush=True)
    raise SystemExit(page.exit_status)


class Unsampled(AdapterPolicy):
    """A policy that knows the questions and cannot roll out."""

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        raise HostError("there are no rollouts in a dry run that ends before the workers start")
