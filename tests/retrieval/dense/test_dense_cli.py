"""Check `prompt-coevo retrieval build --kind dense` as users call it."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from helpers.passages import passages, write_corpus
from helpers.tiny_encoder import save_tiny_encoder
from prompt_coevo.cli.retrieval import app
from prompt_coevo.errors import CoevoError
from prompt_coevo.retrieval.dense import encoders
from prompt_coevo.retrieval.dense.faiss_package import load_faiss
from prompt_coevo.retrieval.index import room
from prompt_coevo.retrieval.index.build import Request, build
from prompt_coevo.retrieval.index.open import describe, open_index, served_index

COUNT = 200


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Any:
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("world")
    texts = [passage["contents"] for passage in passages(COUNT)]
    encoder = f"e5:{save_tiny_encoder(folder / 'encoder', texts)}"
    corpus = write_corpus(folder / "corpus.jsonl", COUNT)
    faiss = load_faiss()
    index = faiss.IndexFlatIP(128)
    index.add(encoders.load(encoder).encode_passages(texts))
    faiss.write_index(index, str(folder / "e5_Flat.index"))
    return SimpleNamespace(corpus=corpus, encoder=encoder, ready=folder / "e5_Flat.index")


def run(world: Any, out: Path, *options: str | Path) -> Any:
    named = ["build", world.corpus, "--out", out, "--kind", "dense", "--encoder", world.encoder]
    found = CliRunner().invoke(app, list(map(str, [*named, *options])))
    if isinstance(found.exception, CoevoError):
        raise found.exception
    return found


def test_a_dry_run_only_says_what_it_would_take(world: Any, tmp_path: Path) -> None:
    told = run(world, tmp_path / "index", "--index", "SQfp16", "--dry-run")
    assert told.exit_code == 0
    assert re.sub(r"\(.* free\)", "(free)", told.stdout) == (
        "200 passages: SQfp16, vectors of 128 numbers\n"
        "  vectors, until the index is done: 102.4 kB\n"
        "  index: 51.2 kB\n"
        "  memory, at most: 201.4 MB (free)\n"
        "  disk, at most: 206.4 kB (free)\n"
    )
    assert not list(tmp_path.iterdir())
    words = CliRunner().invoke(app, ["build", str(world.corpus), "--out", "x", "--dry-run"])
    assert words.stdout == "200 passages; the needs of this build are unknown\n"


def test_a_build_says_it_before_it_begins_and_converts_what_is_there(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    encode, embedded = encoders.Encoder.encode_passages, []

    def counted(self: Any, texts: Any) -> Any:
        embedded.append(len(texts))
        return encode(self, texts)

    monkeypatch.setattr(encoders.Encoder, "encode_passages", counted)
    made = run(world, tmp_path / "index", "--faiss", world.ready, "--index", "HNSW32,SQ8")
    assert made.exit_code == 0, made.output
    lines = made.stdout.splitlines()
    assert lines[0] == "200 passages: HNSW32,SQ8, vectors of 128 numbers"
    assert lines[1] == f"  index {world.ready}, which is read: 102.4 kB"
    assert lines[-1].startswith(f"{tmp_path / 'index'}: dense, 200 passages, ")
    assert describe(tmp_path / "index").details["dense"]["index"] == "HNSW32,SQ8"
    assert embedded == [8], "those that are compared"


def test_a_dry_run_refuses_what_a_build_would_refuse(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    faiss = load_faiss()
    for dimension, count in ((128, COUNT - 1), (64, COUNT)):
        index = faiss.IndexFlatIP(dimension)
        index.add(np.ones((count, dimension), np.float32))
        faiss.write_index(index, str(tmp_path / "other.index"))
        for options in (["--dry-run"], []):
            with pytest.raises(
                CoevoError, match=rf"has {count} vectors of {dimension} numbers, but"
            ):
                run(world, tmp_path / "index", "--faiss", tmp_path / "other.index", *options)
    with pytest.raises(CoevoError, match="faiss knows no index 'nothing'"):
        run(world, tmp_path / "index", "--index", "nothing", "--dry-run")
    for options in (["--dry-run"], []):
        with pytest.raises(CoevoError, match="4096 vectors at least, but there are 200"):
            run(world, tmp_path / "index", "--index", "IVF4096,SQ8", *options)
    monkeypatch.setattr("shutil.disk_usage", lambda place: SimpleNamespace(free=1000))
    with pytest.raises(CoevoError, match=r"takes up to .* on its disk, where 1\.0 kB are free"):
        run(world, tmp_path / "new", "--dry-run")


def test_too_little_memory_is_a_warning(
    world: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(room, "free_memory", lambda: 1000)
    told = run(world, tmp_path / "index", "--index", "SQfp16", "--dry-run")
    assert told.exit_code == 0
    assert told.stderr.startswith("warning: this exceeds the free memory: ")


def test_gpus_are_chosen_when_an_index_is_opened(world: Any, tmp_path: Path) -> None:
    for kind in ("dense", "hybrid"):
        request = Request(kind, encoder=world.encoder, faiss_file=world.ready)
        build(world.corpus, tmp_path / kind, request)
        for gpus in ("auto", "none"):
            opened = open_index(tmp_path / kind, gpus=gpus)
            assert len(opened.search(["who"], 3)[0]) == 3
            opened.close()
        with pytest.raises(CoevoError, match="cannot be searched on all GPUs: faiss sees none"):
            open_index(tmp_path / kind, gpus="all")
        with pytest.raises(CoevoError, match="must be one of auto, all, none, but is 'two'"):
            served_index(tmp_path / kind, gpus="two")
    build(world.corpus, tmp_path / "words")
    with pytest.raises(CoevoError, match="gpus have no effect on an index of words"):
        open_index(tmp_path / "words", gpus="none")
    options = ["serve", "--retriever", "remote", "--option", "url=x", "--gpus", "all"]
    refused = CliRunner().invoke(app, options)
    assert "--gpus is for the folder of an index" in str(refused.exception)
