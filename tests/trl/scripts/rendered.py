"""Train on prompts that the script renders itself, as many notebooks do."""

from datasets import load_dataset
from transformers import AutoTokenizer
from trl import GRPOTrainer

tokenizer = AutoTokenizer.from_pretrained("Qwen/Qwen3-0.6B")


def render(row):
    text = tokenizer.apply_chat_template(row["prompt"], tokenize=False, add_generation_prompt=True)
    return {"prompt": text}


def correct(completions, solution, **kwargs):
    return [
        float(one.strip("$") + "}" in text) for text, one in zip(completions, solution, strict=True)
    ]


trainer = GRPOTrainer(
    model="Qwen/Qwen3-0.6B",
    reward_funcs=correct,
    train_dataset=load_dataset("trl-lib/DeepMath-103K", split="train").map(render),
    processing_class=tokenizer,
)
trainer.train()
