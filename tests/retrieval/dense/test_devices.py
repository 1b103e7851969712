"""Check embedding on several devices, here two workers on the CPU, which run the same code."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.passages import passages, write_corpus
from helpers.tiny_encoder import save_tiny_encoder
from prompt_coevo.retrieval.corpus import Corpus, write_offsets
from prompt_coevo.retrieval.dense import embeddings, encoders
from prompt_coevo.retrieval.dense.encoder_recipes import EncoderError
from prompt_coevo.retrieval.dense.encoders import UnfiniteError, on_devices
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
    made = on_devices(encoder, ["cpu", "cpu"])
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
    made = on_devices(encoder, ["cpu", "cpu"])
    first = watched(made)
    with pytest.raises(Stopped):
        embeddings.Embeddings(corpus, range(COUNT), made[0], folder).compute(stop, made)
    assert not list(folder.glob("*.tmp"))
    kept = len(list(folder.glob("*.npy")))
    assert kept * CHUNK == sum(map(sum, first))
    others = on_devices(encoder, ["cpu", "cpu", "cpu"])
    given = watched(others)
    whole = embeddings.Embeddings(corpus, range(COUNT), others[0], folder)
    whole.compute(lambda done, total: None, others)
    assert sum(map(sum, given)) == COUNT - kept * CHUNK
    assert sum(map(len, whole.blocks())) == COUNT


def test_a_device_that_fails_ends_the_build_with_its_sentence(
    encoder: Any, corpus: Corpus, tmp_path: Path
) -> None:
    made = on_devices(encoder, ["cpu", "cpu"])

    def fail(texts: Any) -> Any:
        raise UnfiniteError("e5", 3)

    made[1].encode_passages = fail  # type: ignore[method-assign]
    whole = embeddings.Embeddings(corpus, range(COUNT), made[0], tmp_path / "work")
    with pytest.raises(EncoderError, match=r"corpus\.jsonl, line \d+; its weights"):
        whole.compute(lambda done, total: None, made)


def test_an_index_is_built_on_two_devices(encoder: Any, corpus: Corpus, tmp_path: Path) -> None:
    name = encoder.source.name
    one = build_dense(corpus, tmp_path / "one", encoder=name)
    assert build_dense(corpus, tmp_path / "two", encoder=name, devices=["cpu", "cpu"]) == one
    same = [np.load(tmp_path / folder / "vectors.npy") for folder in ("one", "two")]
    assert (same[0] == same[1]).all()


def test_a_device_that_is_not_there_is_one_sentence(encoder: Any) -> None:
    for devices in (["cuda:99"], ["cpu", "cuda:99"], ["toaster", "cpu"]):
        with pytest.raises(EncoderError, match=r"cannot be put on the device '(cuda:99|toaster)':"):
            on_devices(encoder, devices)
    assert on_devices(encoder) == on_devices(encoder, [encoder.device]) == [encoder]


@pytest.mark.skipif("__import__('torch').cuda.is_available()", reason="there is a GPU")
def test_without_a_gpu_the_first_one_is_not_there_either(encoder: Any) -> None:
    with pytest.raises(EncoderError, match="cannot be put on the device 'cuda:0'"):
        on_devices(encoder, ["cuda:0"])
