"""Train with a `rollout_func`, which TRL's page "OpenEnv" documents for sampling outside the trainer."""

import torch
from datasets import load_dataset
from trl import GRPOTrainer
from trl.rewards import accuracy_reward


def rollout_func(prompts, trainer):
    tokenizer = trainer.processing_class
    prompt_ids, completion_ids = [], []
    for prompt in prompts:
        ids = tokenizer.apply_chat_template(
            prompt,
            add_generation_prompt=True,
            return_dict=False,
            chat_template=trainer.chat_template,
        )
        with torch.no_grad():
            whole = trainer.model.generate(
                input_ids=torch.tensor([ids]), generation_config=trainer.generation_config
            )
        prompt_ids.append(ids)
        completion_ids.append(whole[0, len(ids) :].tolist())
    return {"prompt_ids": prompt_ids, "completion_ids": completion_ids, "logprobs": None}


trainer = GRPOTrainer(
    model="Qwen/Qwen3-0.6B",
    reward_funcs=accuracy_reward,
    train_dataset=load_dataset("trl-lib/DeepMath-103K", split="train"),
    rollout_func=rollout_func,
)
trainer.train()
