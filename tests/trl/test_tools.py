"""Check TRL's tools and environments: multi-turn rollouts under a template, trained without it.

The trainer, its tool loop and its masks are real. An untrained model calls no tools, so what it samples
is scripted: a tool call in the first turn, an answer in the second.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer

from helpers.byte_model import byte_model, qwen3_tokenizer
from helpers.spies import Spy
from helpers.trl_versions import since
from helpers.trl_world import FixedTemplates
from prompt_coevo.adapters.trl import CoevoCallback

pytestmark = since("1.1", "tools with a transformers of today")
CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 1, "b": 2}}\n</tool_call><|im_end|>'
ANSWER = "It is 3.<|im_end|>"
TEMPLATE = "Use the tool."


def add(a: int, b: int) -> int:
    """
    Add two numbers.

    Args:
        a: one number
        b: the other

    Returns:
        The sum.
    """
    return a + b


class Room:
    """An environment that adds an observation to the question and offers the tool."""

    def reset(self, **kwargs: Any) -> str:
        return " You are in a room."

    def add(self, a: int, b: int) -> int:
        """
        Add two numbers.

        Args:
            a: one number
            b: the other

        Returns:
            The sum.
        """
        return a + b


def reward(completions: Any, **_: Any) -> list[float]:
    return [float(len(completion)) + n % 2 for n, completion in enumerate(completions)]


def make(tmp_path: Any, **arguments: Any) -> tuple[Any, Spy]:
    tokenizer = qwen3_tokenizer()
    rows = [
        {"id": f"q{n}", "prompt": [{"role": "user", "content": f"What is {n}?"}], "answer": "3"}
        for n in range(4)
    ]
    trainer = GRPOTrainer(
        model=byte_model(tokenizer),
        reward_funcs=reward,
        args=GRPOConfig(
            output_dir=str(tmp_path),
            per_device_train_batch_size=4,
            num_generations=2,
            max_completion_length=200,
            max_steps=2,
            use_cpu=True,
            bf16=False,
            report_to="none",
            save_strategy="no",
            logging_steps=1,
            disable_tqdm=True,
            chat_template_kwargs={"enable_thinking": False},
        ),
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        **arguments,
    )
    texts = iter([CALL, ANSWER] * 100)

    def scripted(prompt_ids: Any, *_: Any, **__: Any) -> Any:
        text = next(texts)
        return [tokenizer(text)["input_ids"] for _ in prompt_ids], None

    trainer._generate_single_turn = scripted
    return trainer, Spy.on(trainer)


def attach(trainer: Any, **settings: Any) -> CoevoCallback:
    plugin = FixedTemplates({f"q{n}": [TEMPLATE, ""] for n in range(4)})
    callback = CoevoCallback(
        trainer,
        {"algorithms": (), "question_id_column": "id", **settings},
        plugins={"templates": plugin},
    )
    trainer.add_callback(callback)
    return callback


@pytest.mark.parametrize(
    ("arguments", "observation"),
    [({"tools": [add]}, ""), ({"environment_factory": Room}, " You are in a room.")],
)
@pytest.mark.parametrize("forward", [False, True])
def test_a_tool_call_under_a_template(
    tmp_path: Any, arguments: dict[str, Any], observation: str, forward: bool
) -> None:
    trainer, spy = make(tmp_path, **arguments)
    attach(trainer, distill_forward=forward)
    trainer.train()
    decode = trainer.processing_class.decode
    first_turns = [prompts for prompts, _ in spy.sampled[::2]]
    for prompts in first_turns:
        texts = [decode(prompt) for prompt in prompts]
        assert [TEMPLATE in text for text in texts] == [True, False] * (len(texts) // 2)
    for index, loss in enumerate(spy.losses):
        for prompt, completion in spy.rows(index):
            text = decode(prompt)
            assert TEMPLATE not in text
            assert f"?{observation}<|im_end|>" in text
            assert "add" in text  # the tool's schema is still in the prompt
            assert decode(completion).startswith(CALL)
            assert decode(completion).endswith(ANSWER)
            assert "<tool_response>\n3\n</tool_response>" in decode(completion)
        tool_tokens = loss["completion_mask"].bool() & ~loss["tool_mask"].bool()
        assert (tool_tokens.sum(1) > 10).all()


def test_policy_rollouts_run_the_tools_as_well(tmp_path: Any) -> None:
    from prompt_coevo.types import Assignment, Candidate, RolloutRequest, Sampling

    trainer, _ = make(tmp_path, tools=[add])
    callback = attach(trainer)
    trainer.train()
    before = torch.get_rng_state()
    requests = [
        RolloutRequest(Assignment(f"q{n}", template=Candidate(TEMPLATE, "template")), Sampling(0.0))
        for n in range(3)
    ]
    rollouts = callback.policy.rollout(requests)
    assert torch.equal(before, torch.get_rng_state())
    assert len(rollouts) == 3
    for rollout in rollouts:
        assert "tool: 3" in rollout.completion
        assert rollout.completion.endswith("assistant: It is 3.")


INSTRUCTION = "Think first."


@pytest.mark.parametrize(
    ("arguments", "observation"),
    [({"tools": [add]}, ""), ({"environment_factory": Room}, " You are in a room.")],
)
def test_a_tool_call_under_an_evolving_instruction(
    tmp_path: Any, arguments: dict[str, Any], observation: str
) -> None:
    """The instruction stays in the trained prompt, beside the tool's schema; verification runs the tools,
    too."""
    trainer, spy = make(tmp_path, **arguments)
    # Verification rolls the parent out first, so its child is well ahead and used from then on.
    trainer.reward_funcs = [lambda completions, **_: [float(n) for n in range(len(completions))]]
    better = f"{INSTRUCTION} Slowly."
    callback = CoevoCallback(
        trainer,
        {
            "algorithms": ("inspo",),
            "question_id_column": "id",
            "inspo": {
                "instruction": INSTRUCTION,
                "paraphrase": False,
                "evolve_every": 1,
                "verify_size": 2,
                "solved_at": 99.0,
                "selection_temperature": 1e-3,
            },
            "reflection": {"function": lambda prompt: f"<ins_1>{better}</ins_1>"},
        },
    )
    trainer.add_callback(callback)
    trainer.train()
    assert callback.engine.metrics()["coevo/verify_rollouts"] == 4
    decode = trainer.processing_class.decode
    systems = []
    for index, loss in enumerate(spy.losses):
        for prompt, completion in spy.rows(index):
            text = decode(prompt)
            systems.append(text.removeprefix("<|im_start|>system\n").split("\n\n# Tools")[0])
            assert f"?{observation}<|im_end|>" in text
            assert '"name": "add"' in text
            assert decode(completion).startswith(CALL)
            assert decode(completion).endswith(ANSWER)
        assert (loss["completion_mask"].bool() & ~loss["tool_mask"].bool()).any(1).all()
    assert systems == [INSTRUCTION] * 4 + [better] * 4
