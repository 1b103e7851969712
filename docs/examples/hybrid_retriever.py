"""Several retrievers as one, by reciprocal rank fusion (Cormack, Clarke and Büttcher, SIGIR 2009).

A passage's score is the sum of 1 / (60 + rank) over the rankings that have it, so that the retrievers'
own scores need not compare. Two hits are the same passage if id and contents are.

    prompt-coevo retrieval serve --retriever hybrid_retriever:Hybrid \
        --option 'retrievers=[{"name": "index", "options": {"folder": "wiki"}}, {"name": "mine:Mine"}]'
"""

import hashlib
from dataclasses import replace

from prompt_coevo.retrieval.fusion import reciprocal_ranks
from prompt_coevo.retrieval.named import open_retriever
from prompt_coevo.retrieval.outcomes import PartialHits
from prompt_coevo.retrieval.retriever import IndexInfo, check_search, checked_search


class Hybrid:
    def __init__(self, retrievers, depth=100):  # each of them is asked for `depth` passages
        self.depth = depth
        self.retrievers = [open_retriever(one["name"], one.get("options")) for one in retrievers]

    def search(self, queries, k):
        check_search(queries, k)
        depth = max(k, self.depth)
        found = [checked_search(one, queries, depth) for one in self.retrievers]
        return [self.joined(rankings, k) for rankings in zip(*found, strict=True)]

    def joined(self, rankings, k):
        passages = {}
        for hit in (hit for ranking in rankings for hit in ranking):
            passages.setdefault((hit.id, hit.contents), hit)
        scores = reciprocal_ranks([(hit.id, hit.contents) for hit in one] for one in rankings)
        best = sorted(scores, key=lambda key: -scores[key])[:k]  # of equals the first one's
        hits = [replace(passages[key], score=scores[key], rank=n) for n, key in enumerate(best, 1)]
        gaps = [one.reason for one in rankings if isinstance(one, PartialHits)]
        return PartialHits(hits, gaps[0]) if gaps else hits  # so that nobody caches it

    def info(self):
        infos = [one.info() for one in self.retrievers]
        told = repr([self.depth, *(info.fingerprint for info in infos)])
        known = all(info.fingerprint for info in infos)
        return IndexInfo(
            "hybrid",
            max(info.passages for info in infos),
            hashlib.sha256(told.encode()).hexdigest()[:32] if known else "",
            {"retrievers": [info.kind for info in infos]},
        )

    def close(self):
        for one in self.retrievers:
            one.close()
