"""Check that `benchmarks/openrlhf_effect.py` trains the language model with TRL's values."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
from effect import Job
from openrlhf_effect import FILTERED, PROMPT, overrides

from helpers.openrlhf_run import check_openrlhf
from prompt_coevo.demo.unnamed.tasks import MOST_TOKENS
from prompt_coevo.demo.unnamed.values import LEARNING_RATE, TEMPERATURE


def read(folder: Path, job: Job) -> dict[str, Any]:
    helpers = ["--actor.model_name_or_path=model", "--algo.advantage.estimator=group_norm"]
    helpers += [f"--{one}.num_gpus_per_node=1" for one in ("actor", "ref")]
    helpers += ["--vllm.num_engines=1", "--reward.remote_url=reward.py"]
    result = check_openrlhf(folder, "openrlhf.cli.train_ppo_ray", [*helpers, *overrides(job)])
    assert result.returncode == 0, result.stderr[-2000:]
    args: dict[str, Any] = json.loads((folder / "args.json").read_text("utf-8"))
    return args


def test_openrlhf_gets_the_tiers_values(tmp_path: Path) -> None:
    args = read(tmp_path, Job("unnamed", "grpo", 3, 4, 88))
    train, rollout, actor = args["train"], args["rollout"], args["actor"]
    assert (train["batch_size"], train["num_episodes"], train["seed"]) == (32, 4, 3)
    assert (rollout["batch_size"], rollout["n_samples_per_prompt"]) == (4, 8)
    assert train["max_epochs"] == 1
    assert rollout["max_new_tokens"] == MOST_TOKENS
    assert args["data"]["max_len"] == PROMPT + MOST_TOKENS
    assert (rollout["temperature"], rollout["top_p"]) == (TEMPERATURE, 1.0)
    adam = actor["adam"]
    assert (adam["lr"], adam["betas"], adam["weight_decay"]) == (LEARNING_RATE, [0.9, 0.99], 0.0)
    assert actor["lr_scheduler"] == "constant_with_warmup"
    assert (actor["max_norm"], actor["eps_clip"]) == (1.0, 0.2)
    assert actor["loss_agg_mode"] == "token-mean"
    assert args["ds"]["param_dtype"] == "bf16"
    assert (args["ckpt"]["save_steps"], args["ckpt"]["save_hf"]) == (22, True)


def test_only_the_mode_filters_and_changes_nothing_else(tmp_path: Path) -> None:
    for mode in (None, FILTERED):
        (tmp_path / str(mode)).mkdir()
    usual, filtered = (
        read(tmp_path / str(mode), Job("unnamed", "grpo", 3, 4, 88, mode=mode))
        for mode in (None, FILTERED)
    )
    assert not usual["algo"].pop("dynamic_filtering_enable")
    assert filtered["algo"].pop("dynamic_filtering_enable")
    assert filtered["algo"]["dynamic_filtering_range"] == [0, 1]
    for args in (usual, filtered):  # the name ends in the hour and minute
        assert args["logger"]["wandb"].pop("run_name").startswith("ppo_")
    assert filtered == usual


@pytest.mark.parametrize("world", ["unnamed", "facts"])
def test_it_warms_up_for_as_many_steps_however_long_it_runs(world: str) -> None:
    """OpenRLHF rounds ratio times steps up, and 3 / 187 * 187 is more than 3."""
    for epochs in range(2, 200):
        job = Job(world, "grpo", 0, epochs, 44)
        (ratio,) = (one for one in overrides(job) if "warmup_ratio" in one)
        steps = math.ceil(float(ratio.partition("=")[2]) * job.steps)
        assert steps == job.world.trainer["warmup_steps"]


def test_a_toy_saves_nothing_on_the_way(tmp_path: Path) -> None:
    args = read(tmp_path, Job("facts", "grpo", 0, 8, 512))
    assert (args["ckpt"]["save_steps"], args["ckpt"]["save_hf"]) == (-1, False)
    assert (args["actor"]["adam"]["betas"], args["rollout"]["temperature"]) == ([0.9, 0.95], 1.0)
