"""`prompt-coevo explain`, `diff`, `best` and `tail`: inspect a run's files."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Final

import typer

from prompt_coevo.cli.output import RUN, show
from prompt_coevo.report.best import best_of
from prompt_coevo.report.differences import Manner, pieces
from prompt_coevo.report.events import EventLines
from prompt_coevo.report.explanation import explanation
from prompt_coevo.report.reading import candidate_of, read_run, run_folder
from prompt_coevo.report.run import Run
from prompt_coevo.visible import in_a_line, visible

_ID: Final = typer.Argument(
    metavar="ID", help="A candidate's id, or the start of one.", show_default=False
)
_MARKS: Final[dict[Manner, tuple[str, str, str]]] = {
    "same": ("", "", ""),
    "gone": ("[-", "-]", "red"),
    "new": ("{+", "+}", "green"),
}


def explain(run: Path = RUN, candidate: str = _ID) -> None:
    """Explain why a candidate is, or is not, in use.

    Shows what its proposer was shown, what the model wrote, what the gates and the trial said question by
    question, where the candidate is used, and what it cost.

    Example: prompt-coevo explain out/run1 5c3be911
    """
    record = _read(run)
    show(explanation(record, candidate_of(record, candidate)))


def diff(run: Path = RUN, first: str = _ID, second: str = _ID) -> None:
    """Show word by word how the second candidate's text differs from the first's.

    Example: prompt-coevo diff out/run1 5c3be911 a76fb283
    """
    record = _read(run)
    old, new = candidate_of(record, first), candidate_of(record, second)
    show([f"[-{in_a_line(old.id)}-] {{+{in_a_line(new.id)}+}}"])
    told = []
    for manner, text in pieces(old.text, new.text):
        before, after, colour = _MARKS[manner]
        piece = before + visible(text) + after
        told.append(typer.style(piece, fg=colour) if colour else piece)
    show(["".join(told)])


def best(
    run: Path = RUN,
    as_json: bool = typer.Option(
        False, "--json", help="Print JSON, with the templates' evidence and rewards."
    ),
) -> None:
    """Show the best instruction, and the templates in use ordered by how many questions they solve.

    Examples: prompt-coevo best out/run1; prompt-coevo best out/run1 --json > prompts.json
    """
    found = best_of(_read(run))
    show([json.dumps(found.to_json(), indent=2)] if as_json else found.lines())


def tail(
    run: Path = RUN,
    lines: int = typer.Option(
        20, "--lines", "-n", min=0, help="Number of latest events to show first."
    ),
    follow: bool = typer.Option(
        True, help="Keep showing new events until the run ends, or Ctrl-C."
    ),
) -> None:
    """Show a run's latest events, then new ones as they come.

    Examples: prompt-coevo tail out/run1; prompt-coevo tail out/run1 --no-follow | grep refused
    """
    events = EventLines(run_folder(run))
    show(map(_coloured, events.latest(lines)))
    try:
        while follow and not events.ended:
            time.sleep(0.5)
            show(map(_coloured, events.new()))
    except KeyboardInterrupt:
        return


def _coloured(line: str) -> str:
    where, event, rest = (*line.split("  ", 2), "", "")[:3]
    return f"{typer.style(where, dim=True)}  {typer.style(event, bold=True)}  {rest}".rstrip()


def _read(given: Path) -> Run:
    run = read_run(run_folder(given))
    if run.damaged or run.lost:
        gaps = f"unreadable lines: {run.damaged}, events never written: {run.lost}"
        typer.echo(f"note: the journal is not whole ({gaps}); the rest is shown", err=True)
    return run
