"""Which questions are alike by an encoder of texts: `p2o.likeness = "encoder"`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Final

import numpy as np

from prompt_coevo.algorithms.p2o.settings import P2OSettings
from prompt_coevo.algorithms.p2o.stream.likeness import LEAST, Alike, Likeness, nearest
from prompt_coevo.context import Context
from prompt_coevo.placement import question_text
from prompt_coevo.retrieval.dense.encoders import Vectors, load
from prompt_coevo.types import Question

_CACHED: Final = 131_072  # an answer reads all vectors, and has 129 numbers and weights at most


def encoder(context: Context, questions: Iterable[Question]) -> Likeness:
    """By the vectors that `p2o.likeness_encoder` makes of the questions, all at once.

    Raises EncoderError if it cannot be loaded, MissingExtraError without torch or transformers.
    """
    model = load(context.settings.section(P2OSettings).likeness_encoder or "")
    texts = [question_text(question.prompt) for question in questions]
    return Encoded(model.encode_queries(texts))


class Encoded:
    """Cosine of vectors, [questions, dimension], after what all of them have in common is taken away:
    encoders differ in how much that is, and the least likeness that counts does not."""

    def __init__(self, vectors: Vectors) -> None:
        apart = vectors - vectors.mean(axis=0)
        self._vectors = apart / np.maximum(np.linalg.norm(apart, axis=1, keepdims=True), 1e-9)
        self.near: Callable[[int], Alike] = lru_cache(_CACHED)(self._near)

    def _near(self, number: int) -> Alike:
        cosines = self._vectors @ self._vectors[number]
        cosines[number] = 0.0  # itself comes first anyway
        found = np.flatnonzero(cosines >= LEAST).astype(np.int32)
        return nearest(number, found, cosines[found])
