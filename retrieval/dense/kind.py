"""The index kind "dense": a folder `dense` in each shard."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from prompt_coevo.retrieval.corpus import Corpus
from prompt_coevo.retrieval.errors import IndexFileError
from prompt_coevo.retrieval.kinds import (
    Foreseen,
    IndexKind,
    Job,
    Request,
    refuse_analyzer,
    refuse_options,
)
from prompt_coevo.retrieval.shards import RowSearcher, Shard, together

_NAME = "dense"


class Dense(IndexKind):
    """Search by vectors, on GPUs if there are some."""

    def __init__(self, gpus: str = "auto") -> None:
        self._gpus = gpus

    def on_gpus(self, gpus: str) -> Dense:
        """As IndexKind says."""
        from prompt_coevo.retrieval.dense.gpu import check_gpus

        check_gpus(gpus)
        return Dense(gpus)

    def check(self, request: Request) -> None:
        """As IndexKind says. What is missing should be known before a large corpus is read."""
        from prompt_coevo.retrieval.dense.encoder_recipes import resolve
        from prompt_coevo.retrieval.dense.faiss_package import load_faiss

        refuse_options(request)
        refuse_analyzer(request)
        if request.faiss_file is not None and request.shards > 1:
            raise IndexFileError("a faiss file is adopted as one index; leave shards at 1 with it")
        if request.faiss_file is not None and request.devices:
            raise IndexFileError("devices have no effect with a faiss file: nothing is embedded")
        load_faiss()
        resolve(request.encoder)

    def foresee(self, request: Request, shards: Sequence[range]) -> Foreseen | None:
        """As IndexKind says, without the memory of the encoder."""
        from prompt_coevo.retrieval.dense.estimate import foresee

        rows = [len(shard) for shard in shards]
        return foresee(request.encoder, request.index, request.faiss_file, rows)

    def build(self, job: Job) -> dict[str, Any]:
        """As IndexKind says."""
        return {_NAME: [_build(job, number) for number in range(len(job.shards))]}

    def open(
        self, corpus: Corpus, shards: Sequence[Shard], details: Mapping[str, Any]
    ) -> RowSearcher:
        """As IndexKind says."""
        from prompt_coevo.retrieval.dense.index import DenseIndex

        parts = zip(shards, details[_NAME], strict=True)
        return together(
            [
                DenseIndex.open(
                    shard.folder / _NAME, corpus, dict(part), shard.rows, gpus=self._gpus
                )
                for shard, part in parts
            ]
        )

    def describe(self, details: Mapping[str, Any]) -> dict[str, Any]:
        """As IndexKind says. The shards differ in nothing that matters here."""
        return {_NAME: dict(details[_NAME][0])}


def _build(job: Job, number: int) -> dict[str, Any]:
    from prompt_coevo.retrieval.dense.index import build_dense

    shard, count = job.shards[number], len(job.shards)
    stage = "embedding" if job.request.faiss_file is None else "reading vectors"
    stage += f" shard {number + 1} of {count}" if count > 1 else ""
    return build_dense(
        job.corpus,
        shard.folder / _NAME,
        encoder=job.request.encoder,
        index=job.request.index,
        rows=shard.rows,
        faiss_file=job.request.faiss_file,
        devices=job.request.devices,
        progress=job.stages(stage),
    )


DENSE: Final = Dense()
