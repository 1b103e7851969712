"""A dry run in the process that launches, where model and dataset can be read and nothing samples yet."""

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
    """What an adapter has read. The engine writes nowhere."""

    engine: Coevolution
    questions: QuestionIndex
    workload: Workload


def dry_run(prepare: Callable[[], Prepared]) -> NoReturn:
    """Print the page of what is found before training, and end the process: status 0, or 1 for a problem.

    `prepare` reads model and dataset. What it raises is one sentence and status 1, the host's errors too.
    """
    try:
        prepared = prepare()
        policy = Unsampled(prepared.questions, lambda: prepared.engine.policy_version)
        page = prepared.engine.preflight(policy, prepared.workload)
    except CoevoError as error:
        raise refused(error) from None
    except Exception as error:  # whatever a host raises for a path or a column that is not there
        told = in_a_line(redact(f"{type(error).__name__}: {error}"), 1_000)
        raise SystemExit(f"error: model or dataset cannot be read: {told}") from None
    none_made = Line("note", "rollout", "none was made: a dry run ends before the workers start")
    page = Page((*page.lines, none_made))
    print(page.text(), flush=True)
    raise SystemExit(page.exit_status)


class Unsampled(AdapterPolicy):
    """Know the questions, but have no policy to roll out."""

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        raise HostError("there are no rollouts in a dry run that ends before the workers start")
