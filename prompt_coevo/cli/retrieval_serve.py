"""`prompt-coevo retrieval serve` and `bench`: run a retrieval server, and measure one."""

from __future__ import annotations

import json
import os
import random
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from prompt_coevo.cli.output import read_lines
from prompt_coevo.errors import SettingsError
from prompt_coevo.lines import JSON
from prompt_coevo.preflight.page import plural
from prompt_coevo.visible import in_a_line

if TYPE_CHECKING:
    from prompt_coevo.retrieval.client.bench import Load
    from prompt_coevo.retrieval.retriever import Retriever
    from prompt_coevo.retrieval.server.settings import ServerSettings

_PER_CALL = 256  # the batch size of Search-R1's client

_WORDS = "river king song war city film star church team island train novel queen bridge law"

_TOKEN_HELP = (
    "The token that clients must send. Prefer the environment variable PROMPT_COEVO_RETRIEVAL_TOKEN, "
    "because every user of the machine can see a command's arguments."
)


def serve(
    directory: Path | None = typer.Argument(
        None, help="A folder made by `prompt-coevo retrieval build`."
    ),
    retriever: str | None = typer.Option(
        None,
        help="Instead of a folder: a retriever's name, or module:attribute of a function that makes one.",
    ),
    option: list[str] = typer.Option(
        [], help="NAME=VALUE: an argument of the retriever. Repeatable."
    ),
    corpus: Path | None = typer.Option(
        None, help="The corpus' new place, if it was moved without the index."
    ),
    gpus: str = typer.Option(
        "auto", help="Hold the vectors on as few GPUs as possible (auto), on all, or on none."
    ),
    shard: int | None = typer.Option(
        None,
        min=1,
        help="Serve this shard alone, from 1; the retriever `sharded` joins the shards' servers.",
    ),
    host: str = typer.Option(
        "127.0.0.1", help="The address to listen on. Beyond loopback, other machines can search."
    ),
    port: int = typer.Option(8000, help="0 picks a free one."),
    topk: int = typer.Option(3, help="Passages per query if the client names no number."),
    ray: bool = typer.Option(
        False,
        "--ray",
        help="Start a server for each shard on the nodes of a Ray cluster, and serve a front here.",
    ),
    replicas: int | None = typer.Option(
        None, min=1, help="With --ray: servers for each shard. By default 1."
    ),
    cpus_per_server: int | None = typer.Option(
        None, min=0, help="With --ray: CPUs that a server reserves, and its threads. By default 1."
    ),
    memory_per_server: float | None = typer.Option(
        None, min=0.001, help="With --ray: GiB of memory that a server reserves. By default none."
    ),
    shard_timeout: float | None = typer.Option(
        None, min=0.001, help="With --ray: seconds to wait for a shard. By default 10."
    ),
    partial: bool = typer.Option(
        False, "--partial", help="With --ray: then answer from the other shards."
    ),
    token: str | None = typer.Option(None, help=_TOKEN_HELP),
    values: list[str] = typer.Option(
        [],
        "--set",
        metavar="NAME=VALUE",
        help="A limit, a time, or the hosts and origins that are allowed, such as max_batch=512. "
        "docs/search-agent.md, Limits, has all names. Repeatable.",
    ),
) -> None:
    """Serve an index or another retriever over HTTP, as Search-R1's server does: POST /retrieve.

    GET /health describes what is searched (503 until the first search succeeds); GET /metrics is for
    Prometheus.
    """
    # Let idle threads sleep instead of spin: the machine usually trains as well. torch and faiss read this
    # when they are loaded.
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
    from prompt_coevo.retrieval.access import read_token
    from prompt_coevo.retrieval.server.settings import read_settings

    settings = read_settings(
        _pairs(values, "--set"), host=host, port=port, default_k=topk, token=read_token(token)
    )
    on_ray = {
        "--replicas": replicas,
        "--cpus-per-server": cpus_per_server,
        "--memory-per-server": memory_per_server,
        "--shard-timeout": shard_timeout,
        "--partial": partial or None,
    }
    if not ray:
        _refuse(on_ray, "has no effect without --ray")
        _serve(_open(directory, corpus, retriever, read_options(option), gpus, shard), settings)
        return
    here = {"--retriever": retriever, "--option": option or None, "--shard": shard}
    here["--gpus"] = None if gpus == "auto" else gpus
    _refuse(here, "does not go with --ray")
    if directory is None:
        raise SettingsError("--ray serves an index: name its folder")
    from prompt_coevo.retrieval.client.sharded import ShardedRetriever
    from prompt_coevo.retrieval.server.ray_servers import Placement, RayServers

    placement = Placement(
        directory.resolve(),
        corpus.resolve() if corpus else None,
        replace(settings, allowed_hosts=(), allowed_origins=()),
        replicas or 1,
        1 if cpus_per_server is None else cpus_per_server,
        int(memory_per_server * 2**30) if memory_per_server else None,
    )
    with RayServers(placement) as servers:
        for number, addresses in enumerate(servers.addresses(), 1):
            typer.echo(f"shard {number}: {' '.join(addresses)}")
        front = ShardedRetriever(
            servers.addresses(),
            partial=partial,
            total_timeout_s=shard_timeout or 10.0,
            limits=settings.limits,
            max_batch=min(settings.max_batch, settings.limits.max_queries),
            token=settings.token,
        )
        servers.keep(front)
        _serve(front, settings, waits=True)  # a shard may be starting again


def _refuse(flags: Mapping[str, object], why: str) -> None:
    for flag, value in flags.items():
        if value is not None:
            raise SettingsError(f"{flag} {why}")


def _serve(served: Retriever, settings: ServerSettings, *, waits: bool = False) -> None:
    from prompt_coevo.retrieval.server.server import RetrievalServer

    try:
        server = RetrievalServer(served, settings, waits=waits)
        typer.echo(f"serving {server.address}/retrieve")
        server.run()
    except KeyboardInterrupt:
        raise typer.Exit(130) from None
    finally:
        served.close()


def bench(
    url: str = typer.Argument(help="The address of a retrieval server."),
    clients: int = typer.Option(
        64, min=0, help="Clients that send one query per call; 0 skips this measurement."
    ),
    batch_clients: int = typer.Option(
        4,
        min=0,
        help="Clients that send many queries per call, like Search-R1's; 0 skips this measurement.",
    ),
    per_call: int | None = typer.Option(
        None, min=2, help="Queries per call of --batch-clients. By default 256."
    ),
    seconds: float = typer.Option(10.0, min=0.1, help="Duration of each of the two measurements."),
    queries: Path | None = typer.Option(
        None,
        help="A file with one query per line. By default, queries made of common words.",
    ),
    topk: int = typer.Option(3, min=1, help="Passages per query."),
    token: str | None = typer.Option(None, help=_TOKEN_HELP),
) -> None:
    """Measure throughput, latency and CPU time of a retrieval server.

    Runs twice: with clients that send one query per call, then with clients that send many. Works with
    every server that speaks Search-R1's format. CPU time is read from the server's /metrics, which other
    servers lack. Clients on the same machine take their share of the cores; then only the CPU time compares
    servers.
    """
    from prompt_coevo.retrieval.client.bench import measure_load

    if not clients and not batch_clients:
        raise SettingsError("--clients and --batch-clients are both 0; set one of them above 0")
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
    asking = plural(load.clients, "client")
    a_call = "one query a call" if load.per_call == 1 else f"{load.per_call} queries a call"
    typer.echo(f"{asking}, {a_call}: {load.queries_per_s:.1f} queries per second")
    if load.server_cpu_s is None or load.queries_per_cpu_s is None:
        typer.echo("  CPU time of the server: unknown, its /metrics does not report it")
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


def read_options(given: list[str], flag: str = "--option") -> dict[str, JSON]:
    """Parse NAME=VALUE pairs. A value that is valid JSON is read as JSON, any other as a text."""
    options: dict[str, JSON] = {}
    for name, value in _pairs(given, flag).items():
        try:
            options[name] = json.loads(value)
        except (ValueError, RecursionError):
            options[name] = value
    return options


def _pairs(given: list[str], flag: str) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for one in given:
        name, equals, value = one.partition("=")
        if not name.replace("-", "_").isidentifier() or not equals:
            raise SettingsError(f"{flag} {one!r} is not of the form NAME=VALUE")
        if name in pairs:
            raise SettingsError(f"{flag} {name} is given twice")
        pairs[name] = value
    return pairs


def _open(
    directory: Path | None,
    corpus: Path | None,
    retriever: str | None,
    options: dict[str, JSON],
    gpus: str,
    shard: int | None = None,
) -> Retriever:
    from prompt_coevo.retrieval.named import open_retriever

    if (directory is None) == (retriever is None):
        raise SettingsError("say what to serve: either the folder of an index or --retriever NAME")
    if retriever is not None:
        given = {"--corpus": corpus, "--gpus": None if gpus == "auto" else gpus, "--shard": shard}
        _refuse(given, "is for the folder of an index; leave it out with --retriever")
        return open_retriever(retriever, options, "--retriever")
    if options:
        raise SettingsError("--option has no effect without --retriever")
    opened = {"folder": directory, "corpus": corpus, "gpus": gpus, "shard": shard}
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
