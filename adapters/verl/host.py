"""VeRL's dictionaries by the names that this door has for them. Its classes go by their own names."""

from __future__ import annotations

from typing import Any, TypeAlias

Extras: TypeAlias = dict[str, Any]
"""The extra fields that an agent loop adds to a rollout."""
SamplingParams: TypeAlias = dict[str, Any]
"""What an agent loop gives to the rollout server, under the names of vLLM."""
Metrics: TypeAlias = dict[str, Any]
"""What the trainer logs of a step."""
