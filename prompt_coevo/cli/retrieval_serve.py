"""`prompt-coevo retrieval serve` and `bench`: the retrieval server, and how fast one is."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from prompt_coevo.errors import SettingsError
from prompt_coevo.visible import in_a_line

if TYPE_CHECKING:
    from prompt_coevo.retrieval.retriever import Retriever

_WORDS = [
    "river",
    "king",
    "song",
    "war",
    "city",
    "film",
    "star",
    "church",
    "team",
    "island",
    "train",
    "novel",
    "queen",
    "bridge",
    "law",
]

_TOKEN_HELP = (
    "What a client must send; better in the environment variable PROMPT_COEVO_RETRIEVAL_TOKEN, "
    "since every user of the machine sees a command's arguments."
)


def serve(
    directory: Path | None = typer.Argument(
        None, help="A folder made by `prompt-coevo retrieval build`."
    ),
    retriever: str | None = typer.Option(
        None,
        help="In place of the folder: a retriever's name, or module:attribute of what makes one.",
    ),
    option: list[str] = typer.Option([], help="NAME=VALUE: what the retriever is made with."),
    corpus: Path | None = typer.Option(
        None, help="Where the corpus is now, if it was moved without the index."
    ),
    gpus: str = typer.Option(
        "auto", help="Search vectors on as few GPUs as hold them (auto), on all, or on none."
    ),
    host: str = typer.Option(
        "127.0.0.1", help="The address to listen on; others than loopback let others search."
    ),
    port: int = typer.Option(8000, help="0: any free one."),
    topk: int = typer.Option(3, help="Passages per query for clients that do not say."),
    max_batch: int = typer.Option(256, help="Queries in one search."),
    queue: int = typer.Option(16_384, help="Queries that may wait; more are answered by 503."),
    deadline: float = typer.Option(
        30.0, help="Seconds for one request; then it is answered by 504."
    ),
    read_timeout: float = typer.Option(10.0, help="Seconds for a client to send its request."),
    max_body_mb: int = typer.Option(16, help="Largest request in MiB; larger ones get 413."),
    max_connections: int = typer.Option(4096, help="Clients connected at once."),
    max_k: int = typer.Option(100, help="Most passages per query; more is answered by 422."),
    max_query_chars: int = typer.Option(
        10_000, help="Longest query; a longer one gets its request 422."
    ),
    max_queries: int = typer.Option(4096, help="Most queries in one request; more get 422."),
    max_head_kb: int = typer.Option(
        32, help="Largest address and headers of a request in KiB; larger ones get 431."
    ),
    max_headers: int = typer.Option(100, help="Most headers of a request; more get 431."),
    token: str | None = typer.Option(None, help=_TOKEN_HELP),
    allow_host: list[str] = typer.Option(
        [],
        help="A name by which the server may be asked. On loopback only those of this machine are; "
        "elsewhere all, unless one is given here.",
    ),
    allow_origin: list[str] = typer.Option(
        [], help="Pages that may ask from a browser, as https://example.org."
    ),
) -> None:
    """Serve an index or another retriever over HTTP, as Search-R1's server does: POST /retrieve.

    GET /health tells what is searched (503 until the first search worked), GET /metrics is for
    Prometheus.
    """
    # Threads that wait for work sleep instead of spinning: the machine usually trains as well. It is read
    # when torch and faiss are loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from prompt_coevo.retrieval.access import read_token
    from prompt_coevo.retrieval.retriever import Limits
    from prompt_coevo.retrieval.server.server import RetrievalServer
    from prompt_coevo.retrieval.server.settings import ServerSettings

    settings = ServerSettings(
        host=host,
        port=port,
        default_k=topk,
        max_batch=max_batch,
        max_waiting=queue,
        deadline_s=deadline,
        read_timeout_s=read_timeout,
        max_body_bytes=max_body_mb * 2**20,
        max_connections=max_connections,
        max_head_bytes=max_head_kb * 2**10,
        max_headers=max_headers,
        limits=Limits(max_k, max_query_chars, max_queries),
        token=read_token(token),
        allowed_hosts=tuple(allow_host),
        allowed_origins=tuple(allow_origin),
    )
    served = _open(directory, corpus, retriever, read_options(option), gpus)
    try:
        server = RetrievalServer(served, settings)
        typer.echo(f"serving {server.address}/retrieve")
        server.run()
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    finally:
        served.close()


def bench(
    url: str = typer.Argument(help="The address of a retrieval server."),
    clients: int = typer.Option(64, min=1, help="Clients that ask at the same time."),
    seconds: float = typer.Option(10.0, min=0.1, help="How long."),
    queries: Path | None = typer.Option(
        None,
        help="A file with one query per line; without it, queries are made up of common words.",
    ),
    topk: int = typer.Option(3, min=1, help="Passages per query."),
    token: str | None = typer.Option(None, help=_TOKEN_HELP),
) -> None:
    """Measure how many queries a second a retrieval server answers, and how fast.

    Understands every server that speaks Search-R1's format. Each client sends one query at a time.
    """
    from prompt_coevo.retrieval.client.bench import measure_load

    texts = _read_queries(queries) if queries else _made_up_queries(2000)
    load = measure_load(url, texts, clients=clients, seconds=seconds, k=topk, token=token)
    typer.echo(f"{load.queries_per_s:.1f} queries per second, {clients} clients")
    quantiles = ", ".join(
        f"p{q * 100:g} {load.latency_s(q) * 1000:.1f} ms" for q in (0.5, 0.95, 0.99)
    )
    typer.echo(f"latency {quantiles}")
    for message, count in load.errors.items():
        typer.echo(f"{count} times: {in_a_line(message)}", err=True)
    if load.errors:
        raise typer.Exit(1)


def read_options(given: list[str]) -> dict[str, Any]:
    """Of NAME=VALUE; the value is read as JSON where it is some, and else is a text."""
    options: dict[str, Any] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not name.isidentifier() or not equals:
            raise SettingsError(f"--option {one!r} is not of the form NAME=VALUE")
        if name in options:
            raise SettingsError(f"--option {name} is given twice")
        try:
            options[name] = json.loads(value)
        except (ValueError, RecursionError):
            options[name] = value
    return options


def _open(
    directory: Path | None,
    corpus: Path | None,
    retriever: str | None,
    options: dict[str, Any],
    gpus: str,
) -> Retriever:
    from prompt_coevo.retrieval.named import open_retriever

    if (directory is None) == (retriever is None):
        raise SettingsError(
            "name what is to be served: either the folder of an index or --retriever NAME"
        )
    if retriever is not None:
        if corpus is not None:
            raise SettingsError(
                "--corpus is for the folder of an index; leave it out with --retriever"
            )
        if gpus != "auto":
            raise SettingsError(
                "--gpus is for the folder of an index; leave it out with --retriever"
            )
        return open_retriever(retriever, options, "--retriever")
    if options:
        raise SettingsError("--option has no effect without --retriever")
    return open_retriever("index", {"folder": directory, "corpus": corpus, "gpus": gpus})


def _read_queries(path: Path) -> list[str]:
    try:
        lines = path.read_text("utf-8").split("\n")  # no splitlines: a query may hold U+2028
    except OSError as error:
        raise SettingsError(f"the file {path} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError:
        raise SettingsError(f"the file {path} is not UTF-8; write it so") from None
    texts = [line for line in lines if line.strip()]
    if not texts:
        raise SettingsError(f"the file {path} has no queries; write one per line")
    return texts


def _made_up_queries(count: int) -> list[str]:
    rng = random.Random(0)
    return [" ".join(rng.choices(_WORDS, k=5)) + f" {number}" for number in range(count)]
