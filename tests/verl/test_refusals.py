"""Check that what cannot work is refused by one sentence, mostly before Ray starts."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hydra import compose, initialize_config_dir, initialize_config_module
from hydra.core.global_hydra import GlobalHydra
from hydra.errors import ConfigCompositionException
from verl.trainer.ppo.v1 import get_trainer_cls

from helpers.verl_launch import launch
from prompt_coevo import Method, Section, registry
from prompt_coevo.adapters.verl import checks
from prompt_coevo.adapters.verl.hydra_group import read_settings
from prompt_coevo.adapters.verl.launch import TRAINERS, LaunchCheck
from prompt_coevo.adapters.verl.questions import index_questions
from prompt_coevo.errors import DatasetError, HostError, SettingsError
from prompt_coevo.settings import Settings, method_choices

MODEL = ("actor_rollout_ref.rollout.n=4", "coevo.reflection.model=openai/teacher")


@pytest.fixture(autouse=True)
def _hydra(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    for name in list(os.environ):
        if name.startswith("PROMPT_COEVO_"):
            monkeypatch.delenv(name)
    with initialize_config_module("verl.trainer.config", version_base=None):
        yield


def composed(*overrides: str, choice: str = "stream") -> Any:
    return compose("ppo_trainer", overrides=[f"+coevo={choice}", *MODEL, *overrides])


def refusal(*overrides: str, choice: str = "stream") -> str:
    config = composed(*overrides, choice=choice)
    with pytest.raises(SystemExit) as caught:
        launch(config)
    message = str(caught.value)
    assert message.startswith("error: ")
    assert "\n" not in message
    return message


@pytest.mark.parametrize("choice", method_choices())
def test_every_choice_is_a_set_of_valid_settings(choice: str) -> None:
    config = composed(choice=choice)
    launch(config)
    assert list(read_settings(config.coevo).algorithms) == method_choices()[choice]


def test_every_setting_is_a_key() -> None:
    config = composed()

    def keys(model: Any) -> dict[str, Any]:
        return {
            name: keys(field.annotation) if hasattr(field.annotation, "model_fields") else None
            for name, field in model.model_fields.items()
        }

    def check(block: Any, wanted: dict[str, Any]) -> None:
        assert set(block) == set(wanted) - {"api_key"}
        for name, inner in wanted.items():
            if inner is not None:
                check(block[name], inner)

    check(config.coevo, keys(Settings))


def test_values_reach_the_settings() -> None:
    settings = read_settings(
        composed(
            "coevo.stream.tau=0.1",
            "coevo.row_columns=[level,source]",
            "coevo.seed=3",
        ).coevo
    )
    assert settings.row_columns == ("level", "source")
    assert (settings.stream.tau, settings.seed) == (0.1, 3)


def test_what_is_left_alone_comes_from_other_sources(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PROMPT_COEVO_SEED", "7")
    monkeypatch.setenv("PROMPT_COEVO_P2O__TAU", "0.3")
    settings = read_settings(composed("coevo.preset=p2o", "coevo.p2o.tau=0.1", choice="p2o").coevo)
    assert (settings.seed, settings.p2o.tau) == (7, 0.1)


class Mine(Section):
    """Settings of a third-party method."""

    weight: int = 1


def test_a_plugins_own_settings(offer: Any) -> None:
    offer("methods", "mine", Method("mine", lambda _: object(), section=Mine))
    block = composed("coevo.algorithms=[mine]", "+coevo.plugins.mine.weight=2").coevo
    assert read_settings(block).plugins == {"mine": {"weight": 2}}


def test_settings_of_a_plugin_that_does_not_run_are_told() -> None:
    block = composed("+coevo.plugins.mine.weight=2").coevo
    with pytest.raises(SettingsError, match=r"plugins\.mine sets nothing"):
        read_settings(block)


def test_all_unknown_keys_are_told_at_once_and_not_by_hydra() -> None:
    block = composed("coevo.stream.tua=1", "coevo.tau=1", "coevo.reflection.api_key=sk-1").coevo
    with pytest.raises(SettingsError) as raised:
        read_settings(block)
    for part in (
        "coevo.reflection.api_key would be printed",
        "unknown setting stream.tua; did you mean stream.tau?",
        "unknown setting tau; did you mean p2o.tau or stream.tau?",
    ):
        assert part in str(raised.value)
    assert "sk-1" not in str(raised.value)


def test_a_key_of_the_host_that_is_unknown_is_hydras_business() -> None:
    with pytest.raises(ConfigCompositionException, match=r"data\.train_fils"):
        composed("data.train_fils=x")


@pytest.mark.parametrize(
    ("overrides", "part"),
    [
        (["+coevo.stream.tua=1"], "unknown setting stream.tua; did you mean stream.tau?"),
        (["coevo.stream.tau=0"], "stream.tau must be greater than 0"),
        (["coevo.algorithms=[p3o]"], "'p3o': there is no such method; did you mean p2o?"),
        (["coevo.stream.proposer=nobody"], "'nobody': there is no such proposer"),
        (["coevo.inspo.window=3"], "settings under inspo have no effect"),
        (["+coevo.reflection.api_key=sk-1"], "would be printed and logged"),
        (["actor_rollout_ref.rollout.n=1"], "rollout.n=1 makes no groups"),
        (["trainer.use_v1=False"], "the deprecated one; leave it out"),
        (
            ["trainer.v1.trainer_mode=mine"],
            "mine; it supports sync, colocate_async, separate_async",
        ),
        (
            [
                "trainer.v1.trainer_mode=colocate_async",
                "trainer.v1.sampler.custom_sampler.path=sampler.py",
            ],
            "may drop groups where +coevo cannot see them, and their plans would pile up",
        ),
        (
            ["trainer.v1.trainer_mode=colocate_async", "reward.reward_model.enable=True"],
            "would put the rollout servers to sleep while they sample ahead",
        ),
        (["+trainer.v1.sync.parameter_sync_step=2"], "trains on parts of a round"),
        (["skip.rollout_tq.enable=True"], "replays stored rollouts"),
        (["algorithm.adv_estimator=remax"], "needs a greedy rollout of every question"),
        (
            [
                "algorithm.filter_groups.enable=True",
                "trainer.v1.sampler.custom_sampler.path=sampler.py",
            ],
            "would drop groups where +coevo cannot see them",
        ),
        (
            ["algorithm.rollout_correction.bypass_mode=True"],
            "takes old log-probs from the sampler, which ran under the template",
        ),
        (
            ["actor_rollout_ref.rollout.enable_rollout_routing_replay=True"],
            "records the experts of every token",
        ),
    ],
)
def test_refused_at_launch(overrides: list[str], part: str) -> None:
    assert part in refusal(*overrides)


@pytest.mark.parametrize("may_distill", [True, False])
def test_what_is_refused_goes_by_what_a_method_may_do_and_not_by_its_name(
    may_distill: bool,
) -> None:
    config = composed("actor_rollout_ref.rollout.enable_rollout_routing_replay=True")
    registry.register(
        "methods", "mine", Method("mine", lambda _: object(), may_distill=may_distill)
    )
    try:
        settings = Settings(algorithms=("mine",))
        if may_distill:
            with pytest.raises(HostError, match="records the experts of every token"):
                checks.check_config(config, settings)
        else:
            checks.check_config(config, settings)
    finally:
        registry.unregister("methods", "mine")


@pytest.mark.parametrize(
    "overrides",
    [
        ["algorithm.filter_groups.enable=True"],
        ["algorithm.use_kl_in_reward=True"],
        ["actor_rollout_ref.rollout.calculate_log_probs=False"],
        [
            "algorithm.rollout_correction.bypass_mode=True",
            "coevo.context_distillation=False",
        ],
        ["coevo.context_distillation=False", "actor_rollout_ref.rollout.calculate_log_probs=False"],
    ],
)
def test_not_refused(overrides: list[str]) -> None:
    launch(composed(*overrides))


@pytest.mark.parametrize("mode", TRAINERS)
def test_the_trainer_of_the_asked_mode_becomes_ours(mode: str) -> None:
    config = composed(f"trainer.v1.trainer_mode={mode}")
    launch(config)
    assert config.trainer.v1.trainer_mode == TRAINERS[mode]  # looked up, which registers it
    trainer = get_trainer_cls(TRAINERS[mode])
    assert issubclass(trainer, get_trainer_cls(mode))
    assert trainer.mode == mode


def test_a_mode_in_a_file_of_the_users_is_the_asked_one(tmp_path: Path) -> None:
    """Hydra ranks the flag's group above such a file."""
    (tmp_path / "mine.yaml").write_text(
        "defaults: [ppo_trainer, _self_]\n"
        "hydra: {searchpath: ['pkg://verl.trainer.config']}\n"
        "trainer: {v1: {trainer_mode: colocate_async}}\n",
        "utf-8",
    )
    GlobalHydra.instance().clear()
    with initialize_config_dir(str(tmp_path), version_base=None):
        config = compose("mine", overrides=["+coevo=stream", *MODEL])
    launch(config)
    assert config.trainer.v1.trainer_mode == TRAINERS["colocate_async"]


def test_several_jobs_of_a_multirun_would_get_verls_own_trainer() -> None:
    """Hydra calls `on_run_start` only for a single run."""
    with pytest.raises(
        SystemExit, match="in a run of several jobs; write .*coevo_trainer:sync"
    ) as caught:
        LaunchCheck(own_main=True).on_job_start(composed(), task_function=print)
    value = str(caught.value).rpartition("; write ")[2].replace("'", "")
    config = composed(value)
    LaunchCheck(own_main=True).on_job_start(config, task_function=print)
    assert config.trainer.v1.trainer_mode == TRAINERS["sync"]


def test_the_asynchronous_trainers_of_other_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    """They are recognised by the file of their main."""
    packages = Path(str(files("verl"))).parent
    monkeypatch.chdir(packages)  # their configurations look for VeRL's from there
    for module in ("fully_async", "one_step_off"):
        GlobalHydra.instance().clear()
        folder = packages / "verl" / "experimental" / f"{module}_policy" / "config"
        with initialize_config_dir(str(folder), version_base=None):
            config = compose(f"{module}_ppo_trainer", overrides=["+coevo=stream", *MODEL])
        file = str(folder.parent / "main_ppo.py")
        main = eval(compile("lambda config: None", file, "eval"))
        with pytest.raises(
            SystemExit, match="error: .coevo works with python -m verl.trainer.main_ppo, and "
        ):
            LaunchCheck().on_job_start(config, task_function=main)


def test_a_missing_transfer_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        checks, "find_spec", lambda name: None if name == "transfer_queue" else find_spec(name)
    )
    assert "run: pip install TransferQueue" in refusal()


def test_a_refusal_ends_the_real_command_before_ray_starts(tmp_path: Path) -> None:
    run = subprocess.run(
        [
            *(sys.executable, "-m", "verl.trainer.main_ppo", "+coevo=stream", *MODEL),
            *("trainer.v1.trainer_mode=mine", "hydra.run.dir=."),
        ],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert run.returncode == 1
    assert run.stderr.splitlines()[-1].startswith(
        "error: +coevo does not support trainer.v1.trainer_mode=mine"
    )
    assert "Traceback" not in run.stderr
    assert "ray init" not in run.stdout


# The dataset, which is read when the trainer is built

LOOPS = {"single_turn_agent", "tool_agent"}
ROW = {
    "raw_prompt": [{"role": "user", "content": "one"}],
    "reward_model": {"ground_truth": "1"},
    "extra_info": {"index": 0, "key": "a"},
}


def indexed(*rows: dict[str, Any], **settings: Any) -> Any:
    return index_questions(list(rows), Settings(algorithms=(), **settings), LOOPS, 4)


def other(**changes: Any) -> dict[str, Any]:
    return {**ROW, "raw_prompt": [{"role": "user", "content": "two"}], **changes}


def test_questions_are_told_apart_by_content_because_the_index_is_zero_by_default() -> None:
    assert len(indexed(ROW, other(), ROW)) == 2


def test_a_column_or_a_key_of_extra_info_identifies_questions() -> None:
    questions = indexed(ROW, other(extra_info={"key": "b"}), question_id_column="key")
    assert questions.ids() == ["a", "b"]
    assert questions.question("a").ground_truth == "1"


@pytest.mark.parametrize(
    ("rows", "settings", "part"),
    [
        ([], {}, "the training dataset is empty"),
        ([ROW], {"question_id_column": "no"}, "has no column 'no' (coevo.question_id_column)"),
        ([ROW], {"ground_truth_column": "no"}, "has no column 'no' (coevo.ground_truth_column)"),
        ([ROW], {"row_columns": ["no"]}, "has no column 'no' (coevo.row_columns)"),
        ([other(reward_model={})], {}, "rows without reward_model.ground_truth"),
        ([other(agent_name="nobody")], {}, "asks for the agent loop 'nobody'"),
        (
            [ROW, other(__rollout_n__=8)],
            {},
            "row 1 of the training dataset asks for 8 rollouts (__rol",
        ),
    ],
)
def test_datasets_that_cannot_be_used(rows: list[Any], settings: dict[str, Any], part: str) -> None:
    with pytest.raises(DatasetError) as caught:
        indexed(*rows, **settings)
    assert part in str(caught.value)


def test_rows_may_ask_for_the_rollouts_that_a_group_has() -> None:
    assert len(indexed(other(__rollout_n__=4))) == 1


def test_without_a_ground_truth_on_request() -> None:
    questions = indexed(other(reward_model={}), ground_truth_column=None)
    assert questions.question(questions.ids()[0]).ground_truth is None


def test_an_agent_loop_that_is_not_registered() -> None:
    agent = SimpleNamespace(default_agent_loop="nobody", agent_loop_config_path=None)
    config = SimpleNamespace(
        actor_rollout_ref=SimpleNamespace(rollout=SimpleNamespace(agent=agent))
    )
    with pytest.raises(
        HostError, match="default_agent_loop=nobody is not registered; known: .*tool"
    ):
        checks.agent_loops(config)


def test_secrets_are_refused_wherever_the_block_is_read() -> None:
    with pytest.raises(SettingsError, match="would be printed"):
        read_settings(composed("+coevo.reflection.api_key=sk-1").coevo)
