"""The initial policy as its own reflection model (P2O's self-reference)."""

from __future__ import annotations

import hashlib
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

from prompt_coevo.errors import SettingsError
from prompt_coevo.extras import require
from prompt_coevo.proposals import Reply, Usage
from prompt_coevo.settings.reflection import ReflectionSettings


class LocalModel:
    """A transformers checkpoint, loaded at its first use. It answers all prompts as one batch, and stops
    after `total_timeout_s`.

    `path` is a folder or a hub name: the checkpoint that training starts from. The *initial* policy
    reflects, as in the paper; with the current one the authors saw the templates lose diversity.
    Raise MissingExtraError without transformers.
    """

    batched = True

    def __init__(self, path: str, settings: ReflectionSettings) -> None:
        if not path:
            raise SettingsError(
                'reflection.model = "self" needs the checkpoint that training starts from, but the '
                "model was not loaded from one; give reflection.model a model name instead"
            )
        require("torch", "transformers", extra="trl", purpose='reflection.model = "self"')
        self._path = path
        self._settings = settings
        self._loaded: tuple[Any, Any] | None = None
        self._asked: Counter[bytes] = Counter()
        # Several threads may call, but loading, seeding and generating are not thread-safe.
        self._lock = threading.Lock()

    def most(self, prompt: str) -> Usage:
        """Return the highest cost of a call: a token has at least a byte, and the chat format adds some."""
        return Usage(len(prompt.encode("utf-8", "replace")) + 64, self._settings.longest_reply)

    def complete(self, prompts: Sequence[str]) -> list[Reply]:
        """Return one reply per prompt; if the model cannot be loaded or run, each is an error."""
        try:
            with self._lock:
                return self._generate(list(prompts))
        except Exception as error:
            return [Reply(None, error=f"{type(error).__name__}: {error}") for _ in prompts]

    def _generate(self, prompts: list[str]) -> list[Reply]:
        import torch

        model, tokenizer = self._load()
        texts = [
            tokenizer.apply_chat_template(
                [{"role": "user", "content": prompt}], tokenize=False, add_generation_prompt=True
            )
            if tokenizer.chat_template
            else prompt
            for prompt in prompts
        ]
        batch = tokenizer(
            texts, return_tensors="pt", padding=True, add_special_tokens=not tokenizer.chat_template
        ).to(model.device)
        batch.pop("token_type_ids", None)
        temperature = self._settings.temperature
        warmth: dict[str, float | None] = {}  # None leaves it to the model's own generation_config
        if temperature is not None:
            warmth = {"do_sample": temperature > 0, "temperature": temperature or None}
        devices = [model.device] if model.device.type == "cuda" else []
        with torch.random.fork_rng(devices=devices), torch.no_grad():
            torch.manual_seed(self._seed(texts))
            output = model.generate(
                **batch,
                max_new_tokens=self._settings.longest_reply,
                max_time=self._settings.total_timeout_s,
                **warmth,
                pad_token_id=tokenizer.pad_token_id,
            )
        width = batch["input_ids"].shape[1]
        return [
            self._read(model, tokenizer, prompt_mask.sum().item(), row[width:].tolist())
            for prompt_mask, row in zip(batch["attention_mask"], output, strict=True)
        ]

    def _seed(self, texts: list[str]) -> int:
        """Return a seed from the prompts and their number of calls: reproducible, but new for each call."""
        digest = hashlib.sha256("\0".join(texts).encode()).digest()
        self._asked[digest] += 1
        return int.from_bytes(digest[:7], "big") + self._asked[digest]

    def _read(self, model: Any, tokenizer: Any, prompt_tokens: int, tokens: list[int]) -> Reply:
        ends = model.generation_config.eos_token_id
        ends = set(ends) if isinstance(ends, list) else {ends, tokenizer.eos_token_id}
        end = next((index for index, token in enumerate(tokens) if token in ends), None)
        completion = tokens[:end]
        usage = Usage(int(prompt_tokens), len(completion))
        if end is None and len(completion) < self._settings.longest_reply:
            seconds = self._settings.total_timeout_s
            told = f"Timeout: no complete answer within {seconds:.3g} s"
            return Reply(None, error=told, usage=usage)
        return Reply(
            tokenizer.decode(completion, skip_special_tokens=True),
            finish_reason="length" if end is None else "stop",
            usage=usage,
        )

    def _load(self) -> tuple[Any, Any]:
        if self._loaded is None:
            import torch
            from transformers import AutoModelForCausalLM, AutoTokenizer

            tokenizer = AutoTokenizer.from_pretrained(self._path, padding_side="left")
            if tokenizer.pad_token_id is None:
                tokenizer.pad_token = tokenizer.eos_token
            device = "cuda" if torch.cuda.is_available() else "cpu"
            model = AutoModelForCausalLM.from_pretrained(self._path, dtype="auto").to(device).eval()
            self._loaded = model, tokenizer
        return self._loaded
