"""`prompt-coevo check`: look for problems in a run before it costs anything."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import typer

from prompt_coevo.cli.output import read_lines
from prompt_coevo.errors import CoevoError, SettingsError
from prompt_coevo.extras import require
from prompt_coevo.visible import in_a_line

if TYPE_CHECKING:
    from prompt_coevo.adapters.common.questions import QuestionIndex
    from prompt_coevo.adapters.common.rows import Row
    from prompt_coevo.preflight.page import Page
    from prompt_coevo.preflight.prompts import Encode

EXAMPLE: Final = (
    "Example: prompt-coevo check --preset p2o --set reflection.model=openai/gpt-5 "
    "--data train.jsonl --epochs 3 --rollouts 8"
)
_UNKNOWN: Final = "not known yet"
_KEY: Final = "reflection.api_key"


def check(
    preset: str | None = typer.Option(None, help="A preset."),
    config_file: Path | None = typer.Option(None, "--config", help="A YAML or TOML file."),
    values: list[str] = typer.Option(
        [],
        "--set",
        metavar="NAME=VALUE",
        help="A setting, such as stream.tau=0.1. Repeatable.",
    ),
    data: Path | None = typer.Option(
        None, help="The training questions, one JSON object per line."
    ),
    prompt_column: str = typer.Option(
        "prompt", help="The column of --data that holds the question."
    ),
    epochs: float | None = typer.Option(None, min=0.0, help="Passes over the questions."),
    steps: int | None = typer.Option(None, min=1, help="Weight updates in the whole run."),
    rollouts: int = typer.Option(8, min=2, help="Rollouts per question (the trainer's setting)."),
    tokenizer: str | None = typer.Option(None, help="The policy's tokenizer: a folder or a name."),
    as_json: bool = typer.Option(False, "--json", help="Print the page as JSON."),
) -> None:
    """Check settings, reflection model, questions and cost of a run before it begins.

    Asks the reflection model for one short reply, unless preflight.reflection is off. Writes nothing. Exit
    status: 0 without problems, 1 with a problem, 2 for a wrong command.
    """
    if epochs is not None and not math.isfinite(epochs):
        raise SettingsError("--epochs must be a number")
    if data is None and (epochs is not None or steps is not None):
        raise SettingsError(
            "--epochs and --steps have no effect without --data; give the questions, too"
        )
    given = {"preset": preset, "config_file": config_file}
    sources = {**_nested(values), **{k: v for k, v in given.items() if v is not None}}
    rows = None if data is None else _rows(data)
    encoder = None if tokenizer is None else _encoder(tokenizer)
    page = _page(sources, rows, encoder, (epochs, steps, rollouts), prompt_column)
    typer.echo(json.dumps(page.to_json(), indent=2) if as_json else page.text())
    raise typer.Exit(page.exit_status)


def _page(
    sources: dict[str, Any],
    rows: list[Row] | None,
    encoder: Encode | None,
    length: tuple[float | None, int | None, int],
    prompt_column: str,
) -> Page:
    """Build the page of checks. An error that keeps the run from being built is a line on the page, too."""
    # Imported late: the other commands start faster without the engine.
    from prompt_coevo.adapters.common.columns import index_columns, require_column
    from prompt_coevo.adapters.common.dry_run import Unsampled
    from prompt_coevo.engine.coevolution import Coevolution
    from prompt_coevo.preflight.page import Line, Page
    from prompt_coevo.settings import Settings
    from prompt_coevo.settings.method import Workload

    questions: QuestionIndex | None = None
    topic = "settings"
    try:
        settings = Settings(**sources)
        if rows is not None:
            topic = "questions"
            if rows and isinstance(rows[0], dict):
                require_column(prompt_column, rows[0], " (--prompt-column)")
                rows = [_with_prompt(row, prompt_column) for row in rows]
            questions = index_columns(rows, settings)
            topic = "settings"
        engine = Coevolution.from_settings(
            settings,
            initial_policy=_UNKNOWN,
            system_message=questions.shared_system_message if questions else lambda: _UNKNOWN,
            encode=encoder,
        )
    except CoevoError as error:
        return Page((Line("problem", topic, str(error)),))
    if questions is None:
        return engine.preflight(None)
    epochs, steps, rollouts = length
    workload = Workload(len(questions), rollouts, epochs, steps, rows=questions.rows)
    return engine.preflight(Unsampled(questions), workload)


def _with_prompt(row: Row, column: str) -> Row:
    return {**row, "prompt": row[column]} if isinstance(row, dict) and column in row else row


def _nested(values: Sequence[str]) -> dict[str, Any]:
    """Parse `stream.tau=0.1` into a source of settings. A value that is not YAML is taken as a text."""
    from prompt_coevo.adapters.common.flags import put

    nested: dict[str, Any] = {}
    for one in values:
        name, equals, text = one.partition("=")
        if not equals or not name:
            raise SettingsError(f"--set {one}: write --set NAME=VALUE")
        put(nested, name, _value(text), "--set ")
    reflection = nested.get("reflection")
    if isinstance(reflection, dict) and "api_key" in reflection:
        raise SettingsError(
            f"--set {_KEY} would stay in the shell's history; set the provider's environment variable "
            "or PROMPT_COEVO_REFLECTION__API_KEY"
        )
    return nested


def _value(text: str) -> Any:
    from prompt_coevo.settings.sources import read_yaml

    try:
        return read_yaml(text)
    except ValueError:
        return text


def _rows(path: Path) -> list[Row]:
    rows: list[Row] = []
    for number, line in enumerate(read_lines(path, "--data"), start=1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except (ValueError, RecursionError) as error:
            told = f"--data {path}, line {number}: no JSON object: {error}"
            raise SettingsError(told) from None
    return rows


def _encoder(name: str) -> Encode:
    require("transformers", extra="trl", purpose="--tokenizer")
    from transformers import AutoTokenizer

    from prompt_coevo.tokens import encode, encode_prompt

    try:
        tokenizer = AutoTokenizer.from_pretrained(name)
        encode(tokenizer, "a text")
    except Exception as error:  # a name, a folder, a file or a network: each fails differently
        told = f"{type(error).__name__}: {in_a_line(error, 300)}"
        raise SettingsError(f"--tokenizer {name} cannot be loaded: {told}") from None
    return lambda prompt: encode_prompt(tokenizer, prompt)
