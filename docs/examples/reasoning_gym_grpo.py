# /// script
# dependencies = ["prompt-coevo[trl]", "datasets", "reasoning-gym"]
# ///
"""GRPO with TRL on puzzles of reasoning-gym, scored by its own verifiers.

    python docs/examples/reasoning_gym_grpo.py --families chain_sum game_of_life --questions 500 \
        --model Qwen/Qwen3-0.6B --reflection_model openai/gpt-5 --output_dir out --num_train_epochs 5

All options of TRL's GRPOConfig can follow. Most verifiers give partial credit. Only a score of 1 is a
success (`stream.solved_at`), so a family where any answer gets .9 has hard questions, too.
"""

from dataclasses import dataclass, field

import reasoning_gym
from datasets import Dataset
from trl import GRPOConfig, GRPOTrainer, TrlParser

from prompt_coevo.adapters.trl import attach

ASKED = "Give the final answer between <answer> and </answer>."


@dataclass
class Arguments:
    model: str
    reflection_model: str
    families: list[str] = field(default_factory=lambda: ["chain_sum"])
    questions: int = 500


def main(own: Arguments, args: GRPOConfig) -> None:
    puzzles = {
        name: reasoning_gym.create_dataset(name, size=own.questions, seed=args.seed)
        for name in own.families
    }

    def score(completions: list, family: list, number: list, **columns: object) -> list[float]:
        rewards = []
        for completion, name, n in zip(completions, family, number, strict=True):
            text = completion[0]["content"].rpartition("<answer>")[2]
            said = text.partition("</answer>")[0].strip()
            rewards.append(puzzles[name].score_answer(said, puzzles[name][n]))
        return rewards

    rows = [
        {
            "prompt": [{"role": "user", "content": f"{entry['question']}\n\n{ASKED}"}],
            "answer": entry["answer"],  # None where several answers are right
            "id": f"{name}-{n}",
            "family": name,
            "number": n,
        }
        for name, entries in puzzles.items()
        for n, entry in enumerate(entries)
    ]
    trainer = GRPOTrainer(own.model, score, args, Dataset.from_list(rows))
    attach(trainer, reflection=own.reflection_model, question_id_column="id")
    trainer.train()


if __name__ == "__main__":
    main(*TrlParser((Arguments, GRPOConfig)).parse_args_and_config())
