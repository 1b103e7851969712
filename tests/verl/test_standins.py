"""Check VeRL on the stand-ins without our plugin, which the other tests here rely on."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from helpers.verl_run import TASKS, Result, VerlRun, run_verl
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


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Result:
    result = run_verl(
        tmp_path_factory.mktemp("plain"),
        overrides=[
            "trainer.total_training_steps=2",
            "trainer.test_freq=2",
            "reward.custom_reward_function.name=distinct_words",
        ],
    )
    assert result.returncode == 0, result.tail
    return result


def test_two_steps_and_a_validation(plain: Result) -> None:
    assert list(plain.metrics) == [1, 2]
    assert plain.metrics[2]["training/global_step"] == 2
    assert all(plain.metrics[step]["actor/grad_norm"] > 0 for step in (1, 2))
    assert "val-core/demo/acc/mean@1" in plain.metrics[2]


def test_the_server_gets_new_weights_after_each_step(plain: Result) -> None:
    weights = plain.weights()
    assert [event["global_steps"] for event in weights] == [0, 1, 2]
    assert len({event["checksum"] for event in weights}) == 3
    kinds = [event["event"] for event in plain.server if event["event"] != "generate"]
    assert kinds == [
        "sleep",
        *(["wake", "weights", "wake", "sleep"] * 2),
        "wake",
        "weights",
        "wake",
    ]


def test_processes_meet_at_a_port_that_nobody_else_is_given(plain: Result) -> None:
    assert {row["master_port"] for row in plain.actor} <= set(LASTING)


def test_each_step_samples_under_the_weights_before_it(plain: Result) -> None:
    settings = Counter((event["global_steps"], event["temperature"]) for event in plain.generated())
    assert settings == {(0, 1.0): 16, (1, 1.0): 16, (2, 0.0): 2}


def test_the_actor_trains_on_what_was_sampled(plain: Result) -> None:
    for step in (1, 2):
        rows = [row for row in plain.actor if row["global_steps"] == step]
        sampled = [event for event in plain.generated() if event["global_steps"] == step - 1]
        assert _pairs(rows, "prompts", "responses") == _pairs(sampled, "prompt_ids", "response_ids")
    assert {tuple(row["prompts"]) for row in plain.actor} == {tuple(ids) for ids in PROMPTS}
    assert len({(row["uid"], row["session_id"]) for row in plain.actor}) == 32
    for row in plain.actor:
        assert row["input_ids"] == row["prompts"] + row["responses"]
        assert row["response_mask"] == [1] * len(row["responses"])
        assert len(row["advantages"]) == len(row["responses"])
    assert any(value != 0 for row in plain.actor for value in row["advantages"])


def _pairs(rows: list[dict[str, Any]], *names: str) -> Counter[Any]:
    return Counter(tuple(tuple(row[name]) for name in names) for row in rows)


def test_server_and_actor_agree_on_log_probs(plain: Result) -> None:
    for row in plain.actor:
        assert row["rollout_log_probs"] == pytest.approx(row["old_log_probs"], abs=1e-3)
        assert row["log_probs"] == pytest.approx(row["old_log_probs"], abs=1e-3)
        assert row["ref_log_prob"] is None
        assert min(row["old_log_probs"]) < 0


@pytest.mark.long
def test_a_killed_run_leaves_nothing_and_resumes(tmp_path: Path) -> None:
    def second_step(run: VerlRun) -> bool:
        return 2 in run.metrics()

    overrides = ["trainer.save_freq=1", "trainer.total_epochs=2"]
    with VerlRun(tmp_path, overrides=[*overrides, "trainer.total_training_steps=4"]) as run:
        killed = run.kill_when(second_step)
    assert killed.returncode == -9
    assert not run.left_over()
    saved = int((tmp_path / "checkpoints" / "latest_checkpointed_iteration.txt").read_text())
    resumed = run_verl(
        tmp_path, overrides=[*overrides, f"trainer.total_training_steps={saved + 1}"]
    )
    assert resumed.returncode == 0, resumed.tail
    assert list(resumed.metrics) == [saved + 1]
    assert resumed.weights()[0] == killed.weights()[saved]


@pytest.fixture(scope="module")
def model() -> Any:
    torch.set_num_threads(1)
    return AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32).eval()


def requests(**changes: Any) -> list[Request]:
    settings = {"max_tokens": 18, "temperature": 1.0, **changes}
    return [Request(ids, seed=number, **settings) for number, ids in enumerate(PROMPTS)]


def test_a_row_does_not_depend_on_its_batch(model: Any) -> None:
    together = sample(model, requests(), EOS, PAD)
    alone = [sample(model, [request], EOS, PAD)[0] for request in requests()]
    assert [ids for ids, _ in together] == [ids for ids, _ in alone]
    assert all(ids[-1] == EOS and EOS not in ids[:-1] for ids, _ in together)


def test_temperature_0_is_greedy(model: Any) -> None:
    for request, (ids, _) in zip(
        requests(), sample(model, requests(temperature=0.0), EOS, PAD), strict=True
    ):
        output = model.generate(
            torch.tensor([request.prompt_ids]), do_sample=False, max_new_tokens=18
        )
        assert output[0, len(request.prompt_ids) :].tolist() == ids


@pytest.mark.parametrize("temperature", [0.0, 0.7, 1.0])
def test_log_probs_are_under_the_temperature(model: Any, temperature: float) -> None:
    answers = sample(model, requests(temperature=temperature), EOS, PAD)
    values = log_probs(model, PROMPTS, [ids for ids, _ in answers], [temperature] * 8, PAD)
    for (ids, sampled), forward in zip(answers, values, strict=True):
        assert len(sampled) == len(ids)
        assert sampled == pytest.approx(forward, abs=1e-4)


def test_frequencies_follow_the_probabilities(model: Any) -> None:
    many = [Request(PROMPTS[0], 2, 1.0, seed) for seed in range(2000)]
    found = Counter(ids[1] for ids, _ in sample(model, many, EOS, PAD))
    first = sample(model, many[:1], EOS, PAD)[0][0][0]
    with torch.no_grad():
        expected = model(torch.tensor([[*PROMPTS[0], first]])).logits[0, -1].softmax(-1)
    for token, count in found.most_common(3):
        assert count / 2000 == pytest.approx(float(expected[token]), abs=0.04)


@pytest.mark.parametrize("change", [{"top_k": 1}, {"top_p": 1e-6}])
def test_top_k_and_top_p(model: Any, change: dict[str, Any]) -> None:
    greedy = sample(model, requests(temperature=0.0), EOS, PAD)
    filtered = sample(model, requests(temperature=5.0, **change), EOS, PAD)
    assert [ids for ids, _ in filtered] == [ids for ids, _ in greedy]


def test_every_row_has_its_own_limit(model: Any) -> None:
    asked = [Request(ids, n + 1, 1.0, seed=n) for n, ids in enumerate(PROMPTS)]
    assert [len(ids) for ids, _ in sample(model, asked, EOS, PAD)] == list(range(1, 9))


MakeServer = Callable[[], Any]


@pytest.fixture
def make_server(model: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MakeServer:
    """Build the rollout server without Ray; its log is in `server.jsonl`."""
    from standins.verl.server import Server

    monkeypatch.setenv("COEVO_TEST_SERVER_LOG", str(tmp_path / "server.jsonl"))

    def make() -> Any:
        model_config = SimpleNamespace(tokenizer=TOKENIZER, local_path=str(base_policy_path()))
        return Server(SimpleNamespace(response_length=18), model_config, 0)

    return make


async def asked(server: Any, prompts: list[list[int]], **params: Any) -> list[Any]:
    return await asyncio.gather(
        *(server.generate(ids, {"logprobs": True, **params}, "r") for ids in prompts)
    )


def test_the_server_does_not_answer_in_its_sleep(make_server: MakeServer, model: Any) -> None:
    async def scenario() -> None:
        server = make_server()
        with pytest.raises(RuntimeError, match="before the server got weights"):
            await asked(server, PROMPTS[:1])
        await server.load_weights(model.state_dict(), 0)
        await asked(server, PROMPTS[:1])
        await server.sleep()
        with pytest.raises(RuntimeError, match="asleep"):
            await asked(server, PROMPTS[:1])
        await server.wake_up(["weights"])
        with pytest.raises(RuntimeError, match="asleep"):
            await asked(server, PROMPTS[:1])
        await server.wake_up(["kv_cache"])
        with pytest.raises(RuntimeError, match="before the server got weights"):
            await asked(server, PROMPTS[:1])

    asyncio.run(scenario())


def test_the_server_answers_the_same_in_any_order(make_server: MakeServer, model: Any) -> None:
    async def answers(prompts: list[list[int]]) -> Counter[Any]:
        server = make_server()
        await server.load_weights(model.state_dict(), 0)
        outputs = await asked(server, prompts, temperature=1.0)
        return Counter(
            (tuple(p), tuple(o.token_ids)) for p, o in zip(prompts, outputs, strict=True)
        )

    forwards = asyncio.run(answers(PROMPTS * 2))
    assert forwards == asyncio.run(answers(PROMPTS[::-1] * 2))
    assert len(forwards) > len(PROMPTS)


def test_the_server_stops_in_the_middle_and_goes_on_later(
    make_server: MakeServer, model: Any
) -> None:
    """As vLLM's for VeRL's asynchronous trainers; requests during a stop wait, or are sent back."""

    async def scenario() -> None:
        server = make_server()
        await server.load_weights(model.state_dict(), 0)
        under_way = asyncio.create_task(asked(server, PROMPTS))
        while not server._batcher.busy:
            await asyncio.sleep(0.001)
        await server.abort_all_requests()
        outputs = await under_way
        for output in outputs:
            whole = output.token_ids[-1:] == [EOS]
            assert output.stop_reason == ("completed" if whole else "aborted")
            assert len(output.log_probs) == len(output.token_ids)
        assert any(output.stop_reason == "aborted" for output in outputs)
        late = asyncio.create_task(asked(server, PROMPTS[:1]))
        await server.sleep()
        await asyncio.sleep(0.05)
        assert not late.done()
        await server.abort_all_requests(reject_request=True)
        (sent_back,) = await asked(server, PROMPTS[:1])
        assert (sent_back.stop_reason, sent_back.token_ids) == ("aborted", [])
        await server.wake_up()
        await server.load_weights(model.state_dict(), 1)
        await server.resume_generation()
        (output,) = await late
        assert output.stop_reason == "completed"
        assert output.extra_fields == {"global_steps": 1}

    asyncio.run(scenario())


@pytest.mark.parametrize(
    ("replica_rank", "rank", "server"), [(-1, 0, 0), (-1, 1, 0), (-1, 3, 1), (2, 1, 2)]
)
def test_a_rank_of_the_trainer_finds_the_server_of_its_replica(
    monkeypatch: pytest.MonkeyPatch, replica_rank: int, rank: int, server: int
) -> None:
    """As VeRL's adapters count, here with two ranks to a replica."""
    from standins.verl.adapter import BaseRollout, ServerAdapter

    monkeypatch.setattr(BaseRollout, "__init__", lambda *_: None)
    monkeypatch.setenv("RANK", str(rank))
    config = SimpleNamespace(
        tensor_model_parallel_size=2, data_parallel_size=1, pipeline_model_parallel_size=1
    )
    assert ServerAdapter(config, None, None, replica_rank)._name == f"hfcpu_server_{server}"


def test_a_script_replaces_what_was_sampled(
    make_server: MakeServer, model: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("COEVO_TEST_SCRIPT", f"{__name__}:script")
    monkeypatch.setattr("standins.script.import_module", lambda _: SimpleNamespace(script=say))

    async def scenario() -> list[Any]:
        server = make_server()
        await server.load_weights(model.state_dict(), 3)
        return await asked(server, PROMPTS[:2], temperature=0.0)

    scripted, sampled = asyncio.run(scenario())
    assert TOKENIZER.decode(scripted.token_ids) == "1 2 <end>"
    values = log_probs(model, PROMPTS[:1], [scripted.token_ids], [1.0], PAD)
    assert scripted.log_probs == pytest.approx(values[0], abs=1e-5)
    greedy = sample(model, [Request(PROMPTS[1], 18, 0.0, 0)], EOS, PAD)[0][0]
    assert sampled.token_ids == greedy
    assert sampled.extra_fields == {"global_steps": 3}
    lines = [json.loads(line) for line in (tmp_path / "server.jsonl").read_text().splitlines()]
    assert [line["event"] for line in lines] == ["weights", "generate", "generate"]
    assert lines[1]["response_ids"] == scripted.token_ids


def say(prompt: str, sampled: str) -> str | None:
    return "1 2" if TASKS[0].question in prompt else None
