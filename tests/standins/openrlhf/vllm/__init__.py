"""Replace vLLM: the calls that OpenRLHF 0.11 makes, answered by transformers on the CPU.

The log-probs are those under the temperature, before top-p and top-k, so both are refused together with
`logprobs`. Weights change only between two batches, also after `pause_generation`: a running batch is
finished first, whereas vLLM continues half a response under the new weights.
"""

from .engine import AsyncEngineArgs, AsyncLLMEngine
from .sampling_params import SamplingParams

__version__ = "0.29.0"  # the version that OpenRLHF 0.11.2 requires

__all__ = ["AsyncEngineArgs", "AsyncLLMEngine", "SamplingParams"]
