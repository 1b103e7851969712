"""Train as in Unsloth's GRPO notebooks: its model with LoRA, a system message, several rewards."""

from unsloth import FastLanguageModel  # isort: skip

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer

SYSTEM_PROMPT = "Respond with <reasoning>...</reasoning><answer>...</answer>."

model, tokenizer = FastLanguageModel.from_pretrained(
    model_name="Qwen/Qwen3-0.6B", max_seq_length=1024, load_in_4bit=False, max_lora_rank=8
)
model = FastLanguageModel.get_peft_model(model, r=8, target_modules=["q_proj", "v_proj"])


def prepare(row):
    chat = [
        {"role": "system", "content": SYSTEM_PROMPT},
        {"role": "user", "content": row["question"]},
    ]
    return {"prompt": chat, "answer": row["answer"].split("####")[1].strip()}


def said(completion):
    return completion[0]["content"].split("<answer>")[-1].split("</answer>")[0].strip()


def check_answer(completions, answer, **kwargs):
    return [3.0 if said(c) == a else -0.5 for c, a in zip(completions, answer, strict=True)]


def match_format(completions, **kwargs):
    return [1.0 if "<answer>" in one[0]["content"] else 0.0 for one in completions]


trainer = GRPOTrainer(
    model=model,
    processing_class=tokenizer,
    reward_funcs=[match_format, check_answer],
    args=GRPOConfig(
        output_dir="unsloth",
        learning_rate=5e-6,
        per_device_train_batch_size=8,
        num_generations=8,
        num_train_epochs=3,
        max_completion_length=256,
    ),
    train_dataset=load_dataset("openai/gsm8k", split="train").map(prepare),
)
trainer.train()
