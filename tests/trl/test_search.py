"""Check the search agent in the real GRPOTrainer, alone and under INSPO, with the real server.

Nothing is a stand-in: a freshly made policy searches a freshly made world, through the command
`prompt-coevo retrieval serve`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from helpers.inspo_world import Recorder
from helpers.search_agents import (
    FIRST,
    GOLD,
    IndexServer,
    check_tokens,
    rows,
    search_folder,
    searches_in,
    teach,
)
from helpers.spies import Spy
from helpers.trl_versions import since
from helpers.waits import waits_take_no_time
from prompt_coevo.adapters.trl import attach
from prompt_coevo.adapters.trl.search_agent import exact_match, search_agent
from prompt_coevo.errors import HostError, SettingsError
from prompt_coevo.tokens import encode
from prompt_coevo.types import Rollout

PATIENCE_S = 60.0
pytestmark = since("1.10", "what the search agent calls")


def test_without_a_length_nothing_is_sampled() -> None:
    trainer: Any = SimpleNamespace(max_completion_length=None)
    with pytest.raises(HostError, match="max_completion_length = None.*set it in GRPOConfig"):
        search_agent(url="http://127.0.0.1:9")([[{"role": "user", "content": "?"}]], trainer)


@pytest.fixture(scope="module")
def server() -> Iterator[IndexServer]:
    with IndexServer() as running:
        yield running


def make_trainer(
    folder: Path, url: str, steps: int, config: dict[str, Any] | None = None, **agent: Any
) -> Any:
    torch.manual_seed(0)
    policy = search_folder() / "policy"
    trainer = GRPOTrainer(
        model=AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32),
        processing_class=AutoTokenizer.from_pretrained(policy),
        reward_funcs=exact_match("golden_answers"),
        train_dataset=Dataset.from_list(rows()),
        rollout_func=search_agent(url=url, turn_tokens=24, observation_tokens=60, **agent),
        args=GRPOConfig(
            output_dir=str(folder / "out"),
            per_device_train_batch_size=16,
            num_generations=4,
            max_completion_length=240,
            learning_rate=1e-4,
            beta=0.0,
            max_steps=steps,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            logging_steps=1,
            disable_tqdm=True,
            **(config or {}),
        ),
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


def co_evolve(trainer: Any, recorder: Recorder) -> Any:
    return attach(
        trainer,
        {
            "algorithms": ("inspo",),
            "reflection": {"function": teach},
            "ground_truth_column": "golden_answers",
            "question_id_column": "id",
            "inspo": {
                "instruction": FIRST,
                "population_size": 3,
                "paraphrase": False,
                "prune_every": 2,
                "evolve_every": 2,
                "evolve_until": 1000,
                "verify_size": 3,
                "candidates_per_call": 2,
            },
        },
        plugins={"recorder": recorder},
    )


def rollouts(recorder: Recorder) -> list[Rollout]:
    return [one for groups in recorder.rounds for group in groups for one in group.rollouts]


@pytest.fixture(scope="module")
def run(server: IndexServer, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Spy, Recorder]:
    trainer = make_trainer(tmp_path_factory.mktemp("search"), server.url, steps=4)
    spy, recorder = Spy.on(trainer), Recorder()
    co_evolve(trainer, recorder)
    trainer.train()
    return trainer, spy, recorder


def test_observations_are_out_of_the_loss_and_sampled_ids_stay(run: Any) -> None:
    trainer, spy, _ = run
    turns = [
        (prompt, ids)
        for prompts, completions in spy.sampled
        for prompt, ids in zip(prompts, completions, strict=True)
    ]
    rows_of_loss = [
        (
            inputs["prompt_ids"][row][inputs["prompt_mask"][row].bool()].tolist(),
            inputs["completion_ids"][row][inputs["completion_mask"][row].bool()].tolist(),
            inputs["tool_mask"][row][inputs["completion_mask"][row].bool()].tolist(),
        )
        for inputs in spy.losses
        for row in range(len(inputs["prompt_ids"]))
    ]
    assert check_tokens(rows_of_loss, turns, trainer.processing_class) > 20


def test_an_answer_is_no_truncated_completion(server: IndexServer, tmp_path: Path) -> None:
    """With `mask_truncated_completions` answers are trained on; the end token after them is not."""
    trainer = make_trainer(
        tmp_path, server.url, steps=1, config={"mask_truncated_completions": True}
    )
    spy = Spy.on(trainer)
    trainer.train()
    tokenizer = trainer.processing_class
    answered = 0
    for inputs in spy.losses:
        fields = (
            inputs[name].tolist() for name in ("completion_ids", "completion_mask", "tool_mask")
        )
        for ids, kept, own in zip(*fields, strict=True):
            in_loss = [token for token, a, b in zip(ids, kept, own, strict=True) if a and b]
            if in_loss:
                answered += 1
                whole = [token for token, a in zip(ids, kept, strict=True) if a]
                assert whole[-1] == tokenizer.eos_token_id
                assert "</answer>" in tokenizer.decode(in_loss[-12:])
                assert own[len(whole) - 1] == 0
    assert answered >= 8


@pytest.mark.parametrize("masks", [True, False])
def test_an_episode_that_is_cut_short_is_out_of_the_loss(
    server: IndexServer, tmp_path: Path, masks: bool
) -> None:
    """By its turns, with or without an end token after the last one, or by its tokens."""
    config = {"mask_truncated_completions": masks}
    trainer = make_trainer(tmp_path, server.url, steps=1, config=config, max_turns=1)
    tokenizer, spy = trainer.processing_class, Spy.on(trainer)
    end = [tokenizer.eos_token_id]
    turns = [
        encode(tokenizer, "<answer> Ada </answer>"),
        [*encode(tokenizer, "hm"), *end],
        encode(tokenizer, "hm"),
        encode(tokenizer, "hm ") * 60,
    ]

    def generate(prompts: list[Any], *_: Any) -> tuple[list[list[int]], None]:
        return [turns[number % 4] for number in asked(prompts)], None

    def asked(prompts: list[Any]) -> list[int]:
        """Return the rows that are asked; those with an answer are over after the first turn."""
        return list(range(16)) if len(prompts) == 16 else [n for n in range(16) if n % 4]

    trainer._generate_single_turn = generate
    trainer.train()
    seen = []
    for inputs in spy.losses:
        counted = (inputs["completion_mask"] * inputs["tool_mask"]).bool()
        for ids, in_loss in zip(inputs["completion_ids"], counted, strict=True):
            seen.append((("</answer>" in tokenizer.decode(ids)), bool(in_loss.any())))
    assert sorted(seen) == [(False, not masks)] * 12 + [(True, True)] * 4


def test_a_trl_that_is_too_old_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for version, fine in (("1.9.3", False), ("1.10.0", True), ("1.10.0.dev0", True)):
        monkeypatch.setattr("trl.__version__", version)
        if fine:
            search_agent(url="http://x")
        else:
            with pytest.raises(HostError, match="needs TRL 1.10 or newer, and this is 1.9.3; run"):
                search_agent(url="http://x")


def test_at_least_half_of_the_episodes_search(run: Any) -> None:
    texts = [one.completion for one in rollouts(run[2])]
    assert sum(searches_in(text) > 0 for text in texts) >= len(texts) / 2


def test_rewards_and_instructions_belong_to_their_rollouts(run: Any) -> None:
    recorder = run[2]
    found = rollouts(recorder)
    assert {one.status for one in found} == {"ok"}
    assert {one.reward for one in found} == {0.0, 1.0}
    for one in found:
        right = f"<answer> {GOLD[one.assignment.question_id]} </answer>" in one.completion
        assert one.reward == right
    assert len({one.assignment.instruction.text for one in found if one.assignment.instruction}) > 1
    for group in (group for groups in recorder.rounds for group in groups):
        assert len({one.assignment.instruction for one in group.rollouts}) == 1


class KillAndRestart(TrainerCallback):
    """Stop the server for the second and third step."""

    def __init__(self, server: IndexServer) -> None:
        self._server = server

    def on_step_end(self, args: Any, state: Any, *rest: Any, **kwargs: Any) -> None:
        if state.global_step == 1:
            self._server.kill()
        if state.global_step == 3:
            self._server.start()


def test_a_killed_server_costs_the_rollouts_it_failed_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits_take_no_time(monkeypatch.setattr)
    with IndexServer() as mortal:
        recorder = Recorder()
        trainer = make_trainer(
            tmp_path, mortal.url, steps=5, on_outage="observe", request_timeout_s=PATIENCE_S
        )
        coevo = co_evolve(trainer, recorder)
        trainer.add_callback(KillAndRestart(mortal))
        trainer.train()
    assert trainer.state.global_step == 5
    by_round = [[one for group in groups for one in group.rollouts] for groups in recorder.rounds]
    failed = [sum(one.status == "tool_error" for one in round_) for round_ in by_round]
    assert failed[0] == failed[3] == failed[4] == 0
    assert failed[1] > 0
    assert failed[2] > 0
    unfit = coevo.engine.metrics()["coevo/unfit_rollouts"]
    assert unfit == sum(failed)
    for one in (one for round_ in by_round for one in round_ if one.status == "tool_error"):
        assert not one.fit
        assert "Search is not available at the moment" in one.completion


def test_waiting_for_a_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By default nothing is lost, and the run continues when the server is back."""
    waits_take_no_time(monkeypatch.setattr)
    pauses: list[float] = []
    with IndexServer() as mortal:
        recorder = Recorder()
        trainer = make_trainer(tmp_path, mortal.url, steps=2, request_timeout_s=PATIENCE_S)
        co_evolve(trainer, recorder)
        mortal.kill()

        async def pause(seconds: float) -> None:
            pauses.append(seconds)
            if len(pauses) == 3:
                mortal.start()

        loops = SimpleNamespace(**{**vars(asyncio), "sleep": pause})
        monkeypatch.setattr("prompt_coevo.retrieval.agent.tool.asyncio", loops)
        trainer.train()
    assert len(pauses) == 3
    assert {one.status for one in rollouts(recorder)} == {"ok"}


@pytest.mark.parametrize(
    ("settings", "part"),
    [
        ({}, "set either url, a search server, or index, a folder"),
        ({"url": "http://x", "index": "y"}, "set either url"),
        ({"url": "http://x", "kk": 3}, "unknown setting kk; did you mean k?"),
        ({"url": "http://x", "k": 0}, "k: input should be greater than or equal to 1"),
    ],
)
def test_settings_that_are_refused(settings: dict[str, Any], part: str) -> None:
    with pytest.raises(SettingsError) as caught:
        search_agent(**settings)
    assert part in str(caught.value)
