#!/usr/bin/env bash
# GRPO with VeRL on questions of your own, on one GPU. The two arguments in COEVO, marked with `# new`, add stream.
#
# Not tried on GPUs yet: here only the configuration is tested. The reflection model's key comes from the
# environment (OPENAI_API_KEY), never from here.

set -euo pipefail

DATA=${DATA:-$HOME/data/questions}
REWARD=${REWARD:-$(cd "$(dirname "$0")" && pwd)/quickstart_reward.py}

COEVO=(
    +coevo=stream # new
    coevo.reflection.model="${REFLECTION_MODEL:-openai/gpt-5}" # new
)

"${PYTHON:-python3}" -m verl.trainer.main_ppo \
    algorithm.adv_estimator=grpo \
    data.train_files="${DATA}/train.parquet" \
    data.val_files="${DATA}/train.parquet" \
    data.train_batch_size=64 \
    data.max_prompt_length=2048 \
    data.max_response_length=1024 \
    data.filter_overlong_prompts=True \
    actor_rollout_ref.model.path="${MODEL_PATH:-Qwen/Qwen2.5-0.5B-Instruct}" \
    actor_rollout_ref.actor.ppo_mini_batch_size=64 \
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 \
    actor_rollout_ref.rollout.name=vllm \
    actor_rollout_ref.rollout.n=8 \
    actor_rollout_ref.rollout.gpu_memory_utilization=0.5 \
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8 \
    reward.custom_reward_function.path="${REWARD}" \
    trainer.n_gpus_per_node=1 \
    trainer.total_epochs=5 \
    trainer.logger='["console"]' \
    trainer.default_local_dir="${CHECKPOINTS:-checkpoints/quickstart}" \
    trainer.save_freq=50 \
    "${COEVO[@]}" \
    "$@"
