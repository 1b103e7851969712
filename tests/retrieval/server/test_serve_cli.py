"""Check the commands `serve` and `bench`, with real processes and a real index."""

from __future__ import annotations

import itertools
import json
import os
import random
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from helpers.passages import queries, write_corpus
from helpers.retrieval_server import EchoRetriever, free_port, serving
from prompt_coevo.cli import main
from prompt_coevo.cli.retrieval_serve import read_options
from prompt_coevo.retrieval.client.bench import Load
from prompt_coevo.retrieval.client.client import RemoteRetriever
from prompt_coevo.retrieval.errors import QueryError
from prompt_coevo.retrieval.index.build import Request, build
from prompt_coevo.retrieval.index.open import open_index
from prompt_coevo.retrieval.retriever import Limits
from prompt_coevo.retrieval.server.settings import ServerSettings, read_settings

TOOL = [sys.executable, "-P", "-c", "from prompt_coevo.cli import main; main()", "retrieval"]
COUNT = 300

Run = Callable[..., tuple[int, str, str]]


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served")
    build(write_corpus(folder / "corpus.jsonl", COUNT), folder / "index", Request("bm25"))
    return folder / "index"


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Return a function that runs the command line in this process: exit status, output, errors."""

    def command(*arguments: str) -> tuple[int, str, str]:
        monkeypatch.setattr(sys, "argv", ["prompt-coevo", "retrieval", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
        shown = capsys.readouterr()
        return int(ended.value.code or 0), shown.out, shown.err

    return command


@pytest.fixture
def ticks(monkeypatch: pytest.MonkeyPatch) -> None:
    """Advance the load's clock by 0.01 s with each reading, and never otherwise."""
    clock = itertools.count()
    looked_at = SimpleNamespace(perf_counter=lambda: next(clock) / 100)
    monkeypatch.setattr("prompt_coevo.retrieval.client.bench.time", looked_at)


@pytest.fixture
def served(index: Path) -> Iterator[tuple[str, subprocess.Popen[str]]]:
    process = subprocess.Popen(
        [*TOOL, "serve", str(index), "--port", "0", "--set", "max_k=200", "--topk", "2"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    word, address = process.stdout.readline().split()
    assert word == "serving"
    yield address, process
    process.kill()
    process.wait()
    process.stdout.close()


def test_an_index_is_served_as_it_is_searched_here(
    index: Path, served: tuple[str, subprocess.Popen[str]]
) -> None:
    address, process = served
    texts = [text for text, _ in queries(40, of=COUNT)]
    remote, here = RemoteRetriever(address), open_index(index)
    assert remote.info().fingerprint == here.info().fingerprint
    assert remote.search(texts, 5) == here.search(texts, 5)
    assert remote.search(texts[:1], 100)
    with pytest.raises(QueryError):
        remote.search(texts[:1], 101)
    remote.close()
    here.close()
    process.send_signal(signal.SIGINT)
    assert process.wait() in (0, 130, -signal.SIGINT)


def test_a_folder_without_index_and_a_setting_that_cannot_work_are_one_sentence(
    run: Run, index: Path, tmp_path: Path
) -> None:
    for arguments in (("serve", str(tmp_path)), ("serve", str(index), "--set", "deadline_s=-1")):
        status, _, errors = run(*arguments)
        assert status == 2
        assert errors.startswith("error: ")
        assert errors.count("\n") == 1


def test_a_retriever_of_somebody_else_is_served(strangers: Path) -> None:
    texts = ["Bonn\nA city.", "Isar\nA river."]
    before = os.environ.get("PYTHONPATH")  # an empty entry would be the current folder
    paths = os.pathsep.join([str(strangers), *([before] if before else [])])
    given = ["--retriever", "words:Words", "--option", f"passages={json.dumps(texts)}"]
    process = subprocess.Popen(
        [*TOOL, "serve", *given, "--port", "0"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    )
    try:
        assert process.stdout is not None
        remote = RemoteRetriever(process.stdout.readline().split()[1])
        assert remote.search(["which river."], 1)[0][0].contents == texts[1]
        assert remote.info().kind == "words"
        remote.close()
    finally:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ([], "say what to serve: either the folder of an index or --retriever NAME"),
        (["folder", "--retriever", "x"], "say what to serve"),
        (["--retriever", "x", "--corpus", "c"], "--corpus is for the folder of an index"),
        (["--retriever", "x", "--shard", "1"], "--shard is for the folder of an index"),
        (["folder", "--option", "a=1"], "--option has no effect without --retriever"),
        (["--retriever", "x", "--option", "a"], "--option 'a' is not of the form NAME=VALUE"),
        (["--retriever", "x", "--option", "a=1", "--option", "a=2"], "--option a is given twice"),
        (
            ["x", "--set", "max_bach=9"],
            "--set max_bach: unknown name; did you mean max_batch? Known: ",
        ),
        (
            ["x", "--set", "port=9"],
            "port: unknown name. Known: max_batch, max_waiting, deadline_s,",
        ),
        (["x", "--set", "max-batch=9"], "max-batch: unknown name; did you mean max_batch? Known:"),
        (["x", "--set", "max_k=few"], "--set max_k=few: must be of type int"),
        (["x", "--set", "max_queries=0"], "max_queries must be above 0, but is 0"),
        (["--retriever", "x"], "--retriever = 'x': there is no such retriever"),
        (["--retriever", "nowhere:x"], "No module named 'nowhere'; install it, or put its folder"),
        (
            ["--retriever", "words:Words"],
            "does not take these options: missing a required argument",
        ),
        (
            ["--retriever", "wrong:make", "--port", "0"],
            "with a str among the hits; its method search",
        ),
    ],
)
def test_what_cannot_be_served_is_one_sentence(
    run: Run, strangers: Path, arguments: list[str], sentence: str
) -> None:
    (strangers / "wrong.py").write_text(
        "import words\n\n\nclass Wrong(words.Words):\n    def search(self, queries, k):\n"
        "        return [['text'] for _ in queries]\n\n\n"
        "def make():\n    return Wrong([])\n"
    )
    status, _, errors = run("serve", *arguments)
    assert status == 2
    assert errors.startswith("error: ")
    assert sentence in errors
    assert errors.count("\n") == 1


def test_settings_have_the_types_of_their_fields() -> None:
    given = {"deadline_s": "7", "max_k": "200", "allowed_hosts": "a,b", "allowed_origins": ""}
    assert read_settings(given, host="::1", port=1, default_k=150, token=None) == ServerSettings(
        *("::1", 1, 150),
        deadline_s=7.0,
        limits=Limits(max_k=200),
        token=None,
        allowed_hosts=("a", "b"),
    )


def test_options_are_json_where_they_are_some() -> None:
    given = ["a=1", "b=true", 'c=["x"]', "d=text", "e=http://h:1/?q=1", "f=", "g=null"]
    assert read_options(given) == {
        "a": 1,
        "b": True,
        "c": ["x"],
        "d": "text",
        "e": "http://h:1/?q=1",
        "f": "",
        "g": None,
    }
    assert read_options(["deep=" + "[" * 3000]) == {"deep": "[" * 3000}


@pytest.mark.usefixtures("ticks")
def test_bench_reports_rate_and_latency(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "queries.txt"
    file.write_text("who wrote it\n\nwhere was it\n")
    retriever = EchoRetriever()
    with serving(retriever) as address:
        warmed_up(address)
        common = ("--clients", "4", "--batch-clients", "0", "--seconds", "0.3")
        status, output, errors = run(
            "bench", address, *common, "--queries", str(file), "--topk", "1"
        )
        assert status == 0, errors
        first, cpu, latency = output.splitlines()
        assert first.startswith("4 clients, one query a call: ")
        assert first.endswith(" queries per second")
        assert re.fullmatch(
            r"  CPU time of the server [\d.]+ s in [\d.]+ s: [\d.]+ queries per CPU second", cpu
        )
        assert "p99" in latency
        assert set(retriever.asked) == {"who wrote it", "where was it"}
        assert run("bench", address, *common)[0] == 0


@pytest.mark.usefixtures("ticks")
def test_bench_asks_in_both_patterns(run: Run) -> None:
    retriever = EchoRetriever()
    with serving(retriever) as address:
        warmed_up(address)
        common = ("--clients", "1", "--seconds", "0.2")
        status, output, errors = run("bench", address, *common, "--batch-clients", "2")
        assert status == 0, errors
        one, many = output.splitlines()[::3]
        assert one.startswith("1 client, one query a call: ")
        assert many.startswith("2 clients, 256 queries a call: ")
        fewer = run("bench", address, "--clients", "0", "--per-call", "7", "--seconds", "0.2")
        assert fewer[1].startswith("4 clients, 7 queries a call: ")


def test_bench_refuses_what_has_no_effect(run: Run) -> None:
    nobody = run("bench", "http://127.0.0.1:1", "--clients", "0", "--batch-clients", "0")
    unused = run("bench", "http://127.0.0.1:1", "--batch-clients", "0", "--per-call", "5")
    assert (nobody[0], "set one of them above 0" in nobody[2]) == (2, True)
    assert (unused[0], "--per-call has no effect" in unused[2]) == (2, True)


@pytest.mark.usefixtures("ticks")
def test_bench_tells_what_went_wrong(run: Run, tmp_path: Path) -> None:
    (tmp_path / "none.txt").write_text("\n")
    (tmp_path / "boom.txt").write_text("boom\n")
    common = ("--clients", "1", "--batch-clients", "0", "--seconds", "0.2")
    with serving(EchoRetriever()) as address:
        warmed_up(address)
        broken = run("bench", address, *common, "--queries", str(tmp_path / "boom.txt"))
        empty = run("bench", address, *common, "--queries", str(tmp_path / "none.txt"))
        missing = run("bench", address, *common, "--queries", str(tmp_path / "missing"))
    away = run("bench", f"http://127.0.0.1:{free_port()}", *common)
    assert (broken[0], "the index broke" in broken[2]) == (1, True)
    assert (empty[0], "has no queries" in empty[2]) == (2, True)
    assert (missing[0], "cannot be read" in missing[2]) == (2, True)
    assert (away[0], "cannot be asked" in away[2]) == (2, True)


def test_two_processes_that_are_seeded_alike_draw_ports_of_their_own() -> None:
    before = random.getstate()
    free_port()
    assert random.getstate() == before


def warmed_up(address: str) -> None:
    remote = RemoteRetriever(address)
    remote.info()
    remote.close()


def test_latencies_of_a_load() -> None:
    load = Load(2, 3, 2.0, queries=12, latencies_s=[0.4, 0.1, 0.2, 0.3])
    assert (load.queries_per_s, load.queries_per_cpu_s) == (6.0, None)
    load.server_cpu_s = 0.5
    assert load.queries_per_cpu_s == 24.0
    assert [load.latency_s(quantile) for quantile in (0.0, 0.5, 0.99, 1.0)] == [0.1, 0.3, 0.4, 0.4]


@pytest.mark.parametrize(
    ("module", "heavy"),
    [
        ("prompt_coevo.cli", {"starlette", "uvicorn", "aiohttp", "orjson", "faiss", "numba"}),
        (
            "prompt_coevo.retrieval.client.client",
            {"aiohttp", "orjson", "tenacity", "numpy", "starlette"},
        ),
        (
            "prompt_coevo.retrieval.agent.tool",
            {"aiohttp", "orjson", "tenacity", "numpy", "starlette"},
        ),
        ("prompt_coevo.retrieval.server.server", {"uvicorn", "orjson", "starlette", "numpy"}),
    ],
)
def test_importing_loads_nothing_that_may_be_missing(module: str, heavy: set[str]) -> None:
    code = f"import json, sys, {module}; print(json.dumps(sorted(sys.modules)))"
    output = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    ).stdout
    assert not heavy & set(json.loads(output))
