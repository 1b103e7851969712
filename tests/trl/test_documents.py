"""Check the documents' code that needs TRL or torch, completed by what it says exists.

The reflection model is a local server that speaks the OpenAI protocol, called by the real litellm.
"""

from __future__ import annotations

import json
import os
import runpy
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer, ModelConfig

from helpers.documented import ROOT, Block, blocks_for, documented_commands
from helpers.documented_commands import Command
from helpers.own_adapter_run import OwnAdapterUnderTest
from helpers.trl_world import TASKS, length, rows
from prompt_coevo.demo.digits import spell
from prompt_coevo.retrieval.agent.instruction import SEARCH_INSTRUCTION
from standins.openai_server import Server, openai_server
from worlds.pairs.world import base_policy_path

QUICKSTART = ROOT / "docs" / "examples" / "trl_quickstart.py"
COMMANDS = documented_commands("trl")
SMALL = {
    "use_cpu": True,
    "bf16": False,
    "report_to": "none",
    "save_strategy": "no",
    "per_device_train_batch_size": 8,
    "num_generations": 4,
    "disable_tqdm": True,
}


def reply(body: dict[str, Any]) -> str:
    """Return a template, or as many instructions as requested."""
    return "<template>Think of it.</template>" + "".join(
        f"<ins_{n}>Answer in the manner {n}.</ins_{n}>" for n in range(1, 9)
    )


@pytest.fixture
def teacher(monkeypatch: pytest.MonkeyPatch) -> Iterator[Server]:
    with openai_server(reply) as server:
        monkeypatch.setenv("OPENAI_API_BASE", server.base)
        monkeypatch.setenv("OPENAI_API_KEY", "nobody's")
        monkeypatch.setenv("LITELLM_LOCAL_MODEL_COST_MAP", "True")
        yield server


def run(block: Block, names: dict[str, Any], **instead: str) -> dict[str, Any]:
    """Run a block with these names; `instead` maps replacements to the texts that cannot run here."""
    text = block.text
    for here, there in instead.items():
        text = text.replace(there, here)
    exec(compile(text, str(block), "exec"), names)
    return names


@pytest.mark.parametrize("block", blocks_for("trl", "trl"), ids=str)
def test_the_callback_trains(block: Block, tmp_path: Path, teacher: Server) -> None:
    from prompt_coevo.adapters.trl import attach

    dataset = [
        {**row, "golden_answers": [row["answer"]], "solution": f"Step by step: {row['answer']}"}
        for row in rows()
    ]
    names: dict[str, Any] = {
        "GRPOTrainer": GRPOTrainer,
        "model": str(base_policy_path()),
        "reward_funcs": length,
        "args": GRPOConfig(
            output_dir=str(tmp_path / "out"), max_completion_length=8, max_steps=4, **SMALL
        ),
        "train_dataset": Dataset.from_list(dataset),
    }
    if "GRPOTrainer(" not in block.text:  # it adds a callback to a trainer and trains no further
        order = ("model", "reward_funcs", "args", "train_dataset")
        trainer = GRPOTrainer(*[names[name] for name in order])
        names = {"trainer": trainer, "attach": attach, "SEARCH_INSTRUCTION": SEARCH_INSTRUCTION}
    # The server does not speak Gemini's protocol.
    names = run(block, names, **{"openai/gemini-2.5-pro": "gemini/gemini-2.5-pro"})
    trainer = names["trainer"]
    if trainer.state.global_step == 0:
        trainer.train()
    assert trainer.state.global_step == 4
    assert (tmp_path / "out" / "coevo" / "events.jsonl").read_text("utf-8")
    metric = "coevo/hints_hard" if 'algorithms="hints"' in block.text else "coevo/reflection_calls"
    assert any(metric in line for line in trainer.state.log_history)


@pytest.mark.parametrize("block", blocks_for("trl", "search"), ids=str)
def test_the_search_agents_trainer_is_built(block: Block, tmp_path: Path) -> None:
    dataset = [{**row, "golden_answers": [row["answer"]]} for row in rows()]
    names = {
        "GRPOTrainer": GRPOTrainer,
        "GRPOConfig": partial(GRPOConfig, output_dir=str(tmp_path / "out"), **SMALL),
        "model": str(base_policy_path()),
        "dataset": Dataset.from_list(dataset),
    }
    names = run(block, names, **{"use_vllm=False,": "use_vllm=True,"})  # vLLM is not installed
    trainer = names["trainer"]
    assert trainer.reward_funcs[0].__name__ == "search_em"
    assert trainer.rollout_func is not None


@pytest.mark.parametrize("block", blocks_for("trl", "parquet"), ids=str)
def test_the_recipes_data(block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    downloaded = tmp_path / "nq_hotpotqa_train"
    downloaded.mkdir()
    columns = {"data_source": ["nq"], "question": ["who?"], "golden_answers": [["Melville"]]}
    for split in ("train", "test"):
        pd.DataFrame(columns).to_parquet(downloaded / f"{split}.parquet")
    names = run(block, {})
    (line,) = (names["out"] / "train.jsonl").read_text("utf-8").splitlines()
    assert json.loads(json.loads(line)["label"]) == ["Melville"]
    (prompt,) = pd.read_parquet(names["out"] / "test.parquet")["prompt"]
    assert prompt[0] == {"role": "user", "content": "Question: who?"}


@pytest.mark.parametrize("block", blocks_for("trl", "questions"), ids=str)
def test_the_quick_starts_data(
    block: Block, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    write_questions(tmp_path / "questions.jsonl", solution="Count.")
    out = run(block, {})["out"]
    lines = (out / "train.jsonl").read_text("utf-8").splitlines()
    assert [json.loads(line)["solution"] for line in lines] == ["Count."] * len(TASKS)
    table = pd.read_parquet(out / "train.parquet")
    assert table["reward_model"][0]["ground_truth"] == spell(TASKS[0].answer)
    assert table["extra_info"][0] == {"solution": "Count."}


@pytest.mark.parametrize("block", blocks_for("trl", "adapter"), ids=str)
def test_the_kit_makes_tests_of_an_adapter(block: Block) -> None:
    made = run(block, {"MyAdapterUnderTest": OwnAdapterUnderTest})["test_my_adapter"]
    assert isinstance(made, Callable)  # type: ignore[arg-type]


@pytest.mark.parametrize("command", COMMANDS)
def test_the_scripts_parser_reads_the_command(command: Command) -> None:
    at = next(n for n, word in enumerate(command.words) if word.startswith("docs/examples/"))
    names = runpy.run_path(str(ROOT / command.words[at]), run_name="read")
    own = next(names[name] for name in ("Arguments", "P2OArguments") if name in names)
    parser = names["TrlParser"](
        [own, GRPOConfig, *([ModelConfig] if "ModelConfig" in names else [])]
    )
    parser.parse_args_and_config([*command.words[at + 1 :], "--use_cpu", "true", "--bf16", "false"])


def test_every_block_has_a_test() -> None:
    tested = {"trl", "search", "parquet", "questions", "adapter", ""}
    assert {block.prepared for block in blocks_for("trl")} == tested


def write_questions(path: Path, **more: str) -> None:
    questions = [{"question": one.question, "answer": spell(one.answer), **more} for one in TASKS]
    path.write_text("".join(json.dumps(row) + "\n" for row in questions), "utf-8")


def test_the_quick_start_trains(tmp_path: Path, teacher: Server) -> None:
    write_questions(tmp_path / "questions.jsonl")
    arguments = {
        "questions": "questions.jsonl",
        "model": base_policy_path(),
        "output_dir": "out",
        "reflection_model": "openai/gpt-5",
        "max_steps": 3,
        "max_completion_length": 8,
        **SMALL,
    }
    command = [sys.executable, "-P", str(QUICKSTART)]
    command += [part for name, value in arguments.items() for part in (f"--{name}", str(value))]
    environment = {**os.environ, "HF_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert "coevo/hard_samples" in done.stdout
    assert teacher.requests


def test_the_quick_start_changes_three_lines() -> None:
    lines = QUICKSTART.read_text("utf-8").splitlines()
    new = [line for line in lines if line.endswith("# new")]
    assert len(new) == 3
    before = "\n".join(line for line in lines if line not in new).partition('"""\n\n')[2]
    assert "coevo" not in before.lower()
    compile(before, str(QUICKSTART), "exec")
