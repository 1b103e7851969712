"""Check prompts that are texts, and engines that sleep while the policy trains.

Stand-ins: vLLM, flash-attn, the device, and the reflection model's HTTP server.
"""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from helpers.openrlhf_run import TASKS, Result, rows, run_openrlhf
from helpers.openrlhf_world import (
    BOTH,
    TOKENIZER,
    events,
    prompt_of,
    reflection,
    sampled_under,
    teach,
)
from standins.openai_server import openai_server
from worlds.pairs.world import reward

pytestmark = pytest.mark.long

STEPS = 6


def start(folder: Path, *flags: str, **arguments: Any) -> Result:
    with openai_server(teach) as server:
        result = run_openrlhf(
            folder,
            module="prompt_coevo.adapters.openrlhf",
            overrides=[
                *(*BOTH, *reflection(server.base)),
                *("--train.num_episodes=3", *flags),
            ],
            env={"OPENAI_API_KEY": "sk-test"},
            **arguments,
        )
    assert result.returncode == 0, result.tail
    return result


def test_prompts_that_are_texts(tmp_path: Path) -> None:
    """The instruction comes before the question, inside OpenRLHF's template; the hint is removed."""
    data = [
        {"input": task.question, "label": row["label"]}
        for task, row in zip(TASKS, rows(), strict=True)
    ]
    template = "<user> {} <end> <assistant>"
    run = start(tmp_path, train=data, template=template)
    texts = {one["text"] for e in events(run, "population_changed") for one in e["added"]}
    trained = {TOKENIZER.decode(prompt_of(row)) for row in run.actor}
    for prompt in trained:
        inner = prompt.removeprefix("<user> ").removesuffix(" <end> <assistant>")
        assert any(inner == f"{text} {task.question}" for text in texts for task in TASKS)
    hinted = [row for row in run.actor if row["info"]["coevo_distilled"]]
    assert hinted
    for row in hinted:
        under = {TOKENIZER.decode(list(prompt)) for prompt in sampled_under(run, row)}
        assert all("means" in text for text in under)


class _RewardServer(BaseHTTPRequestHandler):
    """Answer like OpenRLHF's own `serve_rm`, with a list of one reward per query."""

    def do_POST(self) -> None:
        request = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answers = [query.rpartition("<assistant>")[2] for query in request["query"]]
        scores = [
            reward(answer.replace("<end>", ""), label)
            for answer, label in zip(answers, request["labels"], strict=True)
        ]
        reply = json.dumps({"rewards": scores, "scores": scores, "extra_logs": {}}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *_: Any) -> None: ...


def test_rewards_from_a_server(tmp_path: Path) -> None:
    with ThreadingHTTPServer(("127.0.0.1", 0), _RewardServer) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        run = start(tmp_path, f"--reward.remote_url=http://127.0.0.1:{server.server_port}")
        server.shutdown()
    assert run.metrics[STEPS]["train/coevo/searches"] == 2
    assert {row["info"]["score"] for row in run.actor} == {0.0, 1.0}


def test_sleeping_engines_are_woken_for_a_search_and_sleep_again(tmp_path: Path) -> None:
    """The stand-in refuses to generate while asleep and to sleep while it generates."""
    run = start(tmp_path, "--train.colocate_all", "--vllm.enable_sleep")
    last = run.metrics[STEPS]
    assert last["train/coevo/searches"] == 2
    assert last["train/coevo/evolutions"] >= 1
    kinds = [e["event"] for e in run.server if e["event"] in ("sleep", "wake", "generate")]
    assert kinds[-1] == "sleep"
    # Once per training batch and once per search, which asks for many batches.
    assert kinds.count("sleep") <= STEPS + last["train/coevo/searches"] + 2
    outside = [e for e in run.generated() if e["temperature"] != 1.0]
    assert outside
