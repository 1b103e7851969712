# /// script
# dependencies = ["prompt-coevo[trl]", "datasets", "verifiers>=0.4"]
# ///
"""GRPO with TRL on a taskset of verifiers, scored by the taskset's own rewards.

    python docs/examples/verifiers_taskset.py --taskset addition_v1 --truth answer \
        --model Qwen/Qwen3-0.6B --reflection_model openai/gpt-5 --output_dir out --num_train_epochs 5

All options of TRL's GRPOConfig can follow. `taskset` is an installed package or a module that Python finds.
This is for tasks of a single turn whose rewards need no container; others need verifiers' own harness.
"""

from dataclasses import dataclass

import verifiers.v1 as vf
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer, TrlParser
from verifiers.v1.utils.loaders import taskset_config_type

from prompt_coevo.adapters.trl import attach


@dataclass
class Arguments:
    taskset: str
    model: str
    reflection_model: str
    truth: str | None = None  # the field of a task's data that the reflection model may see
    questions: int = 500


def as_row(task: vf.Task, truth: str | None) -> dict:
    prompt = [{"role": "user", "content": task.data.prompt_text}]
    if task.data.system_prompt:
        prompt.insert(0, {"role": "system", "content": task.data.system_prompt})
    answer = None if truth is None else str(getattr(task.data, truth))
    return {"prompt": prompt, "answer": answer, "key": task.key}


async def scored(task: vf.Task, text: str) -> float:
    """What the taskset gives for an answer, its rewards by their weights."""
    trace = vf.Trace(
        task=vf.TraceTask(type=type(task).__name__, data=task.data, key=task.key),
        agent=vf.AgentInfo(config=vf.AgentConfig()),
        nodes=[
            vf.MessageNode(message=vf.UserMessage(content=task.data.prompt_text)),
            vf.MessageNode(message=vf.AssistantMessage(content=text), parent=0, sampled=True),
        ],
    )
    await task.score(trace)
    return trace.reward


def main(own: Arguments, args: GRPOConfig) -> None:
    taskset = vf.load_taskset(taskset_config_type(own.taskset)(id=own.taskset))
    tasks = {task.key: task for task in taskset.take(own.questions)}

    async def reward(completions: list, key: list, **columns: object) -> list[float]:
        said = [completion[0]["content"] for completion in completions]
        return [await scored(tasks[k], text) for k, text in zip(key, said, strict=True)]

    rows = [as_row(task, own.truth) for task in tasks.values()]
    trainer = GRPOTrainer(own.model, reward, args, Dataset.from_list(rows))
    attach(trainer, reflection=own.reflection_model, question_id_column="key")
    trainer.train()


if __name__ == "__main__":
    main(*TrlParser((Arguments, GRPOConfig)).parse_args_and_config())
