"""Provide Chroma's real server, a corpus with odd fields, and a dense index of it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers.chroma_server import ROWS, ChromaProcess, write_rows
from helpers.tiny_encoder import save_tiny_encoder
from prompt_coevo.retrieval.index.build import Request, build


@pytest.fixture(scope="module")
def chroma(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ChromaProcess]:
    pytest.importorskip("chromadb_rust_bindings")
    with ChromaProcess(tmp_path_factory.mktemp("chroma")) as server:
        yield server


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> str:
    pytest.importorskip("torch")
    texts = [row["contents"] for row in ROWS]
    return f"e5:{save_tiny_encoder(tmp_path_factory.mktemp('encoder'), texts)}"


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_rows(tmp_path_factory.mktemp("corpus") / "corpus.jsonl", ROWS)


@pytest.fixture(scope="session")
def index(corpus: Path, encoder: str) -> Path:
    """Return an index whose vectors are kept as they are."""
    build(corpus, corpus.parent / "flat", Request("dense", encoder, "Flat"))
    return corpus.parent / "flat"
