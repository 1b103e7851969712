"""Check the registry of tested features per adapter: its tests exist, and its refusals are documented."""

from __future__ import annotations

import runpy
from typing import Any

import pytest

from helpers.documented import ROOT

PAGE: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "page_features.py"))
REGISTRY = PAGE["tomllib"].loads(PAGE["REGISTRY"].read_text("utf-8"))
CELLS = list(PAGE["cells"](REGISTRY))
FLAGS = "tests/openrlhf/test_flags.py::test_refused_arguments"
AGENTS = "tests/openrlhf/test_agents.py::test_log_probs_are_on_the_question"


def one(adapter: str = "trl", **line: str) -> Any:
    return next(PAGE["cells"]({adapter: {"x": line}}))


@pytest.mark.parametrize("cell", CELLS, ids=lambda cell: f"{cell.adapter}: {cell.feature}")
def test_what_a_cell_names_is_there(cell: Any) -> None:
    assert PAGE["problem"](cell) is None


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ({"real": "tests/trl/test_gone.py::test_x"}, "there is no file tests/trl/test_gone.py"),
        ({"real": "tests/trl/test_both.py::test_x"}, "tests/trl/test_both.py has no test test_x"),
        (
            {"real": "tests/laws/trl/test_trl_adapter.py::test_trl_adapter[no such law]"},
            "has no parameter no such law",
        ),
        ({"real": "tests/verl/test_both.py::test_each_method_did_its_work"}, "is marked as long"),
        (
            {"long": "tests/trl/test_distillation.py::test_string_prompts"},
            "is not marked as long",
        ),
        (
            {
                "real": "tests/laws/openrlhf/test_adapter.py::test_openrlhf_adapter"
                "[ranks have one engine and one plan]"
            },
            "is marked as long",
        ),
        (
            {"refused": FLAGS, "says": "no such words"},
            "no sentence of the adapter has 'no such words'",
        ),
        (
            {"refused": AGENTS, "says": "makes no groups"},
            "does not ask for the sentence with",
        ),
    ],
)
def test_what_is_not_there_is_found(line: dict[str, str], problem: str) -> None:
    assert problem in PAGE["problem"](one("openrlhf", **line))


@pytest.mark.parametrize(
    ("registry", "message"),
    [
        ({"sglang": {}}, "there is no such adapter"),
        ({"trl": {"x": {}}}, "x: write exactly one of real, standin, long"),
        ({"trl": {"x": {"real": "a", "long": "b"}}}, "x: write exactly one of"),
        ({"trl": {"x": {"refused": "a"}}}, "beside refused belongs says"),
        ({"trl": {"x": {"real": "a", "of": "b"}}}, "beside real belongs nothing but a note"),
    ],
)
def test_a_line_that_is_wrong_is_refused(registry: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        list(PAGE["cells"](registry))


def test_every_adapter_has_lines() -> None:
    folders = {path.parent.name for path in (ROOT / "adapters").glob("*/__init__.py")} - {"common"}
    assert set(REGISTRY) == set(PAGE["TITLES"]) == folders


def test_features_stand_beside_their_neighbours() -> None:
    lines = {"trl": ("a", "c"), "verl": ("a", "b", "c", "d"), "openrlhf": ("z", "c")}
    found = [
        cell
        for adapter, names in lines.items()
        for cell in PAGE["cells"]({adapter: {name: {"open": "why"} for name in names}})
    ]
    assert PAGE["in_order"](found) == ["z", "a", "b", "c", "d"]


@pytest.mark.parametrize("adapter", PAGE["TITLES"])
def test_the_long_tests_are_those_that_a_session_leaves_out(adapter: str) -> None:
    session = (ROOT / "noxfile.py").read_text("utf-8").split(f"def {adapter}(")[1].split("@nox")[0]
    assert '["-m", CHOSEN]' in session
