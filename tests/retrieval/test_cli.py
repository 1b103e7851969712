"""Check `prompt-coevo retrieval` as users call it."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.passages import queries, write_corpus
from prompt_coevo.retrieval.index.build import build

COMMAND = [sys.executable, "-P", "-c", "from prompt_coevo.cli import main; main()", "retrieval"]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [*COMMAND, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cli")
    corpus = write_corpus(folder / "corpus.jsonl", 200)
    made = run("build", corpus, "--out", folder / "index", "--shards", "2")
    assert made.returncode == 0, made.stderr
    assert made.stdout.startswith(f"{folder / 'index'}: bm25, 200 passages, ")
    assert made.stderr == "", "no progress bars outside of a terminal"
    return folder


def test_passages_are_found_and_shown(built: Path) -> None:
    query, right = queries(1, 200)[0]
    shown = run("search", built / "index", query, "qwertz", "-k", "2")
    assert shown.returncode == 0
    first, _, rest = shown.stdout.partition("\n\n")
    assert first == query
    assert rest.startswith('  1. "')
    assert f"[{right}, " in rest
    assert "qwertz\n\n  nothing" in rest or "qwertz\n  nothing" in rest


def test_hits_can_be_had_as_json(built: Path) -> None:
    (query, right), (other, _) = queries(2, 200)
    shown = run("search", built / "index", query, other, "--json")
    first, second = map(json.loads, shown.stdout.splitlines())
    assert first["query"] == query
    assert [hit["rank"] for hit in first["hits"]] == [1, 2, 3]
    assert set(first["hits"][0]) == {"id", "contents", "score", "rank", "fields"}
    assert first["hits"][0]["id"] == right
    assert second["query"] == other


def test_what_json_does_not_know_is_null(tmp_path: Path) -> None:
    rows = ['{"id": "a", "contents": "a river", "x": NaN, "y": [-Infinity, 1]}']
    rows += [f'{{"id": "b", "contents": "a river too", "x": {"[" * 600}{"]" * 600}}}']
    (tmp_path / "corpus.jsonl").write_text("\n".join(rows))
    build(tmp_path / "corpus.jsonl", tmp_path / "index")
    shown = run("search", tmp_path / "index", "river", "--json")
    assert (shown.returncode, shown.stderr) == (0, "")

    def refuse(name: str) -> None:
        raise AssertionError(f"{name} is no JSON")

    (first, second) = json.loads(shown.stdout, parse_constant=refuse)["hits"]
    assert (first["id"], first["fields"]) == ("a", {"x": None, "y": [None, 1]})
    assert (second["id"], set(second["fields"])) == ("b", {"x"})


def test_an_index_is_described(built: Path) -> None:
    told = json.loads(run("info", built / "index").stdout)
    assert told["kind"] == "bm25"
    assert told["passages"] == 200
    assert told["details"]["shards"] == 2
    assert told["details"]["corpus"] == str(built / "corpus.jsonl")


def test_a_damaged_index_is_found_with_exit_status_1(built: Path, tmp_path: Path) -> None:
    assert run("verify", built / "index").stdout.endswith("are as they were built\n")
    corpus = write_corpus(tmp_path / "corpus.jsonl", 10)
    assert run("build", corpus, "--out", tmp_path / "index").returncode == 0
    damaged = tmp_path / "index" / "shard-000" / "bm25" / "scores.npy"
    damaged.write_bytes(damaged.read_bytes()[:-2])
    found = run("verify", tmp_path / "index")
    assert found.returncode == 1
    assert found.stderr.startswith(f"error: the index file {damaged} is truncated: ")
    assert "Traceback" not in found.stderr


def test_an_index_is_replaced_with_force_alone(built: Path, tmp_path: Path) -> None:
    corpus = write_corpus(tmp_path / "corpus.jsonl", 10)
    for expected, options in ((0, []), (2, []), (0, ["--force"])):
        made = run("build", corpus, "--out", tmp_path / "index", *options)
        assert made.returncode == expected
        assert (expected == 0) == (made.stderr == "")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ["build", "nope.jsonl", "--out", "{tmp}/x"],
            "error: the corpus nope.jsonl cannot be read",
        ),
        (["build", "{tmp}/bad.jsonl", "--out", "{tmp}/x"], "bad.jsonl, line 1 is not JSON"),
        (["build", "{corpus}", "--out", "{tmp}/x", "--kind", "n"], "error: there is no index of"),
        (["search", "{tmp}", "query"], "holds no complete index"),
        (["search", "{index}", " "], "error: query 0 is empty"),
        (["search", "{index}", "query", "-k", "0"], "error: k must be a number from 1 to 100"),
        (["search", "{index}", "q", "--corpus", "{tmp}/bad.jsonl"], "belongs to another corpus"),
        (["info", "{tmp}/nope"], "error: there is no index"),
    ],
)
def test_a_known_error_is_one_sentence(
    built: Path, tmp_path: Path, arguments: list[str], message: str
) -> None:
    (tmp_path / "bad.jsonl").write_text("{\n")
    places = {"tmp": tmp_path, "corpus": built / "corpus.jsonl", "index": built / "index"}
    found = run(*(argument.format(**places) for argument in arguments))
    assert found.returncode == 2
    assert message in found.stderr
    assert found.stderr.startswith("error: ")
    assert found.stderr.count("\n") == 1


def test_what_a_corpus_and_a_query_hold_does_not_act_on_a_terminal(tmp_path: Path) -> None:
    passage = {"id": "a", "contents": '"river"\nA river \x1b]0;owned\x07\x9b2J flows.'}
    (tmp_path / "corpus.jsonl").write_text(json.dumps(passage) + "\n")
    assert run("build", tmp_path / "corpus.jsonl", "--out", tmp_path / "index").returncode == 0
    shown = run("search", tmp_path / "index", "river\x9b2J")
    assert "A river ⟨U+001B⟩]0;owned⟨U+0007⟩⟨U+009B⟩2J flows." in shown.stdout
    told = run("search", tmp_path / "index", "river\x9b2J", "--json")
    assert json.loads(told.stdout)["hits"][0]["contents"] == passage["contents"]
    assert not {"\x1b", "\x9b"} & {*shown.stdout, *told.stdout}


def test_progress_is_shown_on_a_terminal(built: Path, tmp_path: Path) -> None:
    ours, theirs = pty.openpty()
    command = [*COMMAND, "build", str(built / "corpus.jsonl"), "--out", str(tmp_path / "index")]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    with subprocess.Popen(
        command, stderr=theirs, stdout=subprocess.DEVNULL, env=environment
    ) as process:
        os.close(theirs)
        shown = read_to_its_end(ours).decode()
    os.close(ours)
    assert process.returncode == 0
    for stage in ("checking the corpus", "building bm25", "hashing the index"):
        assert stage in shown


def read_to_its_end(terminal: int) -> bytes:
    """Read the terminal to its end: slow builds redraw often, and an unread terminal soon fills up."""
    parts = []
    with contextlib.suppress(OSError):  # how a terminal tells that its other end is closed
        while part := os.read(terminal, 65536):
            parts.append(part)
    return b"".join(parts)


def test_the_command_line_stays_light() -> None:
    code = "import sys, prompt_coevo.cli; print(*sys.modules)"
    loaded = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    heavy = {"torch", "faiss", "starlette", "uvicorn", "aiohttp", "transformers", "orjson"}
    assert not heavy & set(loaded.stdout.split())
