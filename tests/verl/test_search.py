"""Check the search agent in the unmodified main_ppo under INSPO, with the real search server.

Stand-ins: platform, rollout server (it does not stop at texts, so turns are cut), and the reflection
model's HTTP server.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from transformers import AutoTokenizer

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
from helpers.verl_run import Result, VerlRun
from helpers.verl_world import by_group, events, reflection
from standins.openai_server import openai_server

STEPS = 6


def start(
    folder: Path, search: IndexServer, reflect: str, evolve_every: int = 3, **agent: Any
) -> VerlRun:
    loop = {
        "name": "search_agent",
        "_target_": "prompt_coevo.adapters.verl.search_agent.SearchAgentLoop",
        "url": search.url,
        "turn_tokens": 24,
        "observation_tokens": 60,
        **agent,
    }
    folder.mkdir(exist_ok=True)
    (folder / "search.yaml").write_text(json.dumps([loop]))  # JSON is YAML
    rollout = "actor_rollout_ref.rollout"
    return VerlRun(
        folder,
        train=[
            {
                "prompt": [{"role": "user", "content": question.text}],
                "ground_truth": {"target": [question.answer]},
            }
            for question in QUESTIONS
        ],
        model=search_folder() / "policy",
        overrides=[
            *("+coevo=inspo", *reflection(reflect), f"coevo.inspo.instruction='{FIRST}'"),
            *("coevo.inspo.population_size=3", "coevo.inspo.paraphrase=False"),
            *("coevo.inspo.prune_every=2", f"coevo.inspo.evolve_every={evolve_every}"),
            *("coevo.inspo.verify_size=3", "coevo.inspo.candidates_per_call=2"),
            f"{rollout}.agent.agent_loop_config_path={folder / 'search.yaml'}",
            f"{rollout}.agent.default_agent_loop=search_agent",
            "data.max_response_length=240",
            "actor_rollout_ref.actor.optim.lr=1e-4",
            "trainer.total_epochs=3",
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
    rows = [(row["prompts"], row["responses"], row["response_mask"]) for row in run.actor]
    turns = [(event["prompt_ids"], event["response_ids"]) for event in run.generated()]
    assert check_tokens(rows, turns, tokenizer) > 20
    for row in run.actor:
        for old, new, own in zip(
            row["old_log_probs"], row["log_probs"], row["response_mask"], strict=True
        ):
            assert not own or old == pytest.approx(new, abs=1e-3)


def test_at_least_half_of_the_episodes_search(run: Result, tokenizer: Any) -> None:
    texts = [tokenizer.decode(row["responses"]) for row in run.actor]
    assert sum(searches_in(text) > 0 for text in texts) >= len(texts) / 2


def test_rewards_and_instructions_belong_to_their_rollouts(run: Result, tokenizer: Any) -> None:
    joined = {one["text"] for e in events(run, "population_changed") for one in e["added"]}
    assert len(joined) > 1
    mixed = 0
    for group in by_group(run.actor).values():
        prompts = {tokenizer.decode(row["prompts"]) for row in group}
        assert len(prompts) == 1
        system, _, question = prompts.pop().partition("<user>")
        assert system.removeprefix("<system>").removesuffix("<end> ").strip(" ") in joined
        gold = GOLD[question.split("<end>")[0].strip()]
        right = [
            f"<answer> {gold} </answer>" in tokenizer.decode(row["responses"]) for row in group
        ]
        if 0 < sum(right) < len(right):
            mixed += 1
            assert [row["advantages"][-1] > 0 for row in group] == right
    assert mixed
    assert run.metrics[STEPS]["coevo/unfit_rollouts"] == 0


@pytest.mark.long
def test_a_killed_server_costs_the_rollouts_it_failed_and_no_more(tmp_path: Path) -> None:
    agent = {
        "_target_": "helpers.verl_search_loop.SearchAgentLoop",
        "on_outage": "observe",
        "request_timeout_s": 60.0,
    }
    search = IndexServer()
    outage = Outage(search)
    with (
        search,
        openai_server(outage.teach) as reflect,
        start(tmp_path / "run", search, reflect.base, evolve_every=5, **agent) as running,
    ):

        def reached(step: int) -> bool:
            return any(
                event["event"] == "weights" and (event["global_steps"] or 0) >= step
                for event in running.server_log()
            )

        with outage.during(reached):
            result = running.wait()
    assert result.returncode == 0, result.tail
    assert reflect.requests
    unfit = [result.metrics[step]["coevo/unfit_rollouts"] for step in sorted(result.metrics)]
    assert unfit[0] == 0
    assert 0 < unfit[-1] < STEPS * 16
    tokenizer = AutoTokenizer.from_pretrained(search_folder() / "policy")
    last = [
        tokenizer.decode(row["responses"]) for row in result.actor if row["global_steps"] == STEPS
    ]
    assert sum(searches_in(text) for text in last) > 0
    assert not any("not available" in text for text in last)
