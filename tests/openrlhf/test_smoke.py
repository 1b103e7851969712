"""Check the commands of `prompt-coevo smoke openrlhf`, as OpenRLHF reads them and with the stand-ins."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from helpers.openrlhf_run import OpenRLHFRun, check_openrlhf
from prompt_coevo.settings import Settings
from prompt_coevo.smoke.checks import checks
from prompt_coevo.smoke.openrlhf import ADAPTER, evidence
from prompt_coevo.smoke.parts import Variant

MODULE = "prompt_coevo.adapters.openrlhf"


def arguments(variant: Variant, folder: Path) -> list[str]:
    (_, option, module, *rest), _ = ADAPTER.prepare(variant, folder, False)
    assert (option, module) == ("-m", MODULE)
    return rest


@pytest.mark.parametrize("variant", ADAPTER.variants, ids=lambda one: one.name)
def test_openrlhf_and_the_plugin_take_it(variant: Variant, tmp_path: Path) -> None:
    result = check_openrlhf(tmp_path, MODULE, arguments(variant, tmp_path))
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    args = json.loads((tmp_path / "args.json").read_text())
    settings = Settings(**args["coevo"]["values"])
    told = settings.model_dump(exclude={"config_file"})
    assert told == Settings(**variant.coevo).model_dump(exclude={"config_file"})
    checkpointing = args["actor"]["gradient_checkpointing_enable"]
    assert checkpointing == (variant.name == "checkpointing")


@pytest.mark.long
@pytest.mark.parametrize("name", ["p2o", "inspo", "checkpointing"])
def test_what_a_run_leaves_is_read(name: str, tmp_path: Path) -> None:
    """In bf16, as on a GPU. vLLM, the device and TensorBoard are stand-ins, so its numbers come from
    elsewhere."""
    (variant,) = (one for one in ADAPTER.variants if one.name == name)
    given = arguments(variant, tmp_path)
    place = given.index("--logger.tensorboard_dir")
    del given[place : place + 2]
    bf16 = {"COEVO_TEST_BF16": "1"}
    with OpenRLHFRun(tmp_path / "run", overrides=given, env=bf16, module=MODULE) as run:
        result = run.wait()
    assert result.returncode == 0, result.tail
    series: dict[str, list[float]] = {}
    for numbers in result.metrics.values():
        for key, value in numbers.items():
            series.setdefault(key, []).append(value)
    found = evidence(series)
    assert [one.said for one in checks(variant, found) if not one.holds] == []
    assert found.difference is not None
    assert found.difference < 0.1
