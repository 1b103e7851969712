"""Check the commands of `prompt-coevo smoke openrlhf`, as OpenRLHF reads them and with the stand-ins."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.openrlhf_run import OpenRLHFRun, check_openrlhf
from helpers.ray_run import RayRun, Result
from helpers.smoke_runs import OnStandIns
from prompt_coevo.settings import Settings
from prompt_coevo.smoke.openrlhf import ADAPTER, evidence
from prompt_coevo.smoke.parts import Evidence, Variant


def arguments(variant: Variant, folder: Path) -> list[str]:
    """Return the module and its arguments."""
    (_, option, *rest), _ = ADAPTER.prepare(variant, folder, False)
    assert option == "-m"
    return rest


@pytest.mark.parametrize("variant", ADAPTER.variants, ids=lambda one: one.name)
def test_openrlhf_and_the_plugin_take_it(variant: Variant, tmp_path: Path) -> None:
    module, *given = arguments(variant, tmp_path)
    assert module == "prompt_coevo.adapters.openrlhf"
    result = check_openrlhf(tmp_path, module, given)
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    args = json.loads((tmp_path / "args.json").read_text())
    settings = Settings(**args["coevo"]["values"])
    # A method from outside has its settings under `plugins`, once it is loaded.
    apart = {"config_file", *(["plugins"] if variant.course == "ghost" else [])}
    assert settings.model_dump(exclude=apart) == Settings(**variant.coevo).model_dump(exclude=apart)
    checkpointing = args["actor"]["gradient_checkpointing_enable"]
    assert checkpointing == (variant.name == "checkpointing")


class InOpenRLHF(OnStandIns):
    """In bf16, as on a GPU; vLLM and the device are stand-ins."""

    def started(self, variant: Variant, folder: Path) -> OpenRLHFRun:
        module, *given = arguments(variant, folder)
        place = given.index("--logger.tensorboard_dir")
        del given[place : place + 2]
        bf16 = {"COEVO_TEST_BF16": "1"}
        return OpenRLHFRun(folder / "run", overrides=given, env=bf16, module=module)

    def keep(self, run: RayRun, result: Result, folder: Path) -> None:
        (folder / "metrics.json").write_text(json.dumps(result.metrics))


def read(variant: Variant, folder: Path) -> Evidence:
    """Read what the stand-in for TensorBoard wrote, which has no times."""
    steps: dict[str, dict[str, float]] = json.loads((folder / "metrics.json").read_text())
    series: dict[str, list[float]] = {}
    for numbers in steps.values():
        for key, value in numbers.items():
            series.setdefault(key, []).append(value)
    found = evidence(series, sampled=variant.course != "ghost")
    return replace(found, before=min(map(int, steps)) - 1, seconds=[1.0])


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    ["p2o", "inspo", "checkpointing", "packing", "resume", "ghost", "speed", "ranks", "async"],
)
def test_what_a_run_leaves_is_read(name: str, tmp_path: Path) -> None:
    (variant,) = (one for one in ADAPTER.variants if one.name == name)
    InOpenRLHF(replace(ADAPTER, read=read), 0.0, []).check(variant, tmp_path)
    if variant.course == "once":
        found = read(variant, tmp_path)
        assert found.difference is not None
        assert found.difference < 0.1
