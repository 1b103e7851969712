"""Check the search agent in the unmodified train_ppo_ray under INSPO, with the real search server.

Stand-ins: vLLM, flash-attn, the device, and the reflection model's HTTP server.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

from helpers.openrlhf_run import OpenRLHFRun, Result
from helpers.openrlhf_world import by_group, events, prompt_of, reflection, response_of
from helpers.search_agents import (
    FIRST,
    GOLD,
    QUESTIONS,
    IndexServer,
    Outage,
    check_tokens,
    search_folder,
    searches_in,
    teach,
)
from standins.openai_server import openai_server

STEPS = 6


def start(
    folder: Path, search: IndexServer, reflect: str, evolve_every: int = 3, **agent: Any
) -> OpenRLHFRun:
    folder.mkdir(exist_ok=True)
    settings = {"url": search.url, "turn_tokens": 24, "observation_tokens": 60, **agent}
    file = folder / "search_agent.py"
    file.write_text(
        "from helpers.waits import waits_take_no_time\n"
        "from prompt_coevo.adapters.openrlhf.search_agent import search_agent\n"
        "waits_take_no_time()\n"
        f"AgentExecutor = search_agent(**{settings!r})\n"
    )
    return OpenRLHFRun(
        folder,
        train=[
            {
                "input": [{"role": "user", "content": question.text}],
                "label": json.dumps([question.answer]),
            }
            for question in QUESTIONS
        ],
        model=search_folder() / "policy",
        module="prompt_coevo.adapters.openrlhf",
        agent=file,
        overrides=[
            *("--coevo.method", "inspo", *reflection(reflect)),
            *("--coevo.inspo.instruction", FIRST, "--coevo.inspo.paraphrase", "false"),
            *("--coevo.inspo.population_size=3", "--coevo.inspo.prune_every=2"),
            *(f"--coevo.inspo.evolve_every={evolve_every}", "--coevo.inspo.verify_size=3"),
            *("--coevo.inspo.candidates_per_call=2", "--data.max_len=400"),
            *("--rollout.max_new_tokens=240", "--actor.adam.lr=1e-4", "--train.num_episodes=3"),
            "--algo.advantage.is_correction_level=token",
        ],
        env={"OPENAI_API_KEY": "sk-test"},
    )


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    folder = tmp_path_factory.mktemp("search")
    with (
        IndexServer() as search,
        openai_server(lambda body: teach(body["messages"][-1]["content"])) as reflect,
        start(folder, search, reflect.base) as running,
    ):
        result = running.wait()
    assert result.returncode == 0, result.tail
    return result


@pytest.fixture(scope="module")
def tokenizer() -> Any:
    return AutoTokenizer.from_pretrained(search_folder() / "policy")


def test_observations_are_out_of_the_loss_and_sampled_ids_stay(run: Result, tokenizer: Any) -> None:
    """The engine stops at the closing tags, so the turns are exactly the sampled ones."""
    rows = [
        (prompt_of(row), response_of(row), row["action_mask"][len(prompt_of(row)) - 1 :])
        for row in run.actor
    ]
    turns = [(event["prompt_ids"], event["response_ids"]) for event in run.generated()]
    assert check_tokens(rows, turns, tokenizer) > 20
    assert any(turn[-1] != tokenizer.eos_token_id for _, turn in turns)
    for row in run.actor:
        for old, new, own in zip(
            row["action_log_probs"], row["log_probs"], row["action_mask"], strict=True
        ):
            assert not own or old == pytest.approx(new, abs=1e-4)


def test_at_least_half_of_the_episodes_search(run: Result, tokenizer: Any) -> None:
    texts = [tokenizer.decode(response_of(row)) for row in run.actor]
    assert sum(searches_in(text) > 0 for text in texts) >= len(texts) / 2


def test_rewards_and_instructions_belong_to_their_rollouts(run: Result, tokenizer: Any) -> None:
    joined = {one["text"] for e in events(run, "population_changed") for one in e["added"]}
    assert len(joined) > 1
    rewards = set()
    for group in by_group(run).values():
        prompts = {tokenizer.decode(prompt_of(row)) for row in group}
        assert len(prompts) == 1
        system, _, question = prompts.pop().partition("<user>")
        assert system.removeprefix("<system>").removesuffix("<end> ").strip() in joined
        gold = GOLD[question.split("<end>")[0].strip()]
        for row in group:
            text = tokenizer.decode(response_of(row))
            assert row["info"]["score"] == (f"<answer> {gold} </answer>" in text)
            assert row["info"]["searches"] == searches_in(text)
            rewards.add(row["info"]["score"])
    assert rewards == {0.0, 1.0}
    assert run.metrics[STEPS]["train/coevo/unfit_rollouts"] == 0


@pytest.mark.long
def test_a_killed_server_costs_the_rollouts_it_failed_and_no_more(
    tmp_path: Path, tokenizer: Any
) -> None:
    agent = {"on_outage": "observe", "request_timeout_s": 60.0}
    search = IndexServer()
    outage = Outage(search)
    with (
        search,
        openai_server(outage.teach) as reflect,
        start(tmp_path / "run", search, reflect.base, evolve_every=5, **agent) as running,
    ):

        def reached(step: int) -> bool:
            return any(
                event["event"] == "weights" and event["version"] >= step
                for event in running.server_log()
            )

        with outage.during(reached):
            result = running.wait()
    assert result.returncode == 0, result.tail
    assert reflect.requests
    failed = [row for row in result.actor if row["info"]["coevo_tool_error"]]
    unfit = [result.metrics[step]["train/coevo/unfit_rollouts"] for step in sorted(result.metrics)]
    assert unfit[0] == 0
    assert unfit[-1] == len(failed) > 0
    for row in result.actor:
        text = tokenizer.decode(response_of(row))
        assert ("is not available" in text) == bool(row["info"]["coevo_tool_error"])
    last = [row for row in result.actor if row["step"] == STEPS]
    assert not any(row["info"]["coevo_tool_error"] for row in last)
    assert any(row["info"]["searches"] for row in last)
