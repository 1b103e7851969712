"""A Qdrant collection as a retriever. The payload of a point is a row: "id", "contents" and whatever else.

    prompt-coevo retrieval serve --retriever qdrant_retriever:Qdrant \
        --option collection=wiki --option url=http://127.0.0.1:6333 --option encoder=e5
"""

import hashlib

from qdrant_client import QdrantClient, models
from qdrant_client.http.exceptions import ApiException

from prompt_coevo.retrieval.dense.encoders import load
from prompt_coevo.retrieval.errors import RetrieverUnavailable
from prompt_coevo.retrieval.retriever import IndexInfo, check_search, ranked


class Qdrant:
    def __init__(self, collection, encoder="e5", **where):  # url=... or path=..., as QdrantClient
        self.collection, self.encoder = collection, load(encoder)
        self.client = QdrantClient(**where)

    def search(self, queries, k):
        check_search(queries, k)
        vectors = self.encoder.encode_queries(queries).tolist()
        wanted = [models.QueryRequest(query=one, limit=k, with_payload=True) for one in vectors]
        try:
            found = self.client.query_batch_points(self.collection, wanted)
        except ApiException as error:
            raise RetrieverUnavailable(f"Qdrant: {error}") from error
        return [ranked((point.payload, point.score) for point in one.points) for one in found]

    def info(self):
        count = self.client.count(self.collection).count
        told = f"{self.collection} {count} {self.encoder.sha256}"  # a version of your data belongs here
        return IndexInfo("qdrant", count, hashlib.sha256(told.encode()).hexdigest())

    def close(self):
        self.client.close()
