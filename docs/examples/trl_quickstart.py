"""GRPO with TRL on questions of your own. Three lines, marked with `# new`, add stream, the default method.

    python docs/examples/trl_quickstart.py --questions questions.jsonl --model Qwen/Qwen3-0.6B \
        --reflection_model openai/gpt-5 --output_dir out --num_train_epochs 5

A line of the file is {"question": "What is 6 times 7?", "answer": "42"}. All options of TRL's
GRPOConfig can follow.
"""

from dataclasses import dataclass

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer, TrlParser

from prompt_coevo.adapters.trl import attach  # new


@dataclass
class Arguments:
    questions: str
    model: str
    reflection_model: str  # new


def as_chat(row: dict) -> dict:
    return {"prompt": [{"role": "user", "content": row["question"]}]}


def solved(completions: list, answer: list, **columns: list) -> list[float]:
    """1 where the completion ends with the answer, else 0."""
    said = [completion[0]["content"].rstrip(" .\n").split() for completion in completions]
    wanted = [str(truth).split() for truth in answer]
    return [float(a[-len(b) :] == b) for a, b in zip(said, wanted, strict=True)]


if __name__ == "__main__":
    own, args = TrlParser((Arguments, GRPOConfig)).parse_args_and_config()
    trainer = GRPOTrainer(
        model=own.model,
        reward_funcs=solved,
        args=args,
        train_dataset=load_dataset("json", data_files=own.questions, split="train").map(as_chat),
    )
    attach(trainer, reflection=own.reflection_model)  # new
    trainer.train()
