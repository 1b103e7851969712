"""Check both methods in the real GRPOTrainer on the real vLLM, in-process and on a server.

Two things are replaced. With a server, NCCL: weights go through a file and vLLM's own `reload_weights`. In
one process, how the CPU build packs weights: a plugin keeps them loadable (`tests/standins/vllm_cpu`).
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from transformers import AutoModelForCausalLM
from trl.generation.vllm_client import VLLMClient

from helpers.inspo_world import FIRST, INSPO
from helpers.real_vllm import VllmServer
from helpers.sampler_spy import SamplerSpy
from helpers.spies import Logps, Spy
from helpers.trl_runs import P2O, events
from helpers.trl_world import TASKS, FixedTemplates, right_hint, score
from prompt_coevo.adapters.trl import attach

torch.set_num_threads(1)
MODES = ("colocate", "server")
# The whole group of every other question has one template; or all of a group have different ones.
HINTS = {f"q{n}": [right_hint(task)] for n, task in enumerate(TASKS) if n % 2}
DIVERSE = {f"q{n}": [right_hint(task), "note please", "now", ""] for n, task in enumerate(TASKS)}
FIXED = {"algorithms": (), "question_id_column": "id"}
CLOSE = 1e-4


@pytest.fixture(params=MODES)
def make(
    request: pytest.FixtureRequest,
    make_trainer: Callable[..., Any],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Any]:
    if request.param == "colocate":
        return make_trainer
    server: VllmServer = request.getfixturevalue("server")
    weights = tmp_path / "weights"
    weights.mkdir()

    def update(self: Any, metadata: Any, named_params: Any) -> None:
        named = {name: tensor.detach().clone().contiguous() for name, tensor in named_params}
        save_file(named, weights / "model.safetensors", metadata={"format": "pt"})
        reload = {"method": "reload_weights", "kwargs": {"weights_path": str(weights)}}
        answer = self.session.post(f"{self.base_url}/collective_rpc", json=reload)
        assert answer.status_code == 200, answer.text

    monkeypatch.setattr(VLLMClient, "init_communicator", lambda self, device=0: None)
    monkeypatch.setattr(VLLMClient, "update_named_params", update)

    def make(**config: Any) -> Any:
        return make_trainer(**config, vllm_mode="server", vllm_server_base_url=server.url)

    return make


@pytest.fixture
def base(policy: Path) -> Any:
    return AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32).eval()


def reply(prompt: str) -> str:
    """Return two more instructions for INSPO, or hints for P2O."""
    if "<ins_0>" in prompt:
        return f"<ins_1>{FIRST} now</ins_1>\n<ins_2>{FIRST} carefully</ins_2>"
    words = {word: skill for task in TASKS for word, skill in clauses(task) if word in prompt}
    return f"<template>{' '.join(f'{w} means {s} .' for w, s in words.items())}</template>"


def clauses(task: Any) -> list[tuple[str, str]]:
    hint = right_hint(task).split(" . ")
    return [(part.split()[0], part.split()[2]) for part in hint]


def test_both_methods_evolve_and_distil(
    make: Callable[..., Any], tokenizer: Any, base: Any
) -> None:
    """Two epochs with a search between them and an evolution; the sampler always has the current policy."""
    trainer = make(
        max_steps=4, per_device_train_batch_size=16, reward_funcs=score, learning_rate=1e-2
    )
    spy, sampler = Spy.on(trainer), SamplerSpy.on(trainer)
    start = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    attach(
        trainer,
        {
            "algorithms": ("inspo", "p2o"),
            "question_id_column": "id",
            "reflection": {"function": reply},
            "inspo": {**INSPO, "evolve_every": 2},
            "p2o": {**P2O, "search_budget": 40},
        },
    )
    trainer.train()

    names = [event["event"] for event in events(trainer)]
    assert {"templates_assigned", "candidate_verified", "training_ended"} <= set(names)
    changed = [event for event in events(trainer) if event["event"] == "population_changed"]
    assert any(one["origin"] == "reflection" for event in changed for one in event["added"])

    # Templates reached the engine and no loss; instructions reached both.
    means, note = tokenizer.convert_tokens_to_ids(["means", "note"])
    rounds = [call for call in sampler.calls if call.training]
    assert len(rounds) == len(spy.losses) == 4
    templated = [[means in prompt for prompt in call.prompts] for call in rounds]
    assert not any(templated[0] + templated[1])
    assert any(templated[2] + templated[3])
    for index, call in enumerate(rounds):
        trained = spy.rows(index)
        assert all(note in prompt and means not in prompt for prompt, _ in trained)
        assert sorted(completion for _, completion in trained) == sorted(call.completions)

    # In all rounds and in the search between them.
    assert len(sampler.calls) > len(rounds)
    for call in sampler.calls:
        if call.temperature > 0:
            assert call.error(base) < CLOSE
    assert rounds[-1].error(base, start) > 100 * CLOSE


def test_every_template_of_a_group_is_sampled(make: Callable[..., Any], tokenizer: Any) -> None:
    trainer = make(max_steps=1, per_device_train_batch_size=16)
    sampler = SamplerSpy.on(trainer)
    attach(trainer, FIXED, plugins={"templates": FixedTemplates(DIVERSE)})
    trainer.train()
    (call,) = sampler.calls
    assert len(call.prompts) == 16
    assert len({tuple(prompt) for prompt in call.prompts}) == 16


def test_the_samplers_log_probs_reach_no_correction(
    make: Callable[..., Any], tokenizer: Any, base: Any
) -> None:
    trainer = make(max_steps=1, per_device_train_batch_size=32)
    spy = Spy.on(trainer)
    attach(trainer, FIXED, plugins={"templates": FixedTemplates(HINTS)})
    trainer.train()
    found = Logps(spy, 0, tokenizer, base)
    rows, mask = found.templated, found.mask
    assert 0 < rows.sum() < len(rows)
    difference = (found.on_question - found.on_rollout).exp()[rows][mask[rows]]
    assert difference.min() < 0.05  # what would stand in the loss if the two were mixed up
    correction = found.loss["importance_sampling_ratio"]
    assert (correction[rows] == 1).all()
    assert (correction[~rows] - 1)[
        mask[~rows] if correction.shape[1] > 1 else ...
    ].abs().max() < 1e-3
    assert found.close(found.loss["sampling_per_token_logps"], found.on_question)
