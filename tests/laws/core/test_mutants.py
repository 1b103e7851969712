"""Check that the laws pass the references and catch every known fault."""

from __future__ import annotations

import pytest

from laws.core.mutant import Mutant
from laws.core.references import MUTANTS, REFERENCES, laws_for
from laws.core.run_laws import broken, laws_of

PLANTED = [(kind, mutant) for kind, mutants in MUTANTS.items() for mutant in mutants]


@pytest.mark.parametrize("kind", REFERENCES)
def test_the_reference_keeps_every_law(kind: str) -> None:
    with laws_for(kind, REFERENCES[kind]) as laws:
        assert {law: told for law in laws_of(laws) if (told := broken(laws, law))} == {}


@pytest.mark.parametrize(
    ("kind", "mutant"), PLANTED, ids=[f"{kind}-{mutant.name}" for kind, mutant in PLANTED]
)
def test_a_mutant_is_caught_by_the_law_that_is_named(kind: str, mutant: Mutant) -> None:
    with laws_for(kind, mutant.planted) as laws:
        assert broken(laws, mutant.law), f"nobody notices: {mutant.fault}"
