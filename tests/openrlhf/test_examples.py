"""Check the documented scripts as far as a machine without a GPU can: their arguments."""

from __future__ import annotations

import json
import runpy
import subprocess
from collections.abc import Sequence
from pathlib import Path
from subprocess import list2cmdline
from typing import Any

import pytest
from openrlhf.utils.agent import AgentExecutorBase
from ray.dashboard.modules.job import cli

from helpers.example_scripts import (
    EXAMPLES,
    PAPERS_AGENT,
    check_preset,
    given_to,
    longest_episode,
    run_script,
    scripts_for,
)
from helpers.openrlhf_run import check_openrlhf
from prompt_coevo.adapters.common.flags import Flags
from prompt_coevo.adapters.openrlhf import search_agent
from prompt_coevo.retrieval.agent.instruction import SEARCH_INSTRUCTION
from prompt_coevo.retrieval.agent.scoring import exact_match, golds_of_label
from prompt_coevo.retrieval.agent.settings import SearchAgentSettings
from prompt_coevo.settings import Settings

ENTRY_POINT = "prompt_coevo.adapters.openrlhf"
PRESET_OF = {"openrlhf_p2o.sh": "p2o", "openrlhf_inspo.sh": "inspo"}
FILES = {"REWARD": "reward.py"}


def submission(script: str, tmp_path: Path, *arguments: str, **variables: str) -> dict[str, Any]:
    """Return what the script would submit to Ray, read by Ray's own parser."""
    job, submit, *given = given_to("ray", tmp_path, script, *arguments, **FILES, **variables)
    assert (job, submit) == ("job", "submit")
    return dict(cli.submit.make_context("submit", given).params)


def job_arguments(script: str, tmp_path: Path, *arguments: str, **variables: str) -> list[str]:
    job = submission(script, tmp_path, *arguments, **variables)
    python, option, module, *rest = job["entrypoint"]
    assert (python, option, module) == ("python3", "-m", ENTRY_POINT)
    return rest


@pytest.fixture(scope="module", params=PRESET_OF)
def script(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture(scope="module")
def args(script: str, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return OpenRLHF's arguments after all checks, theirs and ours."""
    folder = tmp_path_factory.mktemp("start")
    result = check_openrlhf(folder, ENTRY_POINT, job_arguments(script, folder))
    assert result.returncode == 0, result.stdout[-2000:] + result.stderr[-2000:]
    checked: dict[str, Any] = json.loads((folder / "args.json").read_text())
    return checked


def test_every_script_is_tested() -> None:
    """The quick start is tested in `test_documents.py`."""
    assert scripts_for("openrlhf") == {*PRESET_OF, "openrlhf_quickstart.sh"}


def test_bash_can_read_it(script: str) -> None:
    subprocess.run(["bash", "-n", str(EXAMPLES / script)], check=True)


def test_ray_gets_a_job(script: str, tmp_path: Path) -> None:
    job = submission(script, tmp_path)
    assert job["address"] == "http://127.0.0.1:8265"
    assert job["runtime_env_json"] == "{}"


def test_the_shell_of_the_job_leaves_it_as_it_is(script: str, tmp_path: Path) -> None:
    entrypoint = submission(script, tmp_path)["entrypoint"]
    line = f"printf '%s\\0' {list2cmdline(entrypoint)}"  # Ray quotes in this way
    read = subprocess.run(line, shell=True, capture_output=True, text=True, check=True).stdout
    assert tuple(read.split("\0")[:-1]) == entrypoint


def test_openrlhf_and_the_plugin_take_the_arguments(script: str, args: dict[str, Any]) -> None:
    assert args["algo"]["advantage"]["estimator"] == "group_norm"
    assert args["critic"]["model_name_or_path"] is None
    kl = script == "openrlhf_inspo.sh"
    assert (args["algo"]["kl"]["init_coef"] > 0, args["algo"]["kl"]["use_loss"]) == (kl, kl)
    assert Settings(**args["coevo"]["values"]).algorithms == (PRESET_OF[script],)


def test_an_argument_that_openrlhf_does_not_have_is_refused(tmp_path: Path) -> None:
    arguments = job_arguments("openrlhf_p2o.sh", tmp_path, "--rollout.beams", "4")
    result = check_openrlhf(tmp_path, ENTRY_POINT, arguments)
    assert result.returncode == 2
    assert "unrecognized arguments: --rollout.beams 4" in result.stderr


def test_the_papers_values_are_the_presets(script: str, tmp_path: Path) -> None:
    check_preset(PRESET_OF[script], Flags.from_arguments(job_arguments(script, tmp_path)).settings)


def test_what_openrlhf_counts_in_other_units(script: str, args: dict[str, Any]) -> None:
    """Checks updates per batch, whole batches of an episode, and the room for a prompt."""
    rollout, data = args["rollout"], args["data"]
    responses = rollout["batch_size"] * rollout["n_samples_per_prompt"]
    assert (
        responses / args["train"]["batch_size"],
        data["max_samples"] // rollout["batch_size"],
        data["max_len"] - rollout["max_new_tokens"],
    ) == {"openrlhf_p2o.sh": (1, 39, 4096), "openrlhf_inspo.sh": (2, 300, 4096)}[script]


@pytest.mark.parametrize("method", ["grpo", "dapo"])
def test_the_other_arms_are_openrlhf_alone_with_the_same_settings(
    method: str, tmp_path: Path
) -> None:
    ours = Flags.from_arguments(job_arguments("openrlhf_p2o.sh", tmp_path)).others
    entrypoint = submission("openrlhf_p2o.sh", tmp_path, METHOD=method)["entrypoint"]
    python, option, module, *given = entrypoint
    assert (python, option, module) == ("python3", "-m", "openrlhf.cli.train_ppo_ray")
    filtering = ["--algo.dynamic_filtering_enable", "--algo.dynamic_filtering_range", "0", "1"]
    there = [one.replace(f"checkpoints/{method}/", "checkpoints/p2o/") for one in given]
    assert there == [*ours, *(filtering if method == "dapo" else [])]
    result = check_openrlhf(tmp_path, module, given)
    assert result.returncode == 0, result.stderr[-2000:]


def test_an_unknown_arm_is_refused() -> None:
    result = run_script("openrlhf_p2o.sh", METHOD="ppo")
    assert result.returncode == 1
    assert "METHOD=ppo: must be p2o, grpo or dapo" in result.stderr


def test_the_recipes_reward_is_a_file(tmp_path: Path) -> None:
    """`tests/trl/test_p2o_recipe.py` asks it for rewards, where math-verify is installed."""
    _, _, *given = given_to("ray", tmp_path, "openrlhf_p2o.sh")
    assert Path(value_of("--reward.remote_url", given)).samefile(EXAMPLES / "p2o_reward.py")


def test_more_arguments_can_follow(script: str, tmp_path: Path) -> None:
    more = ("--coevo.seed", "3", "--coevo.reflection.model", "openai/mine")
    flags = Flags.from_arguments(job_arguments(script, tmp_path, *more))
    settings = Settings(**flags.settings or {})
    assert (settings.seed, settings.reflection.model) == (3, "openai/mine")


def test_the_agent_and_its_instruction_are_the_papers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}
    original = search_agent.search_agent
    monkeypatch.setattr(
        search_agent, "search_agent", lambda **kw: given.update(kw) or original(**kw)
    )
    flags = Flags.from_arguments(job_arguments("openrlhf_inspo.sh", tmp_path))
    agent_file = value_of("--train.agent_func_path", flags.others)
    assert Path(agent_file) == EXAMPLES / "search_agent.py"
    assert issubclass(runpy.run_path(agent_file)["AgentExecutor"], AgentExecutorBase)
    agent = SearchAgentSettings(**given)
    assert agent == PAPERS_AGENT
    room = int(value_of("--rollout.max_new_tokens", flags.others))
    assert 0 <= room - longest_episode(agent) < 50
    settings = Settings(**flags.settings or {})
    assert settings.inspo.instruction == SEARCH_INSTRUCTION
    assert settings.placement.instruction == "prefix"


def test_another_agent_and_model_can_be_named(tmp_path: Path) -> None:
    variables = {"AGENT": "mine.py", "LEARNING_RATE": "3e-7", "MAX_RESPONSE_LENGTH": "6650"}
    arguments = job_arguments("openrlhf_inspo.sh", tmp_path, **variables)
    names = (
        "--train.agent_func_path", "--actor.adam.lr", "--rollout.max_new_tokens", "--data.max_len",
    )  # fmt: skip
    values = [value_of(name, arguments) for name in names]
    assert values == ["mine.py", "3e-7", "6650", str(4096 + 6650)]


def value_of(name: str, arguments: Sequence[str]) -> str:
    return arguments[arguments.index(name) + 1]


def test_a_missing_file_is_named() -> None:
    result = run_script("openrlhf_p2o.sh", REWARD="")
    assert result.returncode != 0
    assert "REWARD: set it to the Python file with the reward function" in result.stderr


@pytest.mark.parametrize(
    ("answer", "reward"), [("the paris", 1), ("Rome", 0), ("Paris, France", 0)]
)
def test_the_gold_answers_are_as_the_script_says(answer: str, reward: float) -> None:
    assert exact_match(answer, golds_of_label(json.dumps(["Paris", "Lutetia"]))) == reward
