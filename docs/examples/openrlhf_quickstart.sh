#!/usr/bin/env bash
# GRPO with OpenRLHF on questions of your own, on one GPU. The module's name and the two flags in COEVO, marked with
# `# new`, add the method stream.
#
# Not tried on GPUs yet: here only the arguments are tested. The reflection model's key comes from the
# environment (OPENAI_API_KEY), never from here: OpenRLHF prints its arguments.

set -euo pipefail

DATA=${DATA:-$HOME/data/questions}
REWARD=${REWARD:-$(cd "$(dirname "$0")" && pwd)/quickstart_reward.py}

COMMAND=prompt_coevo.adapters.openrlhf # new, in place of openrlhf.cli.train_ppo_ray
COEVO=(
    --coevo.method stream # new
    --coevo.reflection.model "${REFLECTION_MODEL:-openai/gpt-5}" # new
)

"${PYTHON:-python3}" -m "${COMMAND}" \
    --data.prompt_dataset "${DATA}/train.jsonl" \
    --data.input_key prompt \
    --data.label_key label \
    --data.apply_chat_template \
    --data.max_len 3072 \
    --rollout.max_new_tokens 1024 \
    --rollout.batch_size 64 \
    --rollout.n_samples_per_prompt 8 \
    --reward.remote_url "${REWARD}" \
    --actor.model_name_or_path "${MODEL_PATH:-Qwen/Qwen2.5-0.5B-Instruct}" \
    --actor.num_gpus_per_node 1 \
    --vllm.num_engines 1 \
    --vllm.gpu_memory_utilization 0.5 \
    --vllm.enable_sleep \
    --train.colocate_all \
    --train.batch_size 512 \
    --train.num_episodes 5 \
    --algo.advantage.estimator group_norm \
    --algo.kl.init_coef 0 \
    --ckpt.path "${CHECKPOINTS:-checkpoints/quickstart}" \
    --ckpt.output_dir "${CHECKPOINTS:-checkpoints/quickstart}/final" \
    --ckpt.save_steps 50 \
    "${COEVO[@]}" \
    "$@"
