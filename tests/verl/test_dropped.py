"""Check what VeRL's trainers drop before training on it, without a trainer."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from omegaconf import OmegaConf
from tensordict import NonTensorStack, TensorDict
from transfer_queue.storage.managers.simple_storage_manager import AsyncSimpleStorageManager
from verl.trainer.ppo.v1 import PPOTrainer
from verl.trainer.ppo.v1.replay_buffer import ReplayBufferAsync

from prompt_coevo.adapters.verl import asynchronous, generation, policy, rollouts, trainer
from prompt_coevo.adapters.verl.asynchronous import CoevoColocateAsync
from prompt_coevo.adapters.verl.trainer import Coevolving, CoevoTrainer
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment


class InFlight:
    def __init__(self) -> None:
        self.back: list[Any] = []
        self.forgotten: set[str] = set()

    def came_back(self, rollouts: list[Any], names: set[str]) -> None:
        self.back += rollouts
        self.forgotten |= set(names)


def built(monkeypatch: pytest.MonkeyPatch, filters: bool) -> tuple[Any, InFlight, list[Any]]:
    """Build a trainer with three groups: one too old, one with a failed rollout, one with equal rewards."""
    made = object.__new__(CoevoColocateAsync)
    notes: list[Any] = []
    under_way = InFlight()
    made.config = OmegaConf.create({"algorithm": {"filter_groups": {"enable": filters}}})
    made.tokenizer = None
    buffer = made.replay_buffer = ReplayBufferAsync("colocate_async", None, 1, "drop", None)
    buffer.finished_keys["train"] = {"a", "c"}
    buffer.partitions["train"] = {"a_0_0": {}, "b_0_0": {}, "c_0_0": {}}
    buffer.prompt_global_steps["train"] = {"a": 1, "b": 2, "c": 2}
    made.global_steps = 2
    made._engine = SimpleNamespace(
        context=SimpleNamespace(note=lambda name, **fields: notes.append((name, fields)))
    )
    made._dispatcher = SimpleNamespace(under_way=under_way)
    made._policy = SimpleNamespace(check_living=lambda: notes.append("who lives?"))
    monkeypatch.setattr(made, "_collect", lambda keys, texts: list(keys))
    return made, under_way, notes


def test_what_verl_drops_is_told_and_whole_groups_are_observed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, under_way, notes = built(monkeypatch, filters=False)
    cleared: list[Any] = []
    made._around_clear_groups(lambda *given: cleared.append(given), "train", {"a", "b"})
    assert under_way.back == ["a_0_0"]
    assert under_way.forgotten == {"a", "b"}
    assert notes == ["who lives?", ("groups_dropped", {"too_old": 1, "failed": 1})]
    assert cleared == [("train", {"a", "b"})]


def test_dynamic_sampling_is_no_loss(monkeypatch: pytest.MonkeyPatch) -> None:
    made, under_way, notes = built(monkeypatch, filters=True)
    made._around_clear_groups(lambda *_: None, "train", {"c"})
    assert under_way.back == ["c_0_0"]
    assert not notes


def test_but_what_is_too_old_or_failed_beside_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    made, under_way, notes = built(monkeypatch, filters=True)
    made._around_clear_groups(lambda *_: None, "train", {"a", "b", "c"})
    assert under_way.back == ["a_0_0", "c_0_0"]
    made._around_clear_groups(lambda *_: None, "train", {"a"})
    assert notes == [
        "who lives?",
        ("groups_dropped", {"too_old": 1, "failed": 1}),
        ("groups_dropped", {"too_old": 1, "failed": 0}),
    ]


def test_groups_without_a_row_are_told(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """All rollouts failed, or a sampler of the user's dropped them."""
    notes: list[Any] = []
    groups = {"b": [Assignment("q")]}
    made: Any = object.__new__(CoevoTrainer)
    made._engine = SimpleNamespace(
        context=SimpleNamespace(note=lambda name, **fields: notes.append((name, fields)))
    )
    made._dispatcher = SimpleNamespace(
        under_way=SimpleNamespace(all=lambda: dict(groups), clear=groups.clear)
    )
    monkeypatch.setattr(Coevolving, "_observe", lambda *_: None)
    for _ in range(2):
        made._observe([], {})
    assert notes == [("groups_dropped", {"too_old": 0, "failed": 1})]
    assert "1 groups that were sampled did not come back" in caplog.text
    assert "to drop groups, take algorithm.filter_groups instead" in caplog.text


@pytest.mark.parametrize(
    ("name", "is_watched"),
    [
        ("algorithm.filter_groups.enable", True),
        ("trainer.v1.sampler.sync_refill_failed_groups", True),
        ("trainer.v1.sampler.other", False),
    ],
)
def test_whatever_replaces_groups_is_watched(
    monkeypatch: pytest.MonkeyPatch, name: str, is_watched: bool
) -> None:
    """Otherwise groups would be sampled again for ever where their server has died."""
    made: Any = object.__new__(CoevoTrainer)
    made.config = OmegaConf.create({})
    OmegaConf.update(made.config, name, True)
    watched: list[Any] = []
    monkeypatch.setattr(PPOTrainer, "_build_replay_buffer", lambda _: "the buffer")
    monkeypatch.setattr(made, "_watch_dropping", watched.append)
    assert made._build_replay_buffer() == "the buffer"
    assert bool(watched) == is_watched


def test_prompts_that_a_checkpoint_held_are_the_same_rows() -> None:
    """VeRL restarts interrupted samples from TransferQueue's checkpoint, and they are planned anew."""
    columns = {
        "raw_prompt": [[{"role": "user", "content": text}] for text in "ab"],
        "extra_info": [{"index": 0, "more": [1, 2]}, {"index": 1, "more": []}],
        "uid": ["one", "two"],
    }
    sent = TensorDict(
        {name: NonTensorStack(*values) for name, values in columns.items()}, batch_size=2
    )
    pack = AsyncSimpleStorageManager._pack_field_values
    back = TensorDict({name: pack(sent.get(name).tolist()) for name in columns}, batch_size=2)
    assert generation._rows(back) == generation._rows(sent)
    assert [row["raw_prompt"] for row in generation._rows(back)] == columns["raw_prompt"]


class Store:
    """Stand in for TransferQueue with a checkpoint's content."""

    def __init__(self) -> None:
        self.tags = {
            "planned": {"is_prompt": True, "status": "finished"},
            "planned_0_0": {},
            "stranger": {"is_prompt": True, "status": "finished"},
            "stranger_0_0": {},
            "running": {"is_prompt": True, "status": "running"},
        }

    def kv_list(self, partition_id: str) -> dict[str, Any]:
        return {partition_id: dict(self.tags) if partition_id == "train" else {}}

    def kv_clear(self, keys: list[str], partition_id: str) -> None:
        for key in keys:
            del self.tags[key]


@pytest.mark.parametrize("has_state", [True, False])
def test_only_what_was_planned_is_taken_up_from_a_checkpoint(
    monkeypatch: pytest.MonkeyPatch, has_state: bool
) -> None:
    store = Store()
    for module in (asynchronous, rollouts, policy):
        monkeypatch.setattr(module, "tq", store)
    monkeypatch.setattr(trainer.Coevolving, "_load_checkpoint", lambda _: None)
    monkeypatch.setattr(asynchronous, "_read_plans", lambda _: {"planned": [], "gone": []})
    made = object.__new__(CoevoColocateAsync)
    made.global_steps, made._restored_tq_prompt_count = 2, 3
    made._due = SimpleNamespace(step_due=has_state)
    monkeypatch.setattr(made, "_checkpoint", lambda: asynchronous.Path("checkpoint"))
    made._load_checkpoint()
    assert list(made._resumed) == (["planned"] if has_state else [])
    left = {"planned", "planned_0_0", "running"} if has_state else {"running"}
    assert set(store.tags) == left
    assert made._restored_tq_prompt_count == (2 if has_state else 1)


def test_strangers_that_cannot_be_replaced_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if VeRL had renamed its count, or did not count yet (0.9.0)."""
    made = object.__new__(CoevoColocateAsync)
    made._drop(set())
    with pytest.raises(HostError, match="it does not count what it restores"):
        made._drop({"stranger"})
