"""`prompt-coevo retrieval serve` and `bench`: the retrieval server, and how fast one is."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from prompt_coevo.cli.output import read_lines
from prompt_coevo.errors import SettingsError
from prompt_coevo.visible import in_a_line

if TYPE_CHECKING:
    from prompt_coevo.retrieval.client.bench import Load
    from prompt_coevo.retrieval.retriever import Retriever

_PER_CALL = 256  # what Search-R1's client sends

_WORDS = "river king song war city film star church team island train novel queen bridge law"

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
    verify: bool = typer.Option(
        False, "--verify", help="Before serving a folder, compare every byte with what was built."
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
    threads: int | None = typer.Option(
        None,
        min=1,
        help="Threads of one search; by default OMP_NUM_THREADS, else all cores given to it.",
    ),
    queue: int = typer.Option(65_536, help="Queries that may wait; more are answered by 503."),
    deadline: float = typer.Option(
        30.0, help="Seconds for each --max-batch queries of a request; then it is answered by 504."
    ),
    max_search: float = typer.Option(
        120.0,
        help="Seconds after which a search counts as one that hangs, and the next one begins.",
    ),
    read_timeout: float = typer.Option(
        10.0, help="Seconds for a client to send the body of its request."
    ),
    max_body_mb: int = typer.Option(16, help="Largest request in MiB; larger ones get 413."),
    max_connections: int = typer.Option(4096, help="Clients connected at once; more get 503."),
    max_k: int = typer.Option(100, help="Most passages per query; more is answered by 422."),
    max_query_chars: int = typer.Option(
        10_000, help="Characters in a query; a longer one is cut at the end of a word."
    ),
    max_queries: int = typer.Option(16_384, help="Most queries in one request; more get 422."),
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
    if threads is not None:
        os.environ["OMP_NUM_THREADS"] = str(threads)
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
        max_search_s=max_search,
        read_timeout_s=read_timeout,
        max_body_bytes=max_body_mb * 2**20,
        max_connections=max_connections,
        limits=Limits(max_k, max_query_chars, max_queries),
        token=read_token(token),
        allowed_hosts=tuple(allow_host),
        allowed_origins=tuple(allow_origin),
    )
    served = _open(directory, corpus, retriever, read_options(option), verify, gpus)
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
    clients: int = typer.Option(
        64, min=0, help="Clients that send one query at a time; 0: leave this out."
    ),
    batch_clients: int = typer.Option(
        4, min=0, help="Clients that send many at a time, as Search-R1's; 0: leave this out."
    ),
    per_call: int | None = typer.Option(
        None, min=2, help="How many these send at a time, 256 by default."
    ),
    seconds: float = typer.Option(10.0, min=0.1, help="How long, for each of the two."),
    queries: Path | None = typer.Option(
        None,
        help="A file with one query per line; without it, queries are made up of common words.",
    ),
    topk: int = typer.Option(3, min=1, help="Passages per query."),
    token: str | None = typer.Option(None, help=_TOKEN_HELP),
) -> None:
    """Measure how many queries a second a retrieval server answers, how fast, and at what CPU time.

    Twice: with clients that send one query at a time, then with some that send many in a call.
    Understands every server that speaks Search-R1's format. The CPU time is what the server's /metrics
    says; other servers do not say it. On one machine the clients take their share of the cores, so only
    the CPU time compares servers.
    """
    from prompt_coevo.retrieval.client.bench import measure_load

    if not clients and not batch_clients:
        raise SettingsError("--clients and --batch-clients are both 0; somebody has to ask")
    if per_call is not None and not batch_clients:
        raise SettingsError("--per-call has no effect with --batch-clients 0")
    texts = _read_queries(queries) if queries else _made_up_queries(2000)
    patterns = [(clients, 1), (batch_clients, per_call or _PER_CALL)]
    failed = False
    for asking, at_a_time in patterns:
        if asking:
            load = measure_load(
                *(url, texts),
                clients=asking,
                per_call=at_a_time,
                seconds=seconds,
                k=topk,
                token=token,
            )
            _show_load(load)
            failed = failed or bool(load.errors)
    if failed:
        raise typer.Exit(1)


def _show_load(load: Load) -> None:
    plural = "client" if load.clients == 1 else "clients"
    a_call = "one query a call" if load.per_call == 1 else f"{load.per_call} queries a call"
    typer.echo(f"{load.clients} {plural}, {a_call}: {load.queries_per_s:.1f} queries per second")
    if load.server_cpu_s is None or load.queries_per_cpu_s is None:
        typer.echo("  CPU time of the server: not known, its /metrics does not say it")
    else:
        typer.echo(
            f"  CPU time of the server {load.server_cpu_s:.2f} s in {load.seconds:.1f} s: "
            f"{load.queries_per_cpu_s:.1f} queries per CPU second"
        )
    quantiles = ", ".join(
        f"p{q * 100:g} {load.latency_s(q) * 1000:.1f} ms" for q in (0.5, 0.95, 0.99)
    )
    typer.echo(f"  latency of a call {quantiles}")
    for message, count in load.errors.items():
        typer.echo(f"{count} times: {in_a_line(message)}", err=True)


def read_options(given: list[str], flag: str = "--option") -> dict[str, Any]:
    """Of NAME=VALUE; the value is read as JSON where it is some, and else is a text."""
    options: dict[str, Any] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not name.isidentifier() or not equals:
            raise SettingsError(f"{flag} {one!r} is not of the form NAME=VALUE")
        if name in options:
            raise SettingsError(f"{flag} {name} is given twice")
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
    verify: bool,
    gpus: str,
) -> Retriever:
    from prompt_coevo.retrieval.named import open_retriever

    if (directory is None) == (retriever is None):
        raise SettingsError(
            "name what is to be served: either the folder of an index or --retriever NAME"
        )
    if retriever is not None:
        folder_only = (
            ("--corpus", corpus is not None),
            ("--verify", verify),
            ("--gpus", gpus != "auto"),
        )
        for flag, given in folder_only:
            if given:
                raise SettingsError(
                    f"{flag} is for the folder of an index; leave it out with --retriever"
                )
        return open_retriever(retriever, options, "--retriever")
    if options:
        raise SettingsError("--option has no effect without --retriever")
    opened = {"folder": directory, "corpus": corpus, "verify": verify, "gpus": gpus}
    return open_retriever("index", opened)


def _read_queries(path: Path) -> list[str]:
    texts = [line for line in read_lines(path, "--queries") if line.strip()]
    if not texts:
        raise SettingsError(f"--queries {path} has no queries; write one per line")
    return texts


def _made_up_queries(count: int) -> list[str]:
    rng = random.Random(0)
    words = _WORDS.split()
    return [" ".join(rng.choices(words, k=5)) + f" {number}" for number in range(count)]
