"""`prompt-coevo report`: a run as one HTML file, or served live on this machine."""

from __future__ import annotations

import json
from pathlib import Path

import typer

from prompt_coevo.cli.output import RUN, write_file
from prompt_coevo.errors import SettingsError
from prompt_coevo.lines import JSON
from prompt_coevo.report.reading import read_run, run_folder
from prompt_coevo.report.run import Run, Spent

_PORT = 8371


def report(
    run: Path = RUN,
    out: Path | None = typer.Option(
        None, help="The file to write. By default report.html in the run's folder."
    ),
    serve: bool = typer.Option(
        False, "--serve", help="Serve the report to this machine and keep it up to date."
    ),
    as_json: bool = typer.Option(
        False, "--json", help="Print the verdict with its numbers instead of writing the page."
    ),
    port: int | None = typer.Option(
        None, min=0, max=65535, help=f"With --serve. By default {_PORT}; 0 picks a free one."
    ),
) -> None:
    """Write a report of a run as one HTML file, which needs no network and no server.

    It shows the verdict, curves, weights, the lineage and fate of every candidate, trials question by
    question, which template covers which question, and the cost of every call.

    Needs: pip install 'prompt-coevo[report]'.

    Examples: prompt-coevo report out/run1; prompt-coevo report out/run1 --serve
    """
    if port is not None and not serve:
        raise SettingsError("--port has no effect without --serve; give both")
    if serve and out is not None:
        raise SettingsError("--serve writes no file, so --out has no effect; give one of them")
    if as_json and (serve or out is not None):
        raise SettingsError("--json prints, so --serve and --out have no effect; give one of them")
    if as_json:
        typer.echo(json.dumps(ending_of(read_run(run_folder(run))), indent=2))
        return
    from prompt_coevo.report.page import need_extra, page

    need_extra()
    folder = run_folder(run)
    if serve:
        _serve(folder, _PORT if port is None else port)
        return
    path = out if out is not None else folder / "report.html"
    write_file(path, page(folder))
    typer.echo(path)


def ending_of(run: Run) -> dict[str, JSON]:
    """Return a run's final results and the cost of its calls, as JSON values."""
    said = run.ending
    return {
        "ended": run.ended,
        "steps": run.last.step,
        "summary": said.text if said else None,
        "methods": dict(said.findings) if said else None,
        "reflection": Spent.on(run.calls)._asdict(),
    }


def _serve(folder: Path, port: int) -> None:
    from prompt_coevo.report.live import server

    with server(folder, port) as serving:
        typer.echo(f"http://127.0.0.1:{serving.server_address[1]}/ (Ctrl-C ends it)")
        try:
            serving.serve_forever()
        except KeyboardInterrupt:
            return
