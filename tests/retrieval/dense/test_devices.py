"""Check embedding on several devices, here two workers on the CPU, which run the same code."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from helpers.passages import passages, write_corpus
from helpers.tiny_encoder import save_tiny_encoder
from prompt_coevo.retrieval.corpus import Corpus, write_offsets
from prompt_coevo.retrieval.dense import embeddings, encoders, index
from prompt_coevo.retrieval.dense.encoder_recipes import EncoderError
from prompt_coevo.retrieval.dense.encoders import UnfiniteError, on_gpus
from prompt_coevo.retrieval.dense.index import build_dense

pytestmark = pytest.mark.usefixtures("one_thread_of_torch")

COUNT, CHUNK = 320, 64


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embeddings, "CHUNK_ROWS", CHUNK)


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Any:
    texts = (passage["contents"] for passage in passages(COUNT))
    return encoders.load(f"e5:{save_tiny_encoder(tmp_path_factory.mktemp('encoder'), texts)}")


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    path = write_corpus(tmp_path_factory.mktemp("corpus") / "corpus.jsonl", COUNT)
    write_offsets(path, path.with_suffix(".npy"))
    return Corpus.open(path, path.with_suffix(".npy"))


def copies(encoder: Any, count: int) -> list[Any]:
    return [encoder.on("cpu") for _ in range(count)]


def watched(made: list[Any], meet: threading.Barrier | None = None) -> list[list[int]]:
    """Record how many texts each encoder gets; with `meet`, each first waits until all are at work."""
    given: list[list[int]] = [[] for _ in made]
    for number, one in enumerate(made):

        def encode(texts: Any, own: Any = one.encode_passages, number: int = number) -> Any:
            if meet is not None and not given[number]:
                meet.wait(60)
            given[number].append(len(texts))
            return own(texts)

        one.encode_passages = encode
    return given


def test_two_devices_work_at_once_and_make_the_same_bytes(
    encoder: Any, corpus: Corpus, tmp_path: Path
) -> None:
    one = embeddings.Embeddings(corpus, range(COUNT), encoder, tmp_path / "one")
    one.compute(lambda done, total: None)
    made = copies(encoder, 2)
    given = watched(made, threading.Barrier(2))
    seen: list[tuple[int, int]] = []
    two = embeddings.Embeddings(corpus, range(COUNT), made[0], tmp_path / "two")
    two.compute(lambda done, total: seen.append((done, total)), made)
    assert seen == [(done, COUNT) for done in range(CHUNK, COUNT + 1, CHUNK)]
    assert all(given)
    assert sum(map(sum, given)) == COUNT
    files = [sorted((tmp_path / name).iterdir()) for name in ("one", "two")]
    assert [path.name for path in files[0]] == [path.name for path in files[1]]
    assert all(a.read_bytes() == b.read_bytes() for a, b in zip(*files, strict=True))


class Stopped(Exception):
    pass


def test_a_stopped_embedding_goes_on_with_other_devices(
    encoder: Any, corpus: Corpus, tmp_path: Path
) -> None:
    def stop(done: int, total: int) -> None:
        raise Stopped

    folder = tmp_path / "work"
    made = copies(encoder, 2)
    first = watched(made)
    with pytest.raises(Stopped):
        embeddings.Embeddings(corpus, range(COUNT), made[0], folder).compute(stop, made)
    assert not list(folder.glob("*.tmp"))
    kept = len(list(folder.glob("*.npy")))
    assert kept * CHUNK == sum(map(sum, first))
    others = copies(encoder, 3)
    given = watched(others)
    whole = embeddings.Embeddings(corpus, range(COUNT), others[0], folder)
    whole.compute(lambda done, total: None, others)
    assert sum(map(sum, given)) == COUNT - kept * CHUNK
    assert sum(map(len, whole.blocks())) == COUNT


def test_a_device_that_fails_ends_the_build_with_its_sentence(
    encoder: Any, corpus: Corpus, tmp_path: Path
) -> None:
    made = copies(encoder, 2)

    def fail(texts: Any) -> Any:
        raise UnfiniteError("e5", 3)

    made[1].encode_passages = fail  # type: ignore[method-assign]
    whole = embeddings.Embeddings(corpus, range(COUNT), made[0], tmp_path / "work")
    with pytest.raises(EncoderError, match=r"corpus\.jsonl, line \d+; its weights"):
        whole.compute(lambda done, total: None, made)


def test_an_index_is_built_on_two_devices(
    encoder: Any, corpus: Corpus, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    name = encoder.source.name
    one = build_dense(corpus, tmp_path / "one", encoder=name)
    made = copies(encoder, 2)
    given = watched(made)
    monkeypatch.setattr(index, "on_gpus", lambda _: made)
    assert build_dense(corpus, tmp_path / "two", encoder=name) == one
    assert sum(map(sum, given)) == COUNT
    same = [np.load(tmp_path / folder / "vectors.npy") for folder in ("one", "two")]
    assert (same[0] == same[1]).all()


def test_a_device_that_is_not_there_is_one_sentence(encoder: Any) -> None:
    with pytest.raises(
        EncoderError, match=r"on the device 'cuda:99': .*; choose other GPUs by CUDA_"
    ):
        encoder.on("cuda:99")


@pytest.mark.parametrize(("there", "count", "used"), [(False, 2, 0), (True, 1, 0), (True, 3, 3)])
def test_all_visible_gpus_embed(
    monkeypatch: pytest.MonkeyPatch, there: bool, count: int, used: int
) -> None:
    monkeypatch.setattr("torch.cuda.is_available", lambda: there)
    monkeypatch.setattr("torch.cuda.device_count", lambda: count)
    alone = SimpleNamespace(on=lambda device: device)
    expected = [f"cuda:{number}" for number in range(used)] or [alone]
    assert on_gpus(alone) == expected  # type: ignore[arg-type, comparison-overlap]
