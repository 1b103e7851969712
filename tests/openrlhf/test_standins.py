"""Check OpenRLHF on the stand-ins without our plugin, which the other tests here rely on."""

from __future__ import annotations

import asyncio
import json
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from helpers.openrlhf_run import TASKS, OpenRLHFRun, Result, rows, run_openrlhf
from standins.openrlhf.vllm import AsyncEngineArgs, AsyncLLMEngine, SamplingParams
from standins.openrlhf.vllm.distributed.device_communicators.pynccl import PyNcclCommunicator
from standins.openrlhf.vllm.distributed.utils import StatelessProcessGroup
from standins.ports import LASTING
from standins.sampling import Request, log_probs, sample
from worlds.pairs.world import base_policy_path

TOKENIZER = AutoTokenizer.from_pretrained(base_policy_path())
EOS, PAD = TOKENIZER.eos_token_id, TOKENIZER.pad_token_id
PROMPTS = [
    TOKENIZER.apply_chat_template(
        [{"role": "user", "content": task.question}],
        add_generation_prompt=True,
        return_dict=True,
    )["input_ids"]
    for task in TASKS
]
CORRECTION = "--algo.advantage.is_correction_level=token"


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Result:
    result = run_openrlhf(
        tmp_path_factory.mktemp("plain"),
        val=rows(TASKS[:2]),
        reward="distinct_words",
        overrides=[CORRECTION, "--eval.steps=2", "--eval.temperature=0"],
    )
    assert result.returncode == 0, result.tail
    return result


def test_two_steps_and_an_evaluation(plain: Result) -> None:
    assert list(plain.metrics) == [1, 2]
    assert plain.metrics[1]["train/rollout/num_samples"] == 16
    assert "eval/eval_default_pass1" not in plain.metrics[1]
    assert "eval/eval_default_pass1" in plain.metrics[2]
    assert (plain.folder / "model" / "model.safetensors").exists()


def test_the_engine_gets_new_weights_after_each_step(plain: Result) -> None:
    assert [event["version"] for event in plain.weights()] == [0, 1, 2]
    assert len({event["checksum"] for event in plain.weights()}) == 3


def test_processes_meet_at_a_port_that_nobody_else_is_given(plain: Result) -> None:
    assert {row["master_port"] for row in plain.actor} <= set(LASTING)


def test_each_step_samples_under_the_weights_before_it(plain: Result) -> None:
    settings = Counter((event["version"], event["temperature"]) for event in plain.generated())
    assert settings == {(0, 1.0): 16, (1, 1.0): 16, (2, 0.0): 8}


def test_the_actor_trains_on_what_was_sampled(plain: Result) -> None:
    for step in (1, 2):
        trained = [row for row in plain.actor if row["step"] == step]
        sampled = [event for event in plain.generated() if event["version"] == step - 1]
        assert Counter(tuple(row["sequences"]) for row in trained) == Counter(
            tuple(event["prompt_ids"] + event["response_ids"]) for event in sampled
        )
    for row in plain.actor:
        prompt = TOKENIZER.encode(row["prompts"], add_special_tokens=False)
        answer = len(row["sequences"]) - len(prompt)
        assert row["action_mask"] == [0] * (len(prompt) - 1) + [1] * answer
        assert len(row["advantages"]) == len(row["log_probs"]) == len(row["action_mask"])
    assert any(value != 0 for row in plain.actor for value in row["advantages"])


def test_groups_are_adjacent_before_the_shuffling(plain: Result) -> None:
    for step in (1, 2):
        trained = [row for row in plain.actor if row["step"] == step]
        places = [row["position"] for row in trained]
        assert sorted(places) == list(range(16)) != places
        groups = {(row["position"] // 4, row["prompts"]) for row in trained}
        assert len(groups) == 4


def test_engine_and_actor_agree_on_log_probs(plain: Result) -> None:
    for row in plain.actor:
        assert row["rollout_log_probs"] == pytest.approx(row["action_log_probs"], abs=1e-3)
        assert row["log_probs"] == pytest.approx(row["action_log_probs"], abs=1e-3)
        assert row["base_action_log_probs"] is None
        assert min(row["action_log_probs"]) < 0


@pytest.mark.long
def test_a_killed_run_leaves_nothing_and_resumes(tmp_path: Path) -> None:
    def third_step(run: OpenRLHFRun) -> bool:
        return 3 in run.metrics()

    overrides = ["--ckpt.save_steps=1"]
    with OpenRLHFRun(
        tmp_path, reward="distinct_words", overrides=[*overrides, "--train.num_episodes=4"]
    ) as run:
        killed = run.kill_when(third_step)
    assert killed.returncode == -9
    assert not run.left_over()
    latest = (tmp_path / "checkpoints" / "_actor" / "latest").read_text()
    saved = int(latest.removeprefix("global_step"))
    resumed = run_openrlhf(
        tmp_path, reward="distinct_words", overrides=[*overrides, "--train.num_episodes=3"]
    )
    assert resumed.returncode == 0, resumed.tail
    assert list(resumed.metrics) == list(range(saved + 1, 7))
    assert {row["step"] for row in resumed.actor} == set(resumed.metrics)
    assert resumed.weights()[1]["checksum"] == killed.weights()[saved]["checksum"]


@pytest.mark.long
def test_async_training(tmp_path: Path) -> None:
    result = run_openrlhf(
        tmp_path, reward="distinct_words", overrides=["--train.async_enable", CORRECTION]
    )
    assert result.returncode == 0, result.tail
    assert list(result.metrics) == [1, 2]
    assert [event["version"] for event in result.weights()] == [0, 1, 2]
    assert len(result.actor) == len(result.generated()) == 32


def test_colocated_training_puts_the_engine_to_sleep(tmp_path: Path) -> None:
    result = run_openrlhf(
        tmp_path,
        reward="distinct_words",
        overrides=["--train.colocate_all", "--vllm.enable_sleep", "--algo.kl.init_coef=0.01"],
    )
    assert result.returncode == 0, result.tail
    kinds = [(event["event"], event.get("tags")) for event in result.server]
    assert [kind for kind in kinds if kind[0] != "generate"] == [
        ("weights", None),
        ("sleep", None),
        *[
            ("wake", ["weights"]),
            ("wake", ["kv_cache"]),
            ("sleep", None),
            ("wake", ["weights"]),
            ("weights", None),
        ]
        * 2,
        # the end of the episode, at which nothing is generated
        ("wake", ["weights"]),
        ("wake", ["kv_cache"]),
        ("sleep", None),
    ]


@pytest.fixture(scope="module")
def model() -> Any:
    torch.set_num_threads(1)
    return AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32).eval()


def test_before_min_tokens_nothing_ends(model: Any) -> None:
    free = [Request([*PROMPTS[0], EOS], 4, 50.0, seed) for seed in range(300)]
    forced = [Request([*PROMPTS[0], EOS], 4, 50.0, seed, min_tokens=2) for seed in range(300)]
    assert min(len(ids) for ids, _ in sample(model, free, EOS, PAD)) == 1
    assert min(len(ids) for ids, _ in sample(model, forced, EOS, PAD)) == 3


MakeEngine = Callable[..., AsyncLLMEngine]


@pytest.fixture
def make_engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MakeEngine:
    """Build the engine without Ray; its log is in `server.jsonl`."""
    monkeypatch.setenv("COEVO_TEST_SERVER_LOG", str(tmp_path / "server.jsonl"))

    def make(**changes: Any) -> AsyncLLMEngine:
        settings = {
            "max_model_len": 146,
            "enable_sleep_mode": True,
            "logprobs_mode": "processed_logprobs",
            **changes,
        }
        return AsyncLLMEngine.from_engine_args(
            AsyncEngineArgs(model=str(base_policy_path()), **settings)
        )

    return make


async def asked(engine: AsyncLLMEngine, prompts: list[list[int]], **params: Any) -> list[Any]:
    async def one(ids: list[int]) -> Any:
        settings = SamplingParams(**{"max_tokens": 18, "logprobs": 1, **params})
        outputs = engine.generate({"prompt_token_ids": ids}, settings, request_id="r")
        return (await anext(outputs)).outputs[0]

    return await asyncio.gather(*map(one, prompts))


async def sent(engine: AsyncLLMEngine, weights: dict[str, torch.Tensor]) -> None:
    """Broadcast the weights as OpenRLHF's actor does."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    joined = asyncio.create_task(
        engine.collective_rpc(
            "init_process_group", args=("127.0.0.1", port, 1, 2, "openrlhf", "gloo", False)
        )
    )
    group = await asyncio.to_thread(StatelessProcessGroup.create, "127.0.0.1", port, 0, 2)
    await joined
    actor = PyNcclCommunicator(group, "cpu")
    for number, (name, weight) in enumerate(weights.items(), 1):
        last = number == len(weights)
        update = engine.collective_rpc(
            "update_weight", args=(name, weight.dtype, weight.shape, last)
        )
        await asyncio.gather(update, asyncio.to_thread(actor.broadcast, weight, 0))


def test_the_engine_does_not_answer_in_its_sleep(make_engine: MakeEngine) -> None:
    async def scenario() -> None:
        engine = make_engine()
        await engine.sleep(level=1)
        with pytest.raises(RuntimeError, match="asleep"):
            await asked(engine, PROMPTS[:1])
        await engine.wake_up(["weights"])
        with pytest.raises(RuntimeError, match="asleep"):
            await asked(engine, PROMPTS[:1])
        await engine.wake_up(["kv_cache"])
        await asked(engine, PROMPTS[:1])
        await engine.sleep(level=2)
        await engine.wake_up()
        with pytest.raises(RuntimeError, match="before the engine got weights"):
            await asked(engine, PROMPTS[:1])

    asyncio.run(scenario())


def test_broadcast_weights_are_sampled_from(
    make_engine: MakeEngine, model: Any, tmp_path: Path
) -> None:
    weights = {name: weight * 1.1 for name, weight in model.named_parameters()}

    async def scenario() -> list[Any]:
        engine = make_engine()
        await engine.sleep(level=2)
        await engine.wake_up()
        await sent(engine, weights)
        return await asked(engine, PROMPTS)

    outputs = asyncio.run(scenario())
    changed = AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32).eval()
    changed.load_state_dict(weights)
    values = log_probs(changed, PROMPTS, [output.token_ids for output in outputs], [1.0] * 8, PAD)
    for output, expected in zip(outputs, values, strict=True):
        given = [
            step[token].logprob
            for token, step in zip(output.token_ids, output.logprobs, strict=True)
        ]
        assert given == pytest.approx(expected, abs=1e-4)
    events = [json.loads(line) for line in (tmp_path / "server.jsonl").read_text().splitlines()]
    assert [event["version"] for event in events if event["event"] == "weights"] == [0, 1]
    assert {event["version"] for event in events if event["event"] == "generate"} == {1}


def test_the_engine_answers_the_same_in_any_order(make_engine: MakeEngine) -> None:
    async def answers(prompts: list[list[int]]) -> Counter[Any]:
        outputs = await asked(make_engine(), prompts)
        return Counter(
            (tuple(p), tuple(o.token_ids)) for p, o in zip(prompts, outputs, strict=True)
        )

    forwards = asyncio.run(answers(PROMPTS * 2))
    assert forwards == asyncio.run(answers(PROMPTS[::-1] * 2))
    assert len(forwards) > len(PROMPTS)


def test_a_paused_engine_answers_later(make_engine: MakeEngine) -> None:
    async def scenario() -> Any:
        engine = make_engine()
        await engine.pause_generation(mode="keep")
        waiting = asyncio.create_task(asked(engine, PROMPTS[:1]))
        await asyncio.sleep(0.1)
        assert not waiting.done()
        assert engine.output_processor.get_num_unfinished_requests() == 1
        await engine.resume_generation()
        return await waiting

    (output,) = asyncio.run(scenario())
    assert output.finish_reason == "stop"


def test_a_script_replaces_what_was_sampled(
    make_engine: MakeEngine, model: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COEVO_TEST_SCRIPT", f"{__name__}:script")
    monkeypatch.setattr("standins.script.import_module", lambda _: SimpleNamespace(script=say))
    scripted, sampled = asyncio.run(asked(make_engine(), PROMPTS[:2], temperature=0.0))
    assert scripted.text == "1 2"
    assert TOKENIZER.decode(scripted.token_ids) == "1 2 <end>"
    greedy = sample(model, [Request(PROMPTS[1], 18, 0.0, 0)], EOS, PAD)[0][0]
    assert sampled.token_ids == greedy


def say(prompt: str, sampled: str) -> str | None:
    return "1 2" if TASKS[0].question in prompt else None


def test_what_the_engine_cannot_do_is_refused(make_engine: MakeEngine) -> None:
    with pytest.raises(NotImplementedError, match="top_p"):
        SamplingParams(top_p=0.9, logprobs=1)
    with pytest.raises(NotImplementedError, match="raw_logprobs"):
        asyncio.run(asked(make_engine(logprobs_mode="raw_logprobs"), PROMPTS[:1]))
    with pytest.raises(RuntimeError, match="enable_sleep_mode"):
        asyncio.run(make_engine(enable_sleep_mode=False).sleep())
