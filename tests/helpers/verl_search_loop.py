"""VeRL's search agent, with a client that does not wait between retries."""

from __future__ import annotations

from helpers.waits import waits_take_no_time
from prompt_coevo.adapters.verl.search_agent import SearchAgentLoop

__all__ = ["SearchAgentLoop"]

waits_take_no_time()
