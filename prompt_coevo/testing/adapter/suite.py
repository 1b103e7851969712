"""The laws as tests for pytest, or as a plain function."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from prompt_coevo.testing.adapter.host import AdapterUnderTest
from prompt_coevo.testing.adapter.laboratory import Laboratory
from prompt_coevo.testing.adapter.laws import LAWS, Law


def adapter_laws(factory: Callable[[], AdapterUnderTest]) -> Callable[..., None]:
    """A test function with one case per law; give it a name that pytest collects.

    The runs are shared by the cases. A law that the host cannot keep is skipped, with its reason.
    """
    import pytest

    kept: list[Laboratory] = []

    def test_adapter(law: Law, tmp_path_factory: Any) -> None:
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
    """What is wrong, by the name of the law; empty if the adapter keeps all that apply to it."""
    laboratory = Laboratory(adapter, folder)
    verdicts = {}
    for law in LAWS.values():
        if law.excuse(laboratory) is None:
            try:
                law.check(laboratory)
            except Exception as error:
                verdicts[law.name] = f"{type(error).__name__}: {error}"
    return verdicts
