"""`prompt-coevo retrieval`: build, search and check indexes of passages."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from prompt_coevo.cli import retrieval_serve
from prompt_coevo.visible import in_a_line, visible

if TYPE_CHECKING:
    from prompt_coevo.retrieval.index.room import Plan
    from prompt_coevo.retrieval.retriever import Hit

app = typer.Typer(help="Indexes of passages for search agents.", no_args_is_help=True)

_HIT = ("id", "contents", "score", "rank", "fields")
_INDEX = typer.Argument(help="The folder of the index.")
_CORPUS = typer.Option(None, help="The corpus' new place, if it was moved without the index.")


@app.command()
def build(
    corpus: Path = typer.Argument(help='JSON lines, each {"id": "...", "contents": "..."}.'),
    out: Path = typer.Option(help="The folder to build the index in."),
    kind: str = typer.Option("bm25", help="bm25, dense, or hybrid for both."),
    encoder: str = typer.Option("e5", help="For dense: a preset or any checkpoint."),
    index: str = typer.Option("auto", help="For dense: auto, or an index type as faiss names it."),
    faiss: Path | None = typer.Option(
        None,
        help="A faiss index of this corpus: used as it is, or converted to the type given by --index.",
    ),
    analyzer: str | None = typer.Option(
        None,
        help="For bm25: english (default), lucene, unicode, snowball, or module:attribute.",
    ),
    analyzer_option: list[str] = typer.Option(
        [],
        help="NAME=VALUE for the analyzer, such as stop_words=false or language=german. Repeatable.",
    ),
    shards: int = typer.Option(1, min=1, help="Split the corpus into this many ranges of rows."),
    force: bool = typer.Option(False, "--force", help="Replace an existing index."),
    dry_run: bool = typer.Option(
        False, "--dry-run", help="Only estimate the memory and disk needed."
    ),
) -> None:
    """Build an index. After an interruption, run the same command again to continue."""
    from prompt_coevo.retrieval.index.build import Request, foresee
    from prompt_coevo.retrieval.index.build import build as build_index

    options = retrieval_serve.read_options(analyzer_option, "--analyzer-option")
    request = Request(kind, encoder, index, faiss, shards, analyzer, options)
    if dry_run:
        planned = foresee(corpus, out, request)
        _tell(planned)
        planned.refuse_full_disk()
        return
    with _stages() as shown:
        made = build_index(corpus, out, request, force=force, stages=shown, told=_tell_if_known)
    size = sum(facts.bytes for facts in made.files) / 1e6
    typer.echo(f"{out}: {made.kind}, {made.corpus.passages} passages, {size:.1f} MB")


@app.command()
def search(
    folder: Path = _INDEX,
    queries: list[str] = typer.Argument(metavar="QUERY...", help="The texts to search for."),
    k: int = typer.Option(3, "-k", help="Passages per query."),
    corpus: Path | None = _CORPUS,
    as_json: bool = typer.Option(False, "--json", help="Print one JSON object per query."),
) -> None:
    """Show the best passages for each query."""
    from prompt_coevo.retrieval.index.open import open_index

    index = open_index(folder, corpus=corpus)
    for query, hits in zip(queries, index.search(queries, k), strict=True):
        if as_json:
            typer.echo(_as_json(query, hits))
        else:
            typer.echo(
                "\n\n".join([in_a_line(query), *(map(_shown, hits) if hits else ["  nothing"])])
            )
            typer.echo()
    index.close()


@app.command()
def info(folder: Path = _INDEX) -> None:
    """Describe an index as JSON and check it for damage that is quick to find."""
    from prompt_coevo.retrieval.index.open import describe

    typer.echo(json.dumps(asdict(describe(folder)), indent=2))


@app.command()
def verify(folder: Path = _INDEX, corpus: Path | None = _CORPUS) -> None:
    """Compare every byte of an index and its corpus with what was built. Exit status 1 if any differs."""
    from prompt_coevo.retrieval.errors import IndexFileError
    from prompt_coevo.retrieval.index import manifest

    try:
        with _stages() as shown:
            made = manifest.verify(folder, corpus, shown("verifying"))
    except IndexFileError as error:
        typer.echo(f"error: {in_a_line(error)}", err=True)
        raise typer.Exit(1) from None
    typer.echo(f"{folder}: {len(made.files)} files and the corpus are as they were built")


@app.command()
def push(
    folder: Path = _INDEX,
    to: str = typer.Option(help="The address of a Chroma server, such as http://127.0.0.1:8000."),
    collection: str | None = typer.Option(None, help="By default the name of the index' folder."),
    tenant: str = typer.Option("default_tenant", help="The tenant that the database is of."),
    database: str = typer.Option("default_database", help="The database to put it in."),
    corpus: Path | None = _CORPUS,
    force: bool = typer.Option(
        False, "--force", help="Delete the collection of this name first, whatever it holds."
    ),
) -> None:
    """Load the rows and vectors of a dense or hybrid index into a Chroma collection, without embedding.

    After an interruption, run the same command again to continue. If the server wants a token, set the
    environment variable CHROMA_API_KEY.
    """
    from prompt_coevo.retrieval.chroma.push import push as push_index

    with _stages() as shown:
        pushed = push_index(
            *(folder, to, collection),
            corpus=corpus,
            tenant=tenant,
            database=database,
            force=force,
            stages=shown,
        )
    new = pushed.rows - pushed.before
    typer.echo(in_a_line(f"{pushed.collection}: {pushed.rows} rows, {new} of them stored now"))


app.command("serve")(retrieval_serve.serve)
app.command("bench")(retrieval_serve.bench)


@contextmanager
def _stages() -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Show progress bars on a terminal. Yields a function from a stage's name to one that reports (done,
    total)."""
    from rich.console import Console
    from rich.progress import Progress, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:

        def stage(name: str) -> Callable[[int, int], None]:
            task = progress.add_task(name, total=None)
            return lambda done, total: progress.update(task, completed=done, total=total)

        yield stage


def _tell_if_known(planned: Plan) -> None:
    if planned.foreseen is not None:
        _tell(planned)


def _tell(planned: Plan) -> None:
    for line in planned.lines():
        typer.echo(visible(line))
    if not planned.fits_memory:
        typer.echo(
            "warning: this exceeds the free memory: the build will be slow or killed; choose a "
            "smaller type with --index, or --shards",
            err=True,
        )


def _as_json(query: str, hits: Sequence[Hit]) -> str:
    found = [{name: getattr(hit, name) for name in _HIT} for hit in hits]
    text = json.dumps({"query": query, "hits": found})
    # Corpus fields may be NaN, which Python reads and writes but JSON does not allow.
    return json.dumps(json.loads(text, parse_constant=lambda name: None))


def _shown(hit: Hit) -> str:
    text = visible(hit.contents).replace("\n", "\n     ")
    return f"{hit.rank:3}. {text}\n     [{in_a_line(hit.id)}, {hit.score:.4g}]"
