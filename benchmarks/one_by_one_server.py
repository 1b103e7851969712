"""Serve retrieval one request at a time, for comparison with our server.

    python benchmarks/one_by_one_server.py search_r1|lean INDEX

search_r1   the shape of Search-R1's server, as its README installs it: FastAPI with a `def` endpoint,
            and uvicorn as it comes, with h11, asyncio's own event loop and its access log. A dense
            index is searched as it does on a CPU: the same vectors in a faiss.IndexFlatIP in memory,
            the same checkpoint by transformers in float32, mean pooling, passages in memory
lean        the least that such a server can be on our own stack and index: Starlette and pydantic, a
            thread pool, httptools and uvloop, no log

Both search one request at a time: threads that searched side by side would only compete.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import uvicorn
from pydantic import BaseModel

from prompt_coevo.retrieval.index.open import open_index
from prompt_coevo.retrieval.retriever import Hit


class QueryRequest(BaseModel):
    """Search-R1's request."""

    queries: list[str]
    topk: int | None = None
    return_scores: bool = False


Search = Callable[[QueryRequest], dict[str, Any]]


class SearchR1Dense:
    """Search a dense index in Search-R1's way."""

    def __init__(self, index: Path) -> None:
        import faiss
        from transformers import AutoModel, AutoTokenizer

        made = json.loads((index / "manifest.json").read_text())
        checkpoint = made["dense"][0]["encoder"]["name"].partition(":")[2]
        self.tokenizer = AutoTokenizer.from_pretrained(checkpoint)
        self.model = AutoModel.from_pretrained(checkpoint).float().eval()
        vectors = np.load(index / "shard-000" / "dense" / "vectors.npy")
        self.vectors = faiss.IndexFlatIP(vectors.shape[1])
        self.vectors.add(vectors)
        lines = Path(made["corpus"]["path"]).read_text().splitlines()
        self.passages = [json.loads(line) for line in lines]

    def search(self, queries: Sequence[str], k: int) -> list[list[Hit]]:
        scores, rows = self.vectors.search(self._encode(queries), k)
        return [
            [
                Hit(self.passages[row]["id"], self.passages[row]["contents"], float(score), rank)
                for rank, (row, score) in enumerate(zip(*found, strict=True), 1)
            ]
            for found in zip(rows.tolist(), scores, strict=True)
        ]

    def _encode(self, queries: Sequence[str]) -> Any:
        import torch

        options = {"max_length": 256, "padding": True, "truncation": True, "return_tensors": "pt"}
        inputs = self.tokenizer(list(queries), **options)
        with torch.no_grad():
            states = self.model(**inputs).last_hidden_state
        mask = inputs["attention_mask"][..., None]
        means = (states * mask).sum(1) / mask.sum(1)
        return torch.nn.functional.normalize(means, dim=-1).numpy()


def one_by_one(retriever: Any) -> Search:
    retriever.search(["warm up"], 3)
    one_at_a_time = threading.Lock()

    def search(request: QueryRequest) -> dict[str, Any]:
        with one_at_a_time:
            found = retriever.search(request.queries, request.topk or 3)
        return {
            "result": [
                [
                    {"document": {"id": hit.id, "contents": hit.contents}, "score": hit.score}
                    for hit in hits
                ]
                for hits in found
            ]
        }

    return search


def search_r1(search: Search) -> uvicorn.Config:
    from fastapi import FastAPI

    app = FastAPI()

    @app.post("/retrieve")
    def retrieve(request: QueryRequest) -> Any:
        return search(request)

    return uvicorn.Config(app, http="h11", loop="asyncio")


def lean(search: Search) -> uvicorn.Config:
    from starlette.applications import Starlette
    from starlette.concurrency import run_in_threadpool
    from starlette.requests import Request
    from starlette.responses import JSONResponse, Response
    from starlette.routing import Route

    async def retrieve(request: Request) -> Response:
        wanted = QueryRequest.model_validate_json(await request.body())
        return JSONResponse(await run_in_threadpool(search, wanted))

    app = Starlette(routes=[Route("/retrieve", retrieve, methods=["POST"])])
    return uvicorn.Config(
        app, http="httptools", loop="uvloop", log_level="warning", access_log=False
    )


def main(shape: str, index: Path) -> None:
    dense = (index / "shard-000" / "dense").exists()
    if shape == "search_r1":
        retriever = SearchR1Dense(index) if dense else open_index(index)
        config = search_r1(one_by_one(retriever))
    else:
        config = lean(one_by_one(open_index(index)))
    listener = socket.create_server(("127.0.0.1", 0), backlog=2048)
    print(f"serving http://127.0.0.1:{listener.getsockname()[1]}/retrieve", flush=True)
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]))
