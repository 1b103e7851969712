"""Both methods at once in the unmodified train_ppo_ray, by the wrapper's flags, and its evaluation.

Stand-ins: vLLM, flash-attn, the device, and the reflection model's HTTP server.
"""

from __future__ import annotations

import pytest

from helpers.openrlhf_run import TASKS, Result, rows, run_openrlhf
from helpers.openrlhf_world import INSPO, P2O, TOKENIZER, events, reflection, teach, tokens
from standins.openai_server import openai_server

STEPS = 6
QUESTIONS = [task.question for task in TASKS]


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Result:
    with openai_server(teach) as server:
        result = run_openrlhf(
            tmp_path_factory.mktemp("both"),
            module="prompt_coevo.adapters.openrlhf",
            val=rows(TASKS[:2]),
            overrides=[
                *("--coevo.method", "both", *P2O, *INSPO, *reflection(server.base)),
                *("--train.num_episodes=3", "--eval.steps=3", "--eval.temperature=0.5"),
            ],
            env={"OPENAI_API_KEY": "sk-test"},
        )
    assert result.returncode == 0, result.tail
    return result


def joined(run: Result) -> set[str]:
    return {one["text"] for e in events(run, "population_changed") for one in e["added"]}


def test_each_method_did_its_work(run: Result) -> None:
    last = run.metrics[STEPS]
    assert last["train/coevo/searches"] == 2
    assert last["train/coevo/evolutions"] >= 1
    assert any(event["removed"] for event in events(run, "population_changed"))
    assert any(m["train/coevo/templated_fraction"] > 0 for m in run.metrics.values())


def test_one_instruction_per_group_and_no_template_is_trained_on(run: Result) -> None:
    wanted = [tokens(question, text) for question in QUESTIONS for text in joined(run)]
    groups: dict[tuple[int, int], set[str]] = {}
    for row in run.actor:
        prompt = row["sequences"][: row["action_mask"].index(1) + 1]
        assert prompt in wanted
        groups.setdefault((row["step"], row["position"] // 4), set()).add(row["prompts"])
    assert len(groups) == STEPS * 4
    assert all(len(prompts) == 1 for prompts in groups.values())
    sampled = {TOKENIZER.decode(event["prompt_ids"]) for event in run.generated()}
    assert any("means" in text and "<system>" in text for text in sampled)


def best_after(run: Result, step: int) -> str:
    """The instruction with the highest weight, by the journal's last word before the evaluation."""
    texts = {
        one["id"]: one["text"] for e in events(run, "population_changed") for one in e["added"]
    }
    weights: dict[str, float] = [
        event["weights"] for event in events(run, "instruction_weights") if event["step"] < step
    ][-1]
    return texts[max(weights, key=lambda name: weights[name])]


@pytest.mark.parametrize("step", [3, 6])
def test_evaluation_ran_under_the_best_instruction_of_its_moment(run: Result, step: int) -> None:
    evaluated = [e for e in run.generated() if e["temperature"] == 0.5 and e["version"] == step]
    assert evaluated
    wanted = [tokens(task.question, best_after(run, step)) for task in TASKS[:2]]
    assert all(event["prompt_ids"] in wanted for event in evaluated)
    assert "eval/eval_default_pass1" in run.metrics[step]


def test_after_the_last_update_nothing_was_searched_for(run: Result) -> None:
    """An evolution was due then; OpenRLHF asked for one more batch, which the data loader had not."""
    sampled = [e for e in run.generated() if e["version"] == STEPS and e["temperature"] != 0.5]
    assert not sampled
