"""Check that the built-in algorithms keep the laws."""

from __future__ import annotations

from typing import Any, ClassVar

from prompt_coevo.testing.algorithm import AlgorithmLaws

P2O = {
    "overspend": "never",
    "minibatch_size": 2,
    "dev_size": 3,
    "beam_width": 2,
    "search_budget": 40,
}
INSPO = {
    "initial_population": ("Think.", "Answer at once.", "Be brief.", "Guess."),
    "population_size": 4,
    "prune_every": 2,
    "evolve_every": 3,
    "rounds": 2,
    "verify_size": 5,
    "candidates_per_call": 2,
}


def p2o(**changes: Any) -> dict[str, Any]:
    return {"algorithms": "p2o", "p2o": {**P2O, **changes}}


def inspo(**changes: Any) -> dict[str, Any]:
    return {"algorithms": "inspo", "inspo": {**INSPO, **changes}}


class TestP2O(AlgorithmLaws):
    settings = p2o()


class TestP2OEverySecondStep(AlgorithmLaws):
    settings = p2o(
        search_every=2, group_templates="same", front_fill=True, overspend="literal", tau=0.1
    )


class TestStream(AlgorithmLaws):
    plans_follow_observations = True
    settings: ClassVar = {"algorithms": "stream"}


class TestStreamWithLateReplies(AlgorithmLaws):
    plans_follow_observations = True
    settings: ClassVar = {
        "algorithms": "stream",
        "stream": {"reply_steps": 3, "likeness": "none", "first_sight": True},
    }


class TestP2OInWavesUntilSolvedBare(AlgorithmLaws):
    settings = p2o(hardness="bare")


class TestInspo(AlgorithmLaws):
    settings = inspo()


class TestInspoOverlapped(AlgorithmLaws):
    settings = inspo(reflection="overlapped", overlap_steps=2)


class TestInspoWithParaphrases(AlgorithmLaws):
    settings = inspo(initial_population=(), instruction="Think.", proposer="history", parents=2)


class TestInspoWithoutPruning(AlgorithmLaws):
    settings = inspo(
        initial_population=("Think.",),
        paraphrase=False,
        prune=False,
        verify="off",
        child_weight="zero",
    )


class TestInspoBefore(AlgorithmLaws):
    settings = inspo(evolution="before", evolve_until=7)


class TestInspoAfter(AlgorithmLaws):
    settings = inspo(evolution="after", evolve_until=7, validation_instruction="none")


class TestInspoWithoutEvolution(AlgorithmLaws):
    evolves = False
    settings = inspo(evolution="off", prune_unsampled=True)


class TestBoth(AlgorithmLaws):
    settings: ClassVar = {"algorithms": "inspo,p2o", "p2o": P2O, "inspo": INSPO}
