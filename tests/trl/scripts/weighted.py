"""Train with reward weights, a length penalty and DAPO's loss, as in TRL's paper index (DAPO)."""

from datasets import load_dataset
from trl import GRPOConfig, GRPOTrainer
from trl.rewards import accuracy_reward, get_soft_overlong_punishment, think_format_reward

overlong = get_soft_overlong_punishment(max_completion_len=64, soft_punish_cache=32)

trainer = GRPOTrainer(
    model="Qwen/Qwen3-0.6B",
    reward_funcs=[accuracy_reward, think_format_reward, overlong],
    args=GRPOConfig(
        output_dir="dapo",
        reward_weights=[1.0, 0.2, 0.5],
        loss_type="dapo",
        epsilon_high=0.28,
        beta=0.0,
        num_iterations=2,
        mask_truncated_completions=True,
    ),
    train_dataset=load_dataset("trl-lib/DeepMath-103K", split="train"),
)
trainer.train()
