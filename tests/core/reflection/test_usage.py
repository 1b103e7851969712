"""Check costs that a backend reports and that are not numbers."""

from __future__ import annotations

import json
import logging
import math
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from helpers.families import Families, knowing, run
from prompt_coevo import Coevolution, Settings
from prompt_coevo.engine.state import plugin_states
from prompt_coevo.proposals import Reply, Usage
from prompt_coevo.reflection.spending import plausible

BAD = [math.nan, math.inf, -math.inf, -1, None, "many", [1, 2], 10**400, 1e300]


@pytest.mark.parametrize("number", BAD)
def test_what_is_no_plausible_number_counts_as_nothing(number: Any) -> None:
    assert plausible(Usage(number, 2, 0.5)) == Usage(0, 2, 0.5)
    assert plausible(Usage(3, number, 0.5)) == Usage(3, 0, 0.5)
    assert plausible(Usage(3, 2, number)) == Usage(3, 2, 0.0)


@pytest.mark.parametrize("number", [7, 7.0, np.int64(7), np.float32(7), Decimal(7), "7"])
def test_numbers_of_other_types_are_plain_ones_then(number: Any) -> None:
    found = plausible(Usage(number, number, number))
    assert found == Usage(7, 7, 7.0)
    assert [type(one) for one in (found.prompt_tokens, found.usd)] == [int, float]


@pytest.mark.parametrize("usage", [None, 3, {"usd": 1.0}])
def test_what_is_no_usage_counts_as_nothing(usage: object) -> None:
    assert plausible(usage) == Usage()


@pytest.mark.parametrize("number", BAD)
def test_a_state_is_whole_whatever_a_backend_says_of_its_cost(
    number: Any, offer: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Strange:
        def complete(self, prompts: Sequence[str]) -> list[Reply]:
            usage = Usage(number, number, number)
            return [Reply(knowing(prompt), "stop", None, usage) for prompt in prompts]

    offer("models", "strange", lambda reflection, initial: Strange())

    def engine() -> Coevolution:
        settings = Settings(stream={"reply_steps": 3}, reflection={"backend": "strange"})
        return Coevolution.from_settings(settings, output_dir=tmp_path)

    first, policy = engine(), Families()
    with caplog.at_level(logging.WARNING, "prompt_coevo"):
        run(first, policy, 1)
    # With its number: the previous engine's calls may still be in flight.
    told = f"the reflection model reports that a call cost {Usage(number, number, number)!r}"
    assert sum(told in message for message in caplog.messages) == 1
    state = json.loads(json.dumps(first.state_dict(), allow_nan=False))
    calls = plugin_states(state)["stream"]["reflection"]["under_way"]
    assert calls
    again = engine()
    again.load_state_dict(state)
    again.begin(policy)
    assert again.metrics()["coevo/templates_on_trial"] + again.metrics()["coevo/templates_in_use"]
    assert again.metrics()["coevo/reflection_usd"] == 0
