# /// script
# dependencies = ["prompt-coevo[trl]", "datasets", "math-verify", "latex2sympy2_extended"]
# ///
"""
P2O with TRL's GRPOTrainer. The settings are those of the paper (section 4.1): K = 6, five epochs,
128 questions a step, temperature 0.6, no KL penalty. TRL trains on-policy; the paper is one step off.

The dataset is what p2o_data.py writes, or any with problem (or question) and answer (or final_answer). The
reflection model is any model that litellm knows; its key comes from the environment. `--method grpo` trains
the paper's baseline.

accelerate launch docs/examples/trl_p2o.py \
    --model_name_or_path Qwen/Qwen3-4B \
    --dataset_name ~/data/deepscaler/trl \
    --output_dir qwen3-4b-p2o \
    --reflection_model deepinfra/moonshotai/Kimi-K2-Instruct \
    --num_train_epochs 5 --learning_rate 1e-6 --beta 0.0 --temperature 0.6 \
    --num_generations 6 --per_device_train_batch_size 6 --gradient_accumulation_steps 16 \
    --max_completion_length 12288 --use_vllm --bf16 true
"""

from dataclasses import dataclass, field
from typing import Literal

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer, ModelConfig, ScriptArguments, TrlParser
from trl.rewards import accuracy_reward

from prompt_coevo.adapters.trl import CoevoCallback

INSTRUCTION = "Please reason step by step, and put your final answer within \\boxed{}."


@dataclass
class P2OArguments(ScriptArguments):
    reflection_model: str | None = field(
        default=None, metadata={"help": "A litellm model name, or `self`."}
    )
    max_questions: int | None = field(
        default=5000, metadata={"help": "Train on so many questions."}
    )
    method: Literal["p2o", "grpo"] = field(
        default="p2o", metadata={"help": "`grpo` is the baseline, without co-evolution."}
    )


def as_chat(row: dict) -> dict:
    question = row.get("problem") or row["question"]
    answer = str(row["answer"] if "answer" in row else row["final_answer"])
    return {
        "prompt": [{"role": "user", "content": f"{question}\n{INSTRUCTION}"}],
        "answer": answer,  # for the reflection model
        # For the reward, which reads LaTeX only inside a box or dollars: of a bare 5 \sqrt{2} it reads 5.
        "solution": f"\\boxed{{{answer}}}",
    }


def main(script_args: P2OArguments, training_args: GRPOConfig, model_args: ModelConfig) -> None:
    dataset = load_dataset(script_args.dataset_name, split=script_args.dataset_train_split)
    dataset = dataset.shuffle(seed=training_args.seed)
    if script_args.max_questions is not None:
        dataset = dataset.select(range(min(script_args.max_questions, len(dataset))))
    trainer = GRPOTrainer(
        model=model_args.model_name_or_path,
        reward_funcs=accuracy_reward,
        args=training_args,
        train_dataset=dataset.map(as_chat, remove_columns=dataset.column_names),
    )
    if script_args.method == "p2o":
        settings = {"preset": "p2o"}
        if script_args.reflection_model is not None:
            settings["reflection"] = {"model": script_args.reflection_model}
        trainer.add_callback(CoevoCallback(trainer, settings))
    trainer.train(resume_from_checkpoint=training_args.resume_from_checkpoint)
    trainer.save_model(training_args.output_dir)


if __name__ == "__main__":
    parser = TrlParser((P2OArguments, GRPOConfig, ModelConfig))
    main(*parser.parse_args_and_config())
