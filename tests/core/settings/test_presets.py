"""Check the presets' values in full: a changed default must not change a run of a paper."""

from __future__ import annotations

from typing import Any, Final

import pytest

from prompt_coevo.settings import Settings
from prompt_coevo.settings.presets import preset_names, preset_text

P2O: Final[dict[str, Any]] = {
    "beam_width": 16,
    "calls_per_hard": 1.0,
    "dev_size": 300,
    "dev_temperature": 0.0,
    "front_fill": False,
    "group_templates": "diverse",
    "hardness": "literal",
    "max_barren_waves": 8,
    "min_hard": 2,
    "minibatch_size": 3,
    "minibatch_temperature": 0.6,
    "overspend": "never",
    "proposer": "propose_improvement",
    "search_budget": 11_000,
    "search_every": "epoch",
    "solved_at": 1.0,
    "tau": 0.2,
}
DEMO_P2O: Final[dict[str, Any]] = {
    **P2O,
    "beam_width": 4,
    "dev_size": 64,
    "front_fill": True,
    "minibatch_size": 8,
    "minibatch_temperature": 1.0,
    "search_budget": 1_200,
    "tau": 0.01,
}
INSPO: Final[dict[str, Any]] = {
    "candidates_per_call": 6,
    "child_weight": "verified",
    "evolution": "online",
    "evolve_every": 15,
    "evolve_until": 150,
    "failures_per_reflection": 4,
    "initial_population": [],
    "instruction": None,
    "overlap_steps": None,
    "paraphrase": True,
    "parents": 1,
    "population_size": 7,
    "proposer": "reflection",
    "prune": True,
    "prune_every": 5,
    "prune_unsampled": False,
    "reflection": "blocking",
    "rounds": 5,
    "selection_temperature": 0.2,
    "solved_at": 1.0,
    "top_n": 3,
    "validation_instruction": "best",
    "verify": "blocking",
    "verify_size": 200,
    "window": 5,
}
DEMO_INSPO: Final[dict[str, Any]] = {**INSPO, "rounds": 2, "verify_size": 128}
SECTIONS: Final[dict[str, dict[str, dict[str, Any]]]] = {
    "p2o": {"p2o": P2O},
    "inspo": {"inspo": INSPO},
    "both": {"inspo": INSPO, "p2o": P2O},
    "demo-p2o": {"p2o": DEMO_P2O},
    "demo-inspo": {"inspo": DEMO_INSPO},
}


def test_every_preset_is_written_out_here() -> None:
    assert sorted(SECTIONS) == preset_names()


@pytest.mark.parametrize("name", SECTIONS)
def test_a_preset_means_what_it_meant(name: str) -> None:
    found = Settings(preset=name).resolved()
    assert found["algorithms"] == list(SECTIONS[name])
    assert {method: found[method] for method in SECTIONS[name]} == SECTIONS[name]


@pytest.mark.parametrize("name", SECTIONS)
def test_outside_the_methods_a_preset_sets_little(name: str) -> None:
    usual = Settings().resolved()
    found = Settings(preset=name).resolved()
    others = found.keys() - SECTIONS[name].keys() - {"preset", "algorithms"}
    changed = {one: found[one] for one in others if found[one] != usual[one]}
    demo = {"ground_truth_column": "answer"} if name.startswith("demo-") else {}
    assert changed == demo
    assert found["context_distillation"] is True


@pytest.mark.parametrize("name", preset_names())
def test_presets_load_and_say_what_they_are(name: str) -> None:
    assert Settings(preset=name).preset == name
    assert preset_text(name).startswith("# ")
