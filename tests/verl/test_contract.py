"""Check what VeRL may rename: each name that the adapter uses is removed from the real classes."""

from __future__ import annotations

import ast
import functools
import inspect
import math
import sys
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest
import torch
import verl
import verl.trainer.ppo.v1.trainer_base as host
from hydra import compose, initialize_config_module
from tensordict import NonTensorStack, TensorDict
from verl.experimental.agent_loop import agent_loop
from verl.protocol import DataProto
from verl.trainer.ppo.v1 import PPOTrainerSync
from verl.trainer.ppo.v1.replay_buffer import ReplayBuffer, ReplayBufferAsync

from prompt_coevo.adapters.verl import (
    asynchronous,
    contract,
    launch,
    policy,
    ratio,
    rollouts,
    trainer,
)
from prompt_coevo.adapters.verl.contract import _MENTIONED, LEANT_ON, check_distilled
from prompt_coevo.adapters.verl.distill import COLUMN, ERROR, REWARD, TRAINED, fingerprint
from prompt_coevo.adapters.verl.rollouts import collect, distilled, is_over, unpunished
from prompt_coevo.adapters.verl.trainer import CoevoTrainer
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment, Candidate, Rollout

TRAINERS = {
    "sync": CoevoTrainer,
    "colocate_async": asynchronous.CoevoColocateAsync,
    "separate_async": asynchronous.CoevoSeparateAsync,
}
PRIVATE = [(mode, name) for mode, (_, names) in LEANT_ON.items() for name in names]


def config(*overrides: str) -> Any:
    chosen = [
        "+coevo=stream",
        "actor_rollout_ref.rollout.n=4",
        "coevo.reflection.model=openai/teacher",
    ]
    with initialize_config_module("verl.trainer.config", version_base=None):
        return compose("ppo_trainer", overrides=[*chosen, *overrides])


def take_away(monkeypatch: pytest.MonkeyPatch, owner: type, name: str) -> None:
    for one in owner.__mro__:
        if name in vars(one):
            monkeypatch.delattr(one, name)


@pytest.mark.parametrize(
    ("method", "part"), [(method, part) for method, parts in _MENTIONED.items() for part in parts]
)
@pytest.mark.parametrize("mode", LEANT_ON)
def test_without_what_a_method_shares_with_us_there_is_no_trainer(
    monkeypatch: pytest.MonkeyPatch, mode: str, method: str, part: str
) -> None:
    owner, _ = LEANT_ON[mode]

    def renamed(names: tuple[Any, ...]) -> tuple[Any, ...]:
        return tuple("renamed" if name == part else name for name in names)

    for one in (one for one in owner.__mro__ if method in vars(one)):
        original = vars(one)[method]
        code = original.__code__
        changed = code.replace(
            co_names=renamed(code.co_names),
            co_varnames=renamed(code.co_varnames),
            co_consts=renamed(code.co_consts),
        )
        made = FunctionType(changed, {}, closure=original.__closure__)
        monkeypatch.setattr(one, method, made)
    with pytest.raises(
        HostError, match=rf"{owner.__name__}\.{method} does not know {part}, which .coevo needs"
    ):
        TRAINERS[mode](config())


@pytest.mark.parametrize(
    ("mode", "name"), PRIVATE, ids=[f"{mode}-{name}" for mode, name in PRIVATE]
)
def test_without_a_name_there_is_no_trainer(
    monkeypatch: pytest.MonkeyPatch, mode: str, name: str
) -> None:
    owner, _ = LEANT_ON[mode]
    take_away(monkeypatch, owner, name)
    with pytest.raises(
        HostError, match=f"{owner.__name__} has no {name}, which .coevo needs; inst"
    ):
        TRAINERS[mode](config())


@pytest.mark.parametrize(("mode", "modules"), [("sync", 1), ("colocate_async", 2)])
def test_all_that_is_overridden_is_among_them(mode: str, modules: int) -> None:
    """An override of a method that VeRL does not have would never be called."""
    named = {*LEANT_ON[mode][1], "__init__", "_observe", "_about_to_drop"}
    called = {
        node.attr
        for module in (trainer, asynchronous)[:modules]
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Call)
        and getattr(node.value.func, "id", "") == "super"
    }
    assert called <= named
    of_the_trainer = {
        node.attr
        for node in ast.walk(ast.parse(inspect.getsource(policy)))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Attribute)
        and node.value.attr == "_trainer"
        and node.attr.startswith("_")
    }
    assert of_the_trainer == {"_compute_reward_colocate"}
    assert of_the_trainer <= named


def buffer(monkeypatch: pytest.MonkeyPatch, *overrides: str) -> Any:
    """Return the replay buffer that our trainer makes VeRL build."""
    built = object.__new__(CoevoTrainer)
    built.config = config(*overrides)

    def build(_: Any) -> ReplayBuffer:
        return ReplayBuffer("sync", None, None, "drop", None)

    monkeypatch.setattr(PPOTrainerSync, "_build_replay_buffer", build)
    return built._build_replay_buffer()


def test_dynamic_sampling_that_drops_groups_unseen_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delattr(ReplayBuffer, "_clear_groups")
    with pytest.raises(
        HostError, match=r"_clear_groups, without which .coevo never sees the groups"
    ):
        buffer(monkeypatch, "algorithm.filter_groups.enable=True")
    buffer(monkeypatch, "algorithm.filter_groups.enable=False")


@pytest.mark.parametrize("name", ["finished_keys", "partitions"])
def test_and_so_is_one_whose_groups_cannot_be_read(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    made = ReplayBuffer("sync", None, None, "drop", None)
    delattr(made, name)
    with pytest.raises(HostError, match=f"has no {name}, without which"):
        contract.check_dropping(made)


def test_and_an_asynchronous_one_that_does_not_tell_what_is_too_old() -> None:
    contract.check_telling(ReplayBufferAsync("colocate_async", None, 1, "drop", None))
    with pytest.raises(HostError, match="has no _stale_terminal_keys, which .coevo needs"):
        contract.check_telling(ReplayBuffer("sync", None, None, "drop", None))


@pytest.mark.parametrize("mode", ["sync", "colocate_async"])
def test_a_part_that_cannot_be_imported_is_told_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    monkeypatch.delattr(agent_loop, "_agent_loop_registry")
    for name in ("asynchronous", "trainer", "generation", "distill"):
        monkeypatch.delitem(sys.modules, f"prompt_coevo.adapters.verl.{name}", raising=False)
    with pytest.raises(HostError, match=r"lacks a part .*_agent_loop_registry.* such as 0\.9\.1"):
        launch._register_trainer(mode)


def test_a_step_whose_rollouts_were_never_seen_ends_the_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As if VeRL no longer called what is overridden."""
    monkeypatch.setattr(PPOTrainerSync, "on_step_end", lambda _: None)
    built = object.__new__(CoevoTrainer)
    built._has_observed = False
    with pytest.raises(HostError, match="a step without computing advantages, so .coevo never saw"):
        built.on_step_end()


@pytest.mark.parametrize("status", ["done", None])
def test_a_status_that_is_unknown_is_not_waited_for(status: str | None) -> None:
    with pytest.raises(HostError, match=f"VeRL reports the status {status!r} of a group, which"):
        is_over({"status": status})  # type: ignore[typeddict-item]


def test_a_rollout_that_was_not_planned_ends_the_run() -> None:
    """As VeRL makes them for a column of the dataset with another number for each question."""
    planned = {"u_1": [Assignment("q"), Assignment("q")]}
    assert distilled(["u_1_0_0", "u_1_1_0"], planned) == []
    with pytest.raises(HostError, match=r"'q' came back with more than the 2 .*__rollout_n__"):
        distilled(["u_1_2_0"], planned)


def test_a_rollout_that_hides_its_weights_ends_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {COLUMN: [0, 0, 0], REWARD: 1.0}
    monkeypatch.setattr(rollouts, "tq", Rows(extra_fields=NonTensorStack(extra)))
    with pytest.raises(HostError, match=r"does not say with which weights it began .min_global_st"):
        collect(["u_0_0"], "train", {"u": [Assignment("q")]}, None, None, None)  # type: ignore[arg-type]


# The first distilled round


class Rows:
    """Stand in for TransferQueue."""

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    def kv_batch_get(self, keys: list[str], partition_id: str, select_fields: list[str]) -> Any:
        found = {name: self.fields[name] for name in select_fields if name in self.fields}
        return TensorDict(found, batch_size=len(keys))

    def kv_batch_put(self, keys: list[str], partition_id: str, fields: Any) -> None:
        self.fields |= dict(fields.items())


def jagged(*rows: list[float]) -> torch.Tensor:
    return torch.nested.as_nested_tensor([torch.tensor(row) for row in rows], layout=torch.jagged)


def distilled_rows(mark: int | None = None) -> dict[str, Any]:
    ids = [[5, 6], [7, 8, 9]]
    extras = [{TRAINED: fingerprint(row) if mark is None else mark} for row in ids]
    return {
        "prompts": jagged(*ids),
        "responses": jagged([1], [2, 3]),
        "input_ids": jagged([5, 6, 1], [7, 8, 9, 2, 3]),
        "extra_fields": NonTensorStack(*extras),
    }


def test_rows_on_the_question_are_right(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "tq", Rows(**distilled_rows()))
    check_distilled(["a", "b"], "train")


@pytest.mark.parametrize("name", ["prompts", "responses", "input_ids", "extra_fields"])
def test_rows_without_a_field_that_is_compared(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    rows = distilled_rows()
    del rows[name]
    monkeypatch.setattr(contract, "tq", Rows(**rows))
    with pytest.raises(HostError, match=f"VeRL's rows have no {name}, which .coevo needs"):
        check_distilled(["a", "b"], "train")


@pytest.mark.parametrize(
    "changed",
    [
        {"prompts": jagged([5, 6], [7, 8, 8])},
        {"input_ids": jagged([4, 6, 1], [7, 8, 9, 2, 3])},
        {"extra_fields": NonTensorStack({}, {})},
    ],
    ids=["another prompt", "another sequence", "no mark"],
)
def test_rows_on_anything_else_end_the_run(
    monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]
) -> None:
    monkeypatch.setattr(contract, "tq", Rows(**distilled_rows() | changed))
    with pytest.raises(HostError, match="not in TransferQueue with the prompt ids that"):
        check_distilled(["a", "b"], "train")


def test_a_loop_that_cannot_be_served_is_told_as_such(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error must not suggest another version of VeRL."""
    rows = distilled_rows() | {"extra_fields": NonTensorStack({ERROR: "the loop mine"}, {})}
    monkeypatch.setattr(contract, "tq", Rows(**rows))
    with pytest.raises(HostError, match="^the loop mine$"):
        check_distilled(["a", "b"], "train")


# Their fate


LOG_PROBS = {
    "old_log_probs": jagged([-1.0], [-2.0, -3.0]),
    "rollout_log_probs": jagged([-0.5], [-0.25, -0.125]),
    "response_mask": jagged([1], [1, 1]),
}


KEYS = ["a", "padding", "b"]


def padded() -> DataProto:
    """Return what VeRL has on the driver of two rows with a padding row between them."""
    return DataProto(
        batch=TensorDict(
            {
                "old_log_probs": torch.tensor([[-1.0, 0.0], [0.0, 0.0], [-2.0, -3.0]]),
                "rollout_log_probs": torch.tensor([[-0.5, 0.0], [0.0, 0.0], [-0.25, -0.125]]),
                "response_mask": torch.tensor([[1, 0], [0, 0], [1, 1]]),
                "responses": torch.tensor([[1, 0], [0, 0], [2, 3]]),
            },
            batch_size=3,
        )
    )


def test_a_correction_finds_no_template(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[Any] = []
    name = "compute_rollout_correction_and_add_to_batch"
    monkeypatch.setattr(
        host, name, lambda data, config: seen.append(data.batch["rollout_log_probs"].tolist())
    )
    for those, under in (([], {}), (["b"], {}), (["b"], {"b": torch.tensor([-0.75, -1.125])})):
        with ratio.correcting_the_sampler(KEYS, those, under):
            getattr(host, name)(padded(), None)
    plain = [[-0.5, 0.0], [0.0, 0.0]]
    assert seen == [
        [*plain, [-0.25, -0.125]],
        [*plain, [-2.0, -3.0]],
        [*plain, [-1.5, -2.0]],  # -2 - (-0.75 + 0.25): the sampler's own difference stays
    ]


def test_verls_metrics_of_the_sampler_are_of_plain_rows() -> None:
    def measured(distilled: list[str]) -> dict[str, float]:
        with ratio.measuring_plain_rows(KEYS, distilled):
            return host.calculate_debug_metrics(padded())

    largest = "training/rollout_probs_diff_max"
    assert measured([])[largest] == pytest.approx(math.exp(-0.125) - math.exp(-3.0))
    assert measured(["b"])[largest] == pytest.approx(math.exp(-0.5) - math.exp(-1.0))
    assert measured(["a", "b"]) == {}


@pytest.mark.parametrize("name", ["old_log_probs", "response_mask"])
def test_a_second_pass_without_log_probs_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(ratio, "tq", Rows(**{k: v for k, v in LOG_PROBS.items() if k != name}))
    with pytest.raises(HostError, match=f"the rows of a templated round have no {name}"):
        ratio.effect(["a", "b"], "train", {"a": torch.zeros(1), "b": torch.zeros(2)})


def test_another_reader_of_the_samplers_log_probs_is_not_trained_with(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        PPOTrainerSync,
        "_update_actor",
        lambda self, batch: [row["rollout_log_probs"] for row in batch],
    )
    with pytest.raises(HostError, match=r"_update_actor reads rollout_log_probs, which are under"):
        CoevoTrainer(config())
    contract.check_names("sync", distils=False)


@pytest.mark.parametrize("name", _MENTIONED)
def test_methods_that_somebody_has_wrapped_are_looked_into(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """As VeRL does it itself, or a user who measures time."""
    original = getattr(PPOTrainerSync, name)

    @functools.wraps(original)
    def timed(*args: Any, **kwargs: Any) -> Any:
        return original(*args, **kwargs)

    monkeypatch.setattr(PPOTrainerSync, name, timed, raising=False)
    contract.check_names("sync")


def test_no_part_of_verl_that_trains_reads_them() -> None:
    """A loss would see them under the template."""
    folder = Path(verl.__file__).parent / "workers"
    for path in [folder / "utils" / "losses.py", *folder.glob("engine_workers.py")]:
        assert "rollout_log_probs" not in path.read_text()


def test_rows_that_are_not_punished_have_no_negative_advantage(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rows = Rows(**LOG_PROBS, advantages=jagged([-1.0], [0.5, -1.0]))
    monkeypatch.setattr(ratio, "tq", rows)
    ratio.punish_nothing([], "train")
    ratio.punish_nothing(["a", "b"], "train")
    found = rows.fields["advantages"]
    assert found.values().tolist() == [0, 0.5, 0]
    assert found.offsets().tolist() == LOG_PROBS["response_mask"].offsets().tolist()


def test_all_rows_of_a_rollout_that_is_not_punished_are_found() -> None:
    """A rollout may be several rows; one succeeded, one has no template, one was aborted."""
    hint = Candidate("hint", "template")
    under = Assignment("q", template=hint, punished_from=1.0)
    planned = {"u": [under, under, Assignment("q", punished_from=1.0)], "v": [under]}
    plans = [one for group in planned.values() for one in group]
    rewards = [0.5, 1.0, 0.0, math.nan]
    rollouts = [Rollout(one, "", reward) for one, reward in zip(plans, rewards, strict=True)]
    keys = ["u_0_0", "u_0_1", "u_1_0", "u_2_0", "v_0_0"]
    assert unpunished(keys, rollouts, planned) == ["u_0_0", "u_0_1", "v_0_0"]
