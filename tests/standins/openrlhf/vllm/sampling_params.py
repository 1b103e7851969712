"""Replace `vllm.sampling_params`. An unknown parameter is an error, as in vLLM."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(kw_only=True)
class SamplingParams:
    """The parameters that the engine honours."""

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int = 0
    max_tokens: int | None = 16
    min_tokens: int = 0
    skip_special_tokens: bool = True
    logprobs: int | None = None
    stop: list[str] | None = None
    include_stop_str_in_output: bool = False
    extra_args: dict[str, Any] | None = None
    """Not used for sampling: they reappear in the log of generations."""

    def __post_init__(self) -> None:
        if self.logprobs is not None and (self.top_p < 1 or self.top_k > 0):
            raise NotImplementedError("log-probs together with top_p or top_k")
