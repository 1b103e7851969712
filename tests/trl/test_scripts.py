"""Check TRL's documented scripts with one line added: they work, or say in a sentence what to do.

The scripts are in `tests/trl/scripts`, in the shape of TRL's pages and examples; two come with its wheel.
See `helpers.trl_scripts` for what is local and what is scripted.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from trl.scripts import grpo, rloo

from helpers.trl_scripts import LINE, SCRIPTS, check_that_it_works, run_script, with_line
from helpers.trl_versions import since
from prompt_coevo.errors import CoevoError

pytestmark = [
    since("1.14", "scripts as its pages have them today"),
    pytest.mark.usefixtures("as_on_the_hub"),
]
NO_TRUTH = f"{LINE}, ground_truth_column=None"
SIX_TENTHS = f'{LINE}, success={{"low": -1.0, "high": 0.6}}'
UNKNOWN = "what an environment asks is known after its reset\\(\\) alone"
CALL = '<tool_call>\n{"name": "look_up", "arguments": {"sql_command": "SELECT 1"}}\n</tool_call>'


def script(name: str) -> str:
    return (SCRIPTS / f"{name}.py").read_text("utf-8")


def yes_or_no(call: int, row: int) -> str:
    """Write a query first, then an answer: one of eight is right."""
    if call % 2 == 0:
        return CALL
    return "It is *yes*." if row % 8 == call // 2 % 8 else ("It is *no*.", "Who knows?")[row % 2]


@pytest.mark.parametrize(
    ("name", "settings", "options"),
    [
        ("quick_start", LINE, {}),
        ("think_and_accuracy", LINE, {}),
        ("tutorial", LINE, {}),
        ("weighted", LINE, {}),
        ("async_reward", LINE, {}),
        ("text_prompts", LINE, {}),
        ("rendered", LINE, {}),
        ("own_rollouts", LINE, {}),
        ("agent", SIX_TENTHS, {"said": yes_or_no}),
    ],
)
def test_works_as_meant(name: str, settings: str, options: dict[str, Any]) -> None:
    check_that_it_works(script(name), with_line(script(name), settings), **options)


@pytest.mark.parametrize("module", [grpo, rloo], ids=["grpo", "rloo"])
def test_the_scripts_of_the_wheel_work(module: Any) -> None:
    arguments = {
        "model_name_or_path": "Qwen/Qwen3-0.6B",
        "dataset_name": "trl-lib/DeepMath-103K",
        "output_dir": "out",
        "use_cpu": "true",
        "bf16": "false",
        "save_strategy": "no",
        "report_to": "none",
        "logging_steps": "1",
    }
    words = [word for name, value in arguments.items() for word in (f"--{name}", value)]
    words += ["--reward_funcs", "think_format_reward", "accuracy_reward"]
    text = Path(module.__file__).read_text("utf-8")
    check_that_it_works(text, with_line(text, LINE), arguments=words)


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("longer", "set ground_truth_column to the one with the right answer, or to null"),
        ("two_tasks", r"\(math_reward_func, coding_reward_func\), and none is named"),
        ("environment", UNKNOWN),
        ("one_prompt", UNKNOWN),
        ("routing", UNKNOWN),
    ],
)
def test_is_refused_before_training(name: str, said: str) -> None:
    with pytest.raises(CoevoError, match=said):
        run_script(with_line(script(name), LINE))


@pytest.mark.parametrize(
    ("name", "settings", "said"),
    [
        (
            "longer",
            NO_TRUTH,
            "deciding rewards go from",
        ),
        ("tutorial", LINE, "deciding rewards go from 0 to 2, outside success.low = 0"),
        ("agent", LINE, "deciding rewards go from -1 to"),
    ],
)
def test_the_log_says_what_to_set(
    name: str, settings: str, said: str, caplog: pytest.LogCaptureFixture
) -> None:
    options: dict[str, Callable[[int, int], str]] = {"said": yes_or_no} if name == "agent" else {}
    with caplog.at_level(logging.WARNING, logger="prompt_coevo"):
        run_script(with_line(script(name), settings), **options)
    assert said in caplog.text
