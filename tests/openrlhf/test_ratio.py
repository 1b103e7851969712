"""Check log-probs of distilled and other rows against hand-computed ones.

The learning rate is 0, so all log-probs are the base policy's and can be computed here. Stand-ins: vLLM,
flash-attn, the device, and the reflection model's HTTP server.
"""

from __future__ import annotations

from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from helpers.base_policy import log_probs
from helpers.openrlhf_run import Result, run_openrlhf
from helpers.openrlhf_world import (
    P2O,
    prompt_of,
    reflection,
    response_of,
    sampled_under,
    teach,
)
from standins.openai_server import openai_server

pytestmark = pytest.mark.long

FIRST_TEMPLATED_STEP = 3
Row = dict[str, Any]


def run(folder: Path, *overrides: str, drift: float = 0.0, **env: str) -> Result:
    with openai_server(teach) as server:
        result = run_openrlhf(
            folder,
            module="prompt_coevo.adapters.openrlhf",
            overrides=[
                *("--coevo.method", "p2o", *P2O, *reflection(server.base)),
                *("--coevo.p2o.dev_size=4", "--train.num_episodes=2", "--actor.adam.lr=0"),
                *("--algo.advantage.is_correction_level=token", *overrides),
            ],
            env={"OPENAI_API_KEY": "sk-test", "COEVO_TEST_DRIFT": str(drift), **env},
        )
    assert result.returncode == 0, result.tail
    return result


def rows(result: Result) -> tuple[list[Row], list[Row]]:
    """Return distilled rows, each with its sampling prompt as `under`, and all others."""
    distilled, plain = [], []
    for row in result.actor:
        other = [list(p) for p in sampled_under(result, row) if list(p) != prompt_of(row)]
        if row["info"]["coevo_distilled"] and len(other) == 1:
            assert row["step"] >= FIRST_TEMPLATED_STEP
            distilled.append({**row, "under": other[0]})
        elif not row["info"]["coevo_distilled"]:
            plain.append(row)
    assert distilled
    assert plain
    return distilled, plain


def on_question(row: Row) -> list[float]:
    return log_probs(prompt_of(row), response_of(row))


def response(row: Row, name: str) -> list[Any]:
    """Return the values of a row's response, masked or not."""
    return list(row[name][-len(response_of(row)) :])


def close(values: list[float]) -> Any:
    return pytest.approx(values, abs=1e-4)


@pytest.mark.parametrize("estimator", ["rloo", "reinforce_baseline", "dr_grpo", "gae"])
def test_clean_with_a_reference_policy_and_other_estimators(tmp_path: Path, estimator: str) -> None:
    distilled, plain = rows(
        run(
            tmp_path,
            f"--algo.advantage.estimator={estimator}",
            *("--algo.kl.use_loss", "--algo.kl.init_coef=1e-3", "--algo.kl.estimator=k3"),
        )
    )
    for row in [*distilled, *plain]:
        values = on_question(row)
        assert response(row, "action_log_probs") == close(values)
        assert response(row, "base_action_log_probs") == close(values)
        assert response(row, "rollout_log_probs")[1:] == close(values[1:])
        assert response(row, "action_mask") == [1] * len(values)
    assert any(any(response(row, "advantages")) for row in distilled)


RANKS = (
    *("--actor.num_gpus_per_node=2", "--rollout.micro_batch_size=4", "--train.micro_batch_size=4"),
    "--train.batch_size=16",
)
PACKED = ("--ds.packing_samples", "--train.dynamic_batch_enable", "--train.max_tokens_per_gpu=160")


@pytest.mark.parametrize(
    "flags",
    [
        pytest.param((*RANKS, *PACKED, "--ds.zero_stage=2"), id="ranks, packed, ZeRO 2"),
        pytest.param((*RANKS, *PACKED, "--ds.zero_stage=3"), id="ranks, packed, ZeRO 3"),
        pytest.param(
            (*RANKS, "--algo.advantage.estimator=gae", "--critic.num_gpus_per_node=2"),
            id="ranks of actor and critic",
        ),
        pytest.param(("--algo.advantage.estimator=reinforce",), id="reinforce"),
        pytest.param(("--algo.advantage.estimator=flash_reinforce",), id="flash_reinforce"),
        pytest.param(("--actor.gradient_checkpointing_enable",), id="gradient checkpointing"),
        pytest.param(
            (
                "--train.colocate_all",
                "--vllm.enable_sleep",
                "--ds.enable_sleep",
                "--ds.zero_stage=2",
            ),
            id="optimizer asleep",
        ),
    ],
)
def test_clean_as_a_cluster_trains(tmp_path: Path, flags: tuple[str, ...]) -> None:
    """Packs samples, splits micro-batches by tokens, and uses several ranks and a critic."""
    distilled, plain = rows(run(tmp_path, *flags))
    for row in [*distilled, *plain]:
        values = on_question(row)
        assert response(row, "action_log_probs") == close(values)
        assert response(row, "log_probs") == close(values)
        assert response(row, "rollout_log_probs")[1:] == close(values[1:])
    assert any(any(response(row, "advantages")) for row in distilled)


def test_a_kl_in_the_reward_is_on_the_question(tmp_path: Path) -> None:
    """The policy is its reference, so a row's KL is 0; between question and template it is not."""
    result = run(tmp_path, "--algo.kl.init_coef=0.1")
    distilled, plain = rows(result)
    for row in [*distilled, *plain]:
        assert row["info"]["kl"] == pytest.approx(0.0, abs=1e-4)


def test_a_forward_under_the_template_leaves_the_samplers_own_part_alone(tmp_path: Path) -> None:
    """The sampler's log-probs are all above the trainer's, in rows with and without a template."""
    drift = 0.25
    result = run(tmp_path, "--coevo.distill_forward=True", drift=drift)
    distilled, plain = rows(result)
    effects = []
    for row in [*distilled, *plain]:
        values = on_question(row)
        under = log_probs(row["under"], response_of(row)) if "under" in row else values
        # The first token has that of the sampler, which may not end there.
        assert response(row, "action_log_probs")[1:] == close(values[1:])
        sampler = [value + drift for value in values]
        assert response(row, "rollout_log_probs")[1:] == close(sampler[1:])
        effects += [a - b for a, b in zip(under, values, strict=True) if "under" in row]
    name = "train/coevo/template_logp_difference"
    told = [step[name] for step in result.metrics.values() if name in step]
    assert len(told) > 0
    assert min(told) <= sum(effects) / len(effects) <= max(told)


def test_gradient_checkpointing_leaves_the_gradients_as_they_are(tmp_path: Path) -> None:
    """Only ZeRO reports the gradients' norm: without it, and in float32, DeepSpeed reports 0."""
    name, stage = "train/actor_grad_norm", "--ds.zero_stage=2"
    plain = run(tmp_path / "plain", stage)
    saving = run(tmp_path / "saving", stage, "--actor.gradient_checkpointing_enable")
    rows(saving)
    lengths = [step[name] for step in plain.metrics.values()]
    assert max(lengths) > 0
    assert [step[name] for step in saving.metrics.values()] == pytest.approx(lengths, rel=1e-3)


def test_in_bf16_only_rounding_is_left(tmp_path: Path) -> None:
    """The log-probs worked out by hand are in float32."""
    result = run(tmp_path, "--ds.zero_stage=2", "--coevo.distill_forward=True", COEVO_TEST_BF16="1")
    distilled, plain = rows(result)
    rounded, templates = [], []
    for row in [*distilled, *plain]:
        values = on_question(row)
        old = response(row, "action_log_probs")
        assert response(row, "log_probs") == old
        # The first token has that of the sampler, which may not end there.
        near = [values, response(row, "rollout_log_probs")]
        rounded += [abs(a - b) for some in near for a, b in zip(old[1:], some[1:], strict=True)]
        if "under" in row:
            under = log_probs(row["under"], response_of(row))
            templates += [abs(a - b) for a, b in zip(values, under, strict=True)]
    assert 1e-3 < max(rounded) < 0.2
    assert mean(rounded) < 0.01
    assert mean(templates) > 0.1
