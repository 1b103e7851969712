"""VeRL's search agent, whose client spends no time between two attempts to reach its server."""

from __future__ import annotations

from helpers.waits import waits_take_no_time
from prompt_coevo.adapters.verl.search_agent import SearchAgentLoop

__all__ = ["SearchAgentLoop"]

waits_take_no_time()
