"""Train with two rewards, LoRA and an evaluation, as in TRL's examples/scripts/rloo.py and gspo.py."""

from datasets import load_dataset
from peft import LoraConfig
from trl import RLOOConfig, RLOOTrainer
from trl.rewards import accuracy_reward, think_format_reward

SYSTEM_PROMPT = "Think between <think> and </think>, then answer."


def make_conversation(example):
    messages = [
        {"role": "system", "content": SYSTEM_PROMPT},
        {"role": "user", "content": example["problem"]},
    ]
    return {"prompt": messages}


def main():
    train, test = load_dataset("AI-MO/NuminaMath-TIR", split=["train[:5%]", "test[:5%]"])
    train = train.map(make_conversation, remove_columns=["messages", "problem"])
    test = test.map(make_conversation, remove_columns=["messages", "problem"])
    args = RLOOConfig(
        output_dir="Qwen3-0.6B-RLOO",
        learning_rate=1e-5,
        log_completions=True,
        num_completions_to_print=2,
        max_completion_length=1024,
        gradient_accumulation_steps=2,
        eval_strategy="epoch",
    )
    trainer = RLOOTrainer(
        model="Qwen/Qwen3-0.6B",
        args=args,
        reward_funcs=[think_format_reward, accuracy_reward],
        train_dataset=train,
        eval_dataset=test,
        peft_config=LoraConfig(),
    )
    trainer.train()
    trainer.save_model(args.output_dir)


if __name__ == "__main__":
    main()
