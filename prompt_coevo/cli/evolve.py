"""`prompt-coevo evolve`: instructions or templates for a model behind an endpoint, without training."""

from __future__ import annotations

import math
import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from prompt_coevo.errors import SettingsError
from prompt_coevo.visible import visible

if TYPE_CHECKING:
    from prompt_coevo.endpoint.evolved import Evolved
    from prompt_coevo.endpoint.evolving import Job, Kind

_INTERRUPTED = 130
_ROUNDS = 3

EXAMPLES = """Examples:

prompt-coevo evolve data.jsonl --policy openai/gpt-4.1-mini --reward number --instruction "Think step by
step."

prompt-coevo evolve data.csv --kind templates --policy hosted_vllm/my-model --api-base http://localhost:8000/v1
--reflection openai/gpt-5 --reward my_rewards:score --max-calls 2000
"""


def evolve(
    data: Path = typer.Argument(help="Questions with their answers: .jsonl or .csv."),
    policy: str = typer.Option(help="The model that answers, as litellm names it."),
    api_base: str | None = typer.Option(None, help="Its server, if it is not the provider's own."),
    kind: str = typer.Option("instruction", help="What to evolve: instruction or templates."),
    instruction: str | None = typer.Option(
        None, help="The instruction to start from; default: the prompts' system message."
    ),
    reward: str = typer.Option(
        "exact",
        help="exact, contains, number, boxed, regex, or module:function of completion, answer and row.",
    ),
    prompt_column: str = typer.Option("prompt", help="The column with the question."),
    answer_column: str = typer.Option("answer", help="The column with the right answer."),
    reflection: str | None = typer.Option(
        None, help="The model that writes candidates; default: that of --config, or the policy."
    ),
    reflection_api_base: str | None = typer.Option(None, help="Its server."),
    out: Path = typer.Option(Path("evolved"), help="The run's folder."),
    samples: int = typer.Option(4, min=1, help="Completions of each question in the first pass."),
    held_out: float = typer.Option(
        0.25, min=0.0, max=0.9, help="The share of questions that no search sees."
    ),
    rounds: int | None = typer.Option(None, min=1, help=f"Evolutions; default: {_ROUNDS}."),
    temperature: str = typer.Option(
        "1.0", help="Of the policy; default: its own, for models that take no other."
    ),
    max_tokens: int = typer.Option(1024, min=1, help="Of a completion of the policy."),
    concurrency: int | None = typer.Option(None, min=1, help="Calls at once; default: 8."),
    timeout_s: float | None = typer.Option(
        None, min=0.1, help="Seconds that one call may take; default: 120."
    ),
    total_timeout_s: float | None = typer.Option(
        None, min=0.1, help="The same with all its retries; default: 300."
    ),
    max_calls: int | None = typer.Option(None, min=1, help="Budget: calls, of both models."),
    max_total_tokens: int | None = typer.Option(None, min=1, help="Budget: tokens, likewise."),
    max_usd: float | None = typer.Option(None, help="Budget: US dollars, likewise."),
    allow_all_fail: bool = typer.Option(False, help="Go on if no completion has a reward."),
    seed: int | None = typer.Option(None, help="Of every decision that is drawn; default: 0."),
    config: Path | None = typer.Option(None, help="A YAML or TOML file with further settings."),
) -> None:
    """Evolve an instruction (INSPO) or templates (P2O) for a model that is not trained.

    A part of the questions is held out and scored before and after. Stopped with Ctrl-C, or by an error,
    the same command goes on: calls that were paid for are not made again.
    """
    # Late: the other commands start without the engine.
    from prompt_coevo.endpoint.data import Columns, distinct, read_rows
    from prompt_coevo.endpoint.evolving import Job
    from prompt_coevo.endpoint.rewards import reward_named
    from prompt_coevo.endpoint.search_settings import for_instruction, for_templates, reflection_of
    from prompt_coevo.settings.reflection import ReflectionSettings

    if kind not in ("instruction", "templates"):
        raise SettingsError(f"--kind {kind}: it is instruction or templates")
    chosen: Kind = "templates" if kind == "templates" else "instruction"
    if chosen == "templates" and rounds is not None:
        raise SettingsError("--rounds has no effect with --kind templates; leave it out")
    columns = Columns(prompt_column, answer_column, instruction if chosen == "templates" else None)
    rows = read_rows(data, columns)
    warmth = _temperature(temperature)
    said = {
        "model": reflection,
        "api_base": reflection_api_base,
        "max_calls": max_calls,
        "max_total_tokens": max_total_tokens,
        "max_usd": max_usd,
        "concurrency": concurrency,
        "timeout_s": timeout_s,
        "total_timeout_s": total_timeout_s,
    }
    itself: dict[str, Any] = {"model": policy}
    if api_base is not None:
        itself["api_base"] = api_base
    if warmth is None:
        itself["temperature"] = None
    writing = {name: value for name, value in said.items() if value is not None}
    # What is not said here, the environment or the file may say.
    given: dict[str, Any] = {} if seed is None else {"seed": seed}
    given["reflection"] = reflection_of(writing, itself, config=config)
    if chosen == "templates":
        questions = len(distinct(rows, columns))
        settings = for_templates(given, questions=questions, config=config)
    else:
        settings = for_instruction(
            given, instruction=instruction, rounds=rounds or _ROUNDS, config=config
        )
    sys.path.insert(0, os.getcwd())  # where a reward of the user's own is looked for
    job = Job(
        kind=chosen,
        settings=settings,
        policy=ReflectionSettings(
            model=policy,
            api_base=api_base,
            max_tokens=max_tokens,
            concurrency=settings.reflection.concurrency,
            timeout_s=settings.reflection.timeout_s,
            total_timeout_s=settings.reflection.total_timeout_s,
        ),
        rows=rows,
        columns=columns,
        reward=reward_named(reward),
        reward_name=reward,
        out=out,
        samples=samples,
        temperature=warmth,
        held_out=held_out,
        allow_all_fail=allow_all_fail,
    )
    _run(job)


def _temperature(said: str) -> float | None:
    """Raises SettingsError."""
    if said == "default":
        return None
    with suppress(ValueError):
        if 0 <= float(said) < math.inf:
            return float(said)
    raise SettingsError(f"--temperature {said}: it is a number of at least 0, or default")


def _run(job: Job) -> None:
    from prompt_coevo.endpoint.evolving import Evolving

    try:
        evolved = Evolving(job, lambda line: typer.echo(visible(line), err=True)).run()
    except KeyboardInterrupt:
        typer.echo(
            f"stopped; the same command goes on in {job.out}, and calls that were answered are not made "
            "again",
            err=True,
        )
        sys.stdout.flush()
        sys.stderr.flush()
        # Threads wait for a server, and one that is importing keeps the interpreter from ending. Nothing
        # that they bring is lost: a reply is in the ledger, or its call counts.
        os._exit(_INTERRUPTED)
    _show(evolved, job)


def _show(evolved: Evolved, job: Job) -> None:
    from prompt_coevo.endpoint.evolved import CANDIDATES, RESULT

    for one in evolved.best[:1]:
        typer.echo(visible(one.text))
    if not evolved.best:
        typer.echo("nothing better than what was there was found", err=True)
    typer.echo(f"without a search, all questions: {evolved.first}", err=True)
    if evolved.before and evolved.after and evolved.change:
        typer.echo(f"held out, before: {evolved.before}", err=True)
        typer.echo(f"held out, after:  {evolved.after}", err=True)
        typer.echo(f"difference:       {evolved.change}", err=True)
    for line in evolved.warnings:
        typer.echo(f"warning: {visible(line)}", err=True)
    cost = evolved.cost
    typer.echo(
        f"{cost['calls']:.0f} calls, {cost['prompt_tokens'] + cost['completion_tokens']:.0f} tokens, "
        f"{cost['usd']:.2f} USD; {job.out / RESULT}, {job.out / CANDIDATES}, {job.out / 'coevo'}",
        err=True,
    )
