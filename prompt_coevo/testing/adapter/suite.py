"""The laws as pytest tests, or as a plain function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from prompt_coevo.testing.adapter.host import AdapterUnderTest
from prompt_coevo.testing.adapter.laboratory import Laboratory
from prompt_coevo.testing.adapter.law import LAWS, Law

# The laws, imported in reading order, which is also the order of their runs' cost.
# isort: off
from prompt_coevo.testing.adapter import rollouts as rollouts
from prompt_coevo.testing.adapter import training as training
from prompt_coevo.testing.adapter import policy as policy
from prompt_coevo.testing.adapter import evaluation as evaluation
from prompt_coevo.testing.adapter import moments as moments
from prompt_coevo.testing.adapter import refusals as refusals

# isort: on
if TYPE_CHECKING:
    import pytest


def adapter_laws(factory: Callable[[], AdapterUnderTest]) -> Callable[..., None]:
    """Build a test function with one case per law; give it a name that pytest collects.

    The cases share their runs. A law that the trainer cannot keep is skipped, with its reason.
    """
    import pytest

    kept: list[Laboratory] = []

    def test_adapter(law: Law, tmp_path_factory: pytest.TempPathFactory) -> None:
        if not kept:
            kept.append(Laboratory(factory(), tmp_path_factory.mktemp("adapter")))
        if (excuse := law.excuse(kept[0])) is not None:
            pytest.skip(excuse)
        law.check(kept[0])

    cases: Callable[..., None] = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)(
        test_adapter
    )
    return cases


def judge(adapter: AdapterUnderTest, folder: Path) -> dict[str, str]:
    """Return what is wrong, by name of the law. Empty if the adapter keeps every law that applies to it."""
    laboratory = Laboratory(adapter, folder)
    verdicts = {}
    for law in LAWS.values():
        if law.excuse(laboratory) is None:
            try:
                law.check(laboratory)
            except Exception as error:
                verdicts[law.name] = f"{type(error).__name__}: {error}"
    return verdicts
