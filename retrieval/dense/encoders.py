"""Text encoders: any checkpoint that transformers loads, with the recipe of its kind.

They run on the GPU if torch sees one; `CUDA_VISIBLE_DEVICES=""` prevents that.
"""

from __future__ import annotations

import copy
import hashlib
import threading
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias
from weakref import WeakValueDictionary

import numpy as np
import numpy.typing as npt

from prompt_coevo.extras import require
from prompt_coevo.machine import computes_bfloat16
from prompt_coevo.retrieval.dense.encoder_recipes import EncoderError, EncoderSource, resolve

if TYPE_CHECKING:
    import torch
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Vectors: TypeAlias = npt.NDArray[np.float32]

# Larger batches do not make a CPU faster; a long text counts by its tokens.
_TEXTS_PER_BATCH, _TOKENS_PER_BATCH = 64, 8192
_GPU_FACTOR = 8

_loaded: WeakValueDictionary[EncoderSource, Encoder] = WeakValueDictionary()
_loading = threading.Lock()


class UnfiniteError(EncoderError):
    """A text's vector is not finite; `text` is its position among the encoded texts."""

    def __init__(self, encoder: str, text: int, what: str | None = None) -> None:
        self.encoder, self.text = encoder, text
        super().__init__(
            f"the encoder {encoder} gave numbers that are not finite for {what or f'text {text}'}; its "
            "weights are damaged or need more exact numbers than this machine uses"
        )


class Encoder:
    """Encodes queries and passages as float32 vectors; `load` makes one.

    The same texts in the same order give the same bytes on the same machine. A text's vector can depend in
    its last bits on the texts next to it, but within one call, texts that the model reads as equal have
    equal vectors. Safe to use from several threads.
    """

    def __init__(
        self,
        source: EncoderSource,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        sha256: str,
    ) -> None:
        self.source = source
        self.sha256 = sha256
        self.dimension = int(model.config.hidden_size)
        self._model = model
        self._tokenizer = tokenizer
        self._longest = int(getattr(model.config, "max_position_embeddings", None) or 512)
        self._lock = threading.Lock()
        self._last: tuple[tuple[str, ...], Vectors] = (
            (),
            np.empty((0, self.dimension), np.float32),
        )

    @property
    def numbers(self) -> str:
        """Return device and precision, such as "cpu bfloat16"."""
        return f"{self._model.device.type} {str(self._model.dtype).removeprefix('torch.')}"

    def encode_queries(self, texts: Sequence[str]) -> Vectors:
        """Return one row per query. Cached, because the shards of an index ask for the same queries in
        turn."""
        recipe, wanted = self.source.recipe, tuple(texts)
        last, vectors = self._last
        if last != wanted:
            vectors = self._encode(wanted, recipe.query_prefix, recipe.query_tokens)
            self._last = wanted, vectors
        return vectors.copy()

    def encode_passages(self, texts: Sequence[str]) -> Vectors:
        """Return one row per passage."""
        recipe = self.source.recipe
        return self._encode(texts, recipe.passage_prefix, recipe.passage_tokens)

    def on(self, device: str) -> Encoder:
        """Return a copy of this encoder on another device, in torch's notation. Raises EncoderError."""
        try:
            model = copy.deepcopy(self._model).to(device)
        except (AssertionError, RuntimeError) as error:  # no such device, or too little memory
            reason = str(error).strip().splitlines() or [type(error).__name__]
            raise EncoderError(
                f"the encoder {self.source.name} cannot be put on the device {device!r}: {reason[0]}; "
                "choose other GPUs by CUDA_VISIBLE_DEVICES"
            ) from None
        return Encoder(self.source, model, copy.deepcopy(self._tokenizer), self.sha256)

    def _encode(self, texts: Sequence[str], prefix: str, limit: int) -> Vectors:
        if not texts:
            return np.empty((0, self.dimension), np.float32)
        every = self._tokenize([prefix + text for text in texts], min(limit, self._longest))
        place = {tokens: number for number, tokens in enumerate(dict.fromkeys(every))}
        distinct = list(place)
        vectors = np.empty((len(distinct), self.dimension), np.float32)
        scale = 1 if self._model.device.type == "cpu" else _GPU_FACTOR
        for batch in by_length([len(tokens) for tokens in distinct], scale):
            vectors[batch] = self._forward([distinct[number] for number in batch])
        wanted: Vectors = vectors[[place[tokens] for tokens in every]]
        wrong = ~np.isfinite(wanted).all(axis=1)
        if wrong.any():
            raise UnfiniteError(self.source.name, int(wrong.argmax()))
        return wanted

    def _tokenize(self, texts: list[str], limit: int) -> list[tuple[int, ...]]:
        with self._lock:  # a fast tokenizer keeps the limit as state
            ids: list[list[int]] = self._tokenizer(
                texts,
                truncation=True,
                max_length=limit,
                return_attention_mask=False,
                return_token_type_ids=False,
            )["input_ids"]
        return [tuple(tokens) for tokens in ids]

    def _forward(self, ids: Sequence[Sequence[int]]) -> Vectors:
        import torch

        longest = max(1, *map(len, ids))
        padding = self._tokenizer.pad_token_id or 0
        padded = [[*tokens, *[padding] * (longest - len(tokens))] for tokens in ids]
        mask = torch.tensor([[1] * len(tokens) + [0] * (longest - len(tokens)) for tokens in ids])
        device = self._model.device
        with torch.inference_mode():
            states = self._model(
                input_ids=torch.tensor(padded).to(device), attention_mask=mask.to(device)
            ).last_hidden_state.float()
            vectors = pooled(states, mask.to(device), self.source.recipe.pooling)
            if self.source.recipe.normalize:
                vectors = torch.nn.functional.normalize(vectors, dim=-1)
        found: Vectors = vectors.cpu().numpy()
        return found


def by_length(lengths: Sequence[int], scale: int = 1) -> Iterator[list[int]]:
    """Yield batches of indices, shortest texts first, to keep padding small."""
    batch: list[int] = []
    for number in sorted(range(len(lengths)), key=lengths.__getitem__):
        tokens = lengths[number] * (len(batch) + 1)
        if batch and (len(batch) >= scale * _TEXTS_PER_BATCH or tokens > scale * _TOKENS_PER_BATCH):
            yield batch
            batch = []
        batch.append(number)
    if batch:
        yield batch


def pooled(states: torch.Tensor, mask: torch.Tensor, pooling: str) -> torch.Tensor:
    """Pool [texts, tokens, dimension] with the mask [texts, tokens] into [texts, dimension]."""
    if pooling == "cls":
        return states[:, 0]
    weights = mask.unsqueeze(-1).to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1).clamp(min=1)


def load(name: str | EncoderSource) -> Encoder:
    """Return the encoder of this name (see `encoder_recipes.resolve`), loaded only once while it is in use.

    Raises EncoderError if it cannot be loaded, MissingExtraError without torch or transformers.
    """
    source = resolve(name) if isinstance(name, str) else name
    purpose = f"the encoder {source.name!r}"
    require("torch", "transformers", extra="encoder", purpose=purpose)
    with _loading:
        encoder = _loaded.get(source)
        if encoder is None:
            encoder = _loaded[source] = _load(source)
    return encoder


def on_gpus(encoder: Encoder) -> list[Encoder]:
    """Return one encoder per GPU that torch sees; without a second GPU, this one. Raises EncoderError."""
    import torch

    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return [encoder] if count < 2 else [encoder.on(f"cuda:{number}") for number in range(count)]


def dimension_of(name: str) -> int:
    """Return the length of an encoder's vectors without loading its weights.

    Raises EncoderError if its configuration cannot be read, MissingExtraError without transformers.
    """
    source = resolve(name)
    with _loading:
        encoder = _loaded.get(source)
    if encoder is not None:
        return encoder.dimension
    require("transformers", extra="encoder", purpose=f"the encoder {source.name!r}")
    from transformers import AutoConfig

    try:
        return int(AutoConfig.from_pretrained(source.location).hidden_size)
    except Exception as error:  # as in _load
        raise _not_loaded(source, error) from error


def _load(source: EncoderSource) -> Encoder:
    import torch
    from transformers import AutoModel, AutoTokenizer
    from transformers.utils import logging

    logging.disable_progress_bar()
    try:
        tokenizer = AutoTokenizer.from_pretrained(source.location)
        with torch.random.fork_rng(devices=[]):  # weights that a checkpoint lacks are drawn
            model, report = AutoModel.from_pretrained(
                source.location, dtype="auto", output_loading_info=True
            )
    except Exception as error:  # anything that a damaged file or an unreachable hub may cause
        raise _not_loaded(source, error) from error
    missing = set(report["missing_keys"])
    if lost := sorted(name for name in missing if not name.startswith("pooler.")):
        raise EncoderError(
            f"the checkpoint {source.location} lacks {len(lost)} weights of its model, {lost[0]} for "
            "one; it is no text encoder or damaged"
        )
    sha256 = _identity(model, tokenizer, missing)
    device, numbers = _placement()
    return Encoder(source, model.to(device=device, dtype=numbers).eval(), tokenizer, sha256)


def _not_loaded(source: EncoderSource, error: Exception) -> EncoderError:
    reason = str(error).strip().splitlines() or [type(error).__name__]
    return EncoderError(
        f"the encoder {source.name} cannot be loaded from {source.location}: {reason[0]}; give the "
        "folder of a checkpoint, as e5:FOLDER, or load it once where the hub can be reached"
    )


def _identity(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, missing: set[str]) -> str:
    """Hash weights and vocabulary, whatever the names of the folder and the weights."""
    import torch

    digests = []
    for name, weight in model.state_dict().items():
        if name not in missing:
            content = weight.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()
            digests.append(hashlib.sha256(content.data).digest())
    words = sorted(tokenizer.get_vocab().items())
    return hashlib.sha256(b"".join(sorted(digests)) + repr(words).encode()).hexdigest()


def _placement() -> tuple[str, torch.dtype]:
    import torch

    if torch.cuda.is_available():
        return "cuda", torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
    return "cpu", torch.bfloat16 if computes_bfloat16() else torch.float32
