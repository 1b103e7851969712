"""Compare the stand-ins for vLLM with the real one: their signatures and their answers."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import vllm
from transformers import AutoModelForCausalLM
from trl.generation.vllm_generation import VLLMGeneration
from vllm.distributed.device_communicators.pynccl import PyNcclCommunicator
from vllm.distributed.utils import StatelessProcessGroup
from vllm.exceptions import VLLMValidationError
from vllm.inputs import TokensPrompt
from vllm.logprobs import Logprob
from vllm.outputs import CompletionOutput, RequestOutput
from vllm.utils import random_uuid
from vllm.v1.engine.output_processor import OutputProcessor

from helpers.signatures import misfits
from helpers.trl_world import TASKS, right_hint
from standins.openrlhf import vllm as ours
from standins.openrlhf.vllm import engine as our_engine
from standins.openrlhf.vllm import inputs as our_inputs
from standins.openrlhf.vllm import outputs as our_outputs
from standins.openrlhf.vllm import utils as our_utils
from standins.openrlhf.vllm.distributed import utils as our_groups
from standins.openrlhf.vllm.distributed.device_communicators import pynccl as our_pynccl
from standins.sampling import log_probs
from standins.trl_vllm import VLLMGeneration as OurGeneration

torch.set_num_threads(1)
CLOSE = 1e-4


PAIRS = {
    "AsyncLLMEngine": (ours.AsyncLLMEngine, vllm.AsyncLLMEngine),
    "OutputProcessor": (our_engine._OutputProcessor, OutputProcessor),
    "PyNcclCommunicator": (our_pynccl.PyNcclCommunicator, PyNcclCommunicator),
    "StatelessProcessGroup": (our_groups.StatelessProcessGroup, StatelessProcessGroup),
    "VLLMGeneration": (OurGeneration, VLLMGeneration),
}
METHODS = [
    (owner, name)
    for owner, (mine, _) in PAIRS.items()
    for name, value in vars(mine).items()
    if (callable(value) or isinstance(value, classmethod)) and not name.startswith("_")
]
FUNCTIONS = [
    (ours.AsyncEngineArgs, vllm.AsyncEngineArgs),
    (ours.SamplingParams, vllm.SamplingParams),
    (our_utils.random_uuid, random_uuid),
    (our_pynccl.PyNcclCommunicator.__init__, PyNcclCommunicator.__init__),
]


@pytest.mark.parametrize(("owner", "name"), METHODS)
def test_a_method_is_called_as_the_real_one(owner: str, name: str) -> None:
    mine, real = PAIRS[owner]
    assert misfits(getattr(mine, name), getattr(real, name)) == []


@pytest.mark.parametrize(("mine", "real"), FUNCTIONS)
def test_a_function_is_called_as_the_real_one(mine: Any, real: Any) -> None:
    assert misfits(mine, real) == []


@pytest.mark.parametrize(
    ("mine", "real"),
    [
        (our_outputs.CompletionOutput, CompletionOutput),
        (our_outputs.Logprob, Logprob),
        (our_groups.StatelessProcessGroup, StatelessProcessGroup),
    ],
)
def test_what_is_read_of_a_stand_in_is_there(mine: type, real: type) -> None:
    theirs = {field.name for field in dataclasses.fields(real)}
    assert {field.name for field in dataclasses.fields(mine)} <= theirs


def test_names_of_prompts_and_sleep() -> None:
    assert our_inputs.TokensPrompt.__required_keys__ == TokensPrompt.__required_keys__
    assert {"weights", "kv_cache"} == our_engine._PARTS


@pytest.fixture(scope="module")
def prompts(tokenizer: Any) -> list[list[int]]:
    contents = [
        text for task in TASKS for text in (task.question, f"{right_hint(task)}\n\n{task.question}")
    ]
    chats = [[{"role": "user", "content": content}] for content in contents]
    return [
        tokenizer.apply_chat_template(chat, add_generation_prompt=True, return_dict=True)[
            "input_ids"
        ]
        for chat in chats
    ]


@pytest.fixture(scope="session")
def real(policy: Path) -> Any:
    """Keep one engine for the session: collecting one removes the process groups of all others."""
    return vllm.LLM(
        str(policy),
        dtype="float32",
        enforce_eager=True,
        max_model_len=128,
        logprobs_mode="processed_logprobs",
        gpu_memory_utilization=0.05,
    )


@pytest.fixture
def stand_in(policy: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("COEVO_TEST_SERVER_LOG", str(tmp_path / "server.jsonl"))
    return ours.AsyncEngineArgs(
        model=str(policy), max_model_len=128, logprobs_mode="processed_logprobs"
    )


Answers = Callable[..., list[Any]]


def answers_of(args: Any, prompts: list[list[int]], **params: Any) -> list[Any]:
    async def one(engine: Any, number: int, ids: list[int]) -> Any:
        prompt = our_inputs.TokensPrompt(prompt_token_ids=ids)
        params_ = ours.SamplingParams(**params)
        return [output async for output in engine.generate(prompt, params_, str(number))][-1]

    async def all_of_them() -> list[Any]:
        engine = ours.AsyncLLMEngine.from_engine_args(args)
        return await asyncio.gather(*(one(engine, *pair) for pair in enumerate(prompts)))

    return asyncio.run(all_of_them())


@pytest.mark.parametrize(
    "params",
    [
        {"max_tokens": 24},
        {"max_tokens": 3},
        {"max_tokens": 24, "min_tokens": 12},
        {"max_tokens": 24, "skip_special_tokens": False},
        {"max_tokens": 24, "stop": ["note", "means"], "include_stop_str_in_output": True},
        {"max_tokens": None},
    ],
    ids=str,
)
def test_greedy_they_answer_the_same(
    real: Any, stand_in: Any, prompts: list[list[int]], params: dict[str, Any]
) -> None:
    params = {"temperature": 0.0, "logprobs": 0, **params}
    given = [{"prompt_token_ids": ids} for ids in prompts]
    theirs: list[RequestOutput] = real.generate(
        given, vllm.SamplingParams(**params), use_tqdm=False
    )
    mine = answers_of(stand_in, prompts, **params)
    assert any(len(one.outputs[0].token_ids) > 1 for one in theirs)
    for one, other in zip(mine, theirs, strict=True):
        (a,), (b,) = one.outputs, other.outputs
        assert list(a.token_ids) == list(b.token_ids)
        # Spaces at the ends may differ, and the stand-in leaves the end token in the text.
        assert [word for word in a.text.split() if word != "<end>"] == b.text.split()
        assert a.finish_reason == b.finish_reason
        chosen = [
            [row[t].logprob for t, row in zip(c.token_ids, c.logprobs, strict=True)] for c in (a, b)
        ]
        assert chosen[0] == pytest.approx(chosen[1], abs=CLOSE)


@pytest.mark.parametrize("temperature", [0.5, 1.0, 2.0])
def test_log_probs_are_those_under_the_temperature(
    real: Any, policy: Path, prompts: list[list[int]], temperature: float
) -> None:
    """Compares the real engine's samples with the function by which the stand-ins compute them."""
    params = vllm.SamplingParams(temperature=temperature, max_tokens=24, logprobs=0)
    given = [{"prompt_token_ids": ids} for ids in prompts]
    outputs = [one.outputs[0] for one in real.generate(given, params, use_tqdm=False)]
    model = AutoModelForCausalLM.from_pretrained(policy, dtype=torch.float32).eval()
    responses = [list(one.token_ids) for one in outputs]
    expected = log_probs(model, prompts, responses, [temperature] * len(prompts), 0)
    for one, values in zip(outputs, expected, strict=True):
        theirs = [
            row[token].logprob for token, row in zip(one.token_ids, one.logprobs, strict=True)
        ]
        assert theirs == pytest.approx(values, abs=CLOSE)


def test_both_refuse_a_prompt_without_room(real: Any, stand_in: Any) -> None:
    prompt = [5] * 128
    with pytest.raises(VLLMValidationError):
        real.generate([{"prompt_token_ids": prompt}], vllm.SamplingParams(), use_tqdm=False)
    with pytest.raises(ValueError):
        answers_of(stand_in, [prompt])


def test_both_refuse_an_unknown_parameter() -> None:
    for params in (vllm.SamplingParams, ours.SamplingParams):
        with pytest.raises(TypeError):
            params(beams=4)
