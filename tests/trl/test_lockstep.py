"""Check that a process whose policy rollouts fail stays in step with the others where it can;
`test_ranks.py` runs two."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from prompt_coevo.adapters.trl.lockstep import Lockstep
from prompt_coevo.errors import OutOfStep


def trainer(processes: int = 2, **changes: Any) -> Any:
    parts: dict[str, Any] = {
        "accelerator": SimpleNamespace(
            num_processes=processes, process_index=1, device="cpu", gather=lambda own: own
        ),
        "use_vllm": False,
        "is_deepspeed_enabled": False,
        "is_fsdp_enabled": False,
        "rollout_func": None,
        "reward_funcs": [len, len],
        "processing_class": SimpleNamespace(eos_token_id=7),
    }
    return SimpleNamespace(**(parts | changes))


def down() -> Any:
    raise RuntimeError("it is down")


def test_a_process_that_cannot_sample_ends_its_completions_at_once() -> None:
    host = trainer()
    in_step, calls = Lockstep(host), []

    def generate(prompts: list[str]) -> Any:
        calls.append(prompts)
        return down() if host.rollout_func is None else host.rollout_func(prompts, host)

    def one_round() -> None:
        with in_step.round():
            found = in_step.generate(generate, ["a", "b"], lambda: ["placed a", "placed b"])
            assert found["completion_ids"] == found["prompt_ids"] == [[7], [7]]
            rewards = in_step.rewards(down, 2)  # nothing is scored that was not sampled
            assert rewards.shape == (2, 2)
            assert rewards.isnan().all()

    with pytest.raises(RuntimeError, match="it is down"):
        one_round()
    assert calls == [["placed a", "placed b"], ["a", "b"]]
    assert host.rollout_func is None


def test_a_process_without_rewards_gathers_nan_and_a_later_round_works() -> None:
    in_step, gathered = Lockstep(trainer()), []

    def fails() -> None:
        with in_step.round():
            gathered.append(in_step.rewards(down, 2))

    with pytest.raises(RuntimeError, match="it is down"):
        fails()
    assert gathered[0].isnan().all()  # what the others wait for was sent
    with in_step.round():
        assert in_step.rewards(lambda: torch.ones(2, 2), 2).sum() == 4


@pytest.mark.parametrize(
    "together",
    [
        {"use_vllm": True},
        {"is_deepspeed_enabled": True},
        {"is_fsdp_enabled": True},
        {"rollout_func": len},
    ],
)
def test_where_processes_sample_together_one_that_cannot_ends_the_run(together: Any) -> None:
    in_step, calls = Lockstep(trainer(**together)), []

    def generate(prompts: list[str]) -> Any:
        calls.append(prompts)
        return down()

    with pytest.raises(RuntimeError) as raised:
        in_step.generate(generate, ["a"], lambda: ["placed a"])
    assert calls == [["placed a"]]
    said = in_step.elsewhere(raised.value)
    assert isinstance(said, OutOfStep)
    assert str(said) == (
        "a policy rollout failed on rank 1 where the other ranks wait for it, so training cannot go on: "
        "RuntimeError: it is down"
    )


def test_a_single_process_catches_nothing() -> None:
    in_step = Lockstep(trainer(processes=1))
    with pytest.raises(RuntimeError):
        in_step.generate(lambda _: down(), ["a"], lambda: ["a"])
    with pytest.raises(RuntimeError):
        in_step.rewards(down, 1)
    error = RuntimeError("it is down")
    assert in_step.elsewhere(error) is error
