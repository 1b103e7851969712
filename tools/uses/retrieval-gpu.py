"""A faiss index searched on the CPU by the package for GPUs; no GPU was there."""

import faiss
import numpy as np

from prompt_coevo.retrieval.dense.faiss_package import load_faiss

assert load_faiss() is faiss
index = faiss.index_factory(8, "Flat", faiss.METRIC_INNER_PRODUCT)
vectors = np.eye(8, dtype=np.float32)
index.add(vectors)
assert index.search(vectors, 1)[1].ravel().tolist() == list(range(8))
print(f"8 vectors searched; faiss {faiss.__version__} sees {faiss.get_num_gpus()} GPUs")
