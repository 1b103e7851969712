"""Check the commands of `prompt-coevo smoke openrlhf`, as OpenRLHF reads them and with the stand-ins."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from helpers.openrlhf_run import OpenRLHFRun, check_openrlhf
from prompt_coevo.settings import Settings
from prompt_coevo.smoke.openrlhf import ADAPTER, evidence
from prompt_coevo.smoke.parts import Evidence, Variant
from prompt_coevo.smoke.running import Runs


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
    told = settings.model_dump(exclude={"config_file", "plugins"})
    assert told == Settings(**variant.coevo).model_dump(exclude={"config_file", "plugins"})
    checkpointing = args["actor"]["gradient_checkpointing_enable"]
    assert checkpointing == (variant.name == "checkpointing")


class OnStandIns(Runs):
    """The smoke's own runs and checks, in bf16, as on a GPU; vLLM and the device are stand-ins."""

    def _start(self, variant: Variant, folder: Path, until: str = "") -> None:
        folder.mkdir(exist_ok=True)
        module, *given = arguments(variant, folder)
        place = given.index("--logger.tensorboard_dir")
        del given[place : place + 2]
        bf16 = {"COEVO_TEST_BF16": "1"}
        with OpenRLHFRun(folder / "run", overrides=given, env=bf16, module=module) as run:
            if until:
                run.kill_when(lambda _: any(folder.glob(until)))
            else:
                result = run.wait()
                assert result.returncode == 0, result.tail
                (folder / "metrics.json").write_text(json.dumps(result.metrics))


def read(variant: Variant, folder: Path) -> Evidence:
    """Read what the stand-in for TensorBoard wrote, which has no times."""
    steps: dict[str, dict[str, float]] = json.loads((folder / "metrics.json").read_text())
    series: dict[str, list[float]] = {}
    for numbers in steps.values():
        for key, value in numbers.items():
            series.setdefault(key, []).append(value)
    found = evidence(series)
    return replace(found, before=min(map(int, steps)) - 1, seconds=[1.0])


@pytest.mark.long
@pytest.mark.parametrize(
    "name",
    ["p2o", "inspo", "checkpointing", "packing", "resume", "ghost", "speed", "ranks", "async"],
)
def test_what_a_run_leaves_is_read(name: str, tmp_path: Path) -> None:
    (variant,) = (one for one in ADAPTER.variants if one.name == name)
    runs = OnStandIns(replace(ADAPTER, read=read), 0.0, [])
    made = list(getattr(runs, variant.course)(variant, tmp_path))
    print(*[one.said for one in made], sep="\n")
    assert [one.said for one in made if not one.holds] == []
    if variant.course == "once":
        found = read(variant, tmp_path)
        assert found.difference is not None
        assert found.difference < 0.1
