"""Check that the transformer tier's arms have valid settings and that an engine can be built for each."""

from __future__ import annotations

from typing import Any

import pytest
from arms import ARMS

from prompt_coevo import Coevolution
from prompt_coevo.demo.arms import FIRST_INSTRUCTION
from prompt_coevo.demo.job import first_instruction, settings_of
from prompt_coevo.demo.world import World

WORLD = World(0)
EVOLVING = [
    name
    for name, one in ARMS.items()
    if (one.spec.values or {}).get("algorithms", True) and one.plugin is None and one.spec.coevolves
]


@pytest.fixture(params=EVOLVING)
def settings(request: Any) -> Any:
    return settings_of(ARMS[request.param].spec, WORLD, 3)


def test_an_arms_settings_are_what_it_says_and_its_engine_can_be_built(settings: Any) -> None:
    assert settings.seed == 3
    if "p2o" in settings.algorithms:
        assert settings.p2o.tau == 0.01
    if "inspo" in settings.algorithms:
        assert settings.inspo.instruction == first_instruction(WORLD)
        assert settings.inspo.verify_size == 64
    assert FIRST_INSTRUCTION not in settings.model_dump_json(exclude={"reflection"})
    assert Coevolution.from_settings(settings).metrics()
