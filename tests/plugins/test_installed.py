"""Check that two separate distributions work without any line in prompt_coevo, and disturb nothing."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from prompt_coevo import Coevolution, Settings, registry
from prompt_coevo.engine.state import plugin_states
from prompt_coevo.errors import SettingsError
from prompt_coevo.settings import setting_fields
from prompt_coevo.settings.method import load_method

ROOT = Path(__file__).parents[2]


def answer(prompt: str) -> str:
    return "<ins_1>k0</ins_1><template>k0</template>"


def test_no_line_of_the_package_names_them() -> None:
    name = re.compile(r"e-?spl\b", re.IGNORECASE)
    for folder in ("prompt_coevo", "adapters", "retrieval"):
        for path in (ROOT / folder).rglob("*.py"):
            assert not name.search(path.read_text("utf-8")), path


def test_they_are_found_by_their_entry_points(site: Path) -> None:
    found = {entry.name: entry.dist.name for entry in entry_points(group="prompt_coevo.methods")}
    assert found["espl"] == "prompt-coevo-espl"
    assert found["gepa"] == "prompt-coevo-gepa"
    assert {"espl", "gepa", "hints", "inspo", "p2o", "stream"} <= set(registry.names("methods"))
    assert "espl_crossover" in registry.names("proposers")
    for name in ("espl", "gepa"):
        module = sys.modules[type(load_method(name).section()).__module__]
        assert Path(str(module.__file__)).is_relative_to(site)


def test_their_settings_are_settings_like_the_built_in_ones(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "run.toml"
    file.write_text('algorithms = ["espl"]\n[plugins.espl]\ninstruction = "Think."\nat_once = 4\n')
    monkeypatch.setenv("PROMPT_COEVO_PLUGINS__ESPL__AT_ONCE", "2")
    settings = Settings(config_file=file)
    espl: Any = settings.section(load_method("espl").section)
    assert (espl.instruction, espl.at_once) == ("Think.", 2)
    assert "plugins.espl.at_once" in dict(setting_fields())
    with pytest.raises(SettingsError, match=r"plugins\.espl\.at_onse; did you mean .*\.at_once\?"):
        Settings(algorithms=("espl",), plugins={"espl": {"at_onse": 2}})
    with pytest.raises(SettingsError, match='under plugins.espl have no effect without "espl"'):
        Settings(plugins={"espl": {"at_once": 2}})
    with pytest.raises(SettingsError, match=r"setting espl; did you mean plugins\.espl\?"):
        Settings(algorithms=("espl",), espl={"at_once": 2})


def test_the_command_line_shows_them_with_their_costs(site: Path) -> None:
    code = "import sys; from prompt_coevo.cli import main; sys.argv[1:] = {}; main()"
    arguments = ["settings", "--questions", "64"]
    run = subprocess.run(
        [sys.executable, "-P", "-c", code.format(arguments)],
        env={
            "PYTHONPATH": ":".join([str(site), *sys.path]),
            "PROMPT_COEVO_ALGORITHMS": "espl,hints",
            "PROMPT_COEVO_PLUGINS__ESPL__INSTRUCTION": "Think.",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    assert "at_once" in run.stdout
    assert "espl: every 1 steps at most 0 rollouts" in " ".join(run.stderr.split())


@pytest.mark.parametrize(
    ("names", "part"), [(("espl", "inspo"), "instruction"), (("hints", "stream"), "template")]
)
def test_two_methods_that_give_the_same_part_are_refused(names: tuple[str, str], part: str) -> None:
    with pytest.raises(SettingsError, match=f"{names[0]!r} and {names[1]!r} both .* {part}"):
        Coevolution.check(
            Settings(
                algorithms=names,
                reflection={"function": answer},
            )
        )


def test_a_run_of_another_method_is_the_same_with_them_installed(
    policy: Any, round_of: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Compares P2O's plans, metrics and state with both installed and with both switched off."""
    outcomes = []
    for disabled in ("", "all"):
        monkeypatch.setenv(registry.DISABLE_PLUGINS_VARIABLE, disabled)
        assert ("espl" in registry.names("methods")) == (not disabled)
        engine = Coevolution.from_settings(
            Settings(
                algorithms="p2o",
                reflection={"function": lambda prompt: "<template>k0 k1</template>"},
                p2o={
                    "overspend": "never",
                    "minibatch_size": 2,
                    "dev_size": 4,
                    "search_budget": 40,
                },
            )
        )
        engine.begin(policy)
        plans = []
        for _ in range(3):
            plans.append(round_of(engine, policy))
            engine.epoch_end(policy)
        metrics = engine.metrics()
        del metrics["coevo/reflection_seconds"]
        outcomes.append((plans, metrics, plugin_states(engine.state_dict())))
    assert outcomes[0] == outcomes[1]
    assert any(one.templated for plan in outcomes[0][0] for one in plan)


def test_both_at_once_keep_out_of_each_others_way(policy: Any, round_of: Any) -> None:
    """Hinted rollouts rate no prompt, and a rollout has both its prompt and its hint."""
    engine = Coevolution.from_settings(
        Settings(
            algorithms=("espl", "hints"),
            plugins={"espl": {"instruction": "Think."}},
            hints={"fraction": 1.0},
            reflection={"function": lambda prompt: "<ins_1>Think k9.</ins_1>"},
        )
    )
    engine.begin(policy)
    round_of(engine, policy)
    plan = round_of(engine, policy)
    hinted = [one for one in plan if one.templated]
    assert hinted
    assert all(one.instruction is not None and one.distilled for one in hinted)
    state = json.loads(json.dumps(engine.state_dict()))
    assert plugin_states(state)["espl"]["counts"]["matches"] == 0, "bare rollouts all failed alike"
    assert engine.metrics()["coevo/hinted_reward"] == 1.0
