#!/usr/bin/env bash
# P2O (arXiv 2603.21877, section 4.1) | GRPO | Qwen3-4B | DeepScaler-5K | FSDP, vLLM rollout
#
# Numbers without a remark are the paper's. Not tried on GPUs yet: here only the configuration is tested.
#
# p2o_data.py makes the data: parquet files in VeRL's format, with `prompt` (a chat, the question with what it asks
# for: an answer in \boxed{}), `data_source`, `reward_model.ground_truth`. REWARD is a Python file with VeRL's
# compute_score, on every node. Rewards have to be 0 or 1, as in the paper: VeRL's own are with
# data_source=lighteval/MATH, math_dapo's are -1 and 1.
#
# METHOD chooses the arm: p2o; grpo, the paper's baseline, which is plain VeRL; or dapo, GRPO with DAPO's dynamic
# sampling (arXiv 2503.14476), which is not in the paper: groups that all fail or all succeed are replaced.
#
# The key of the reflection model comes from its provider's environment variable, never from here: VeRL
# prints and logs its configuration. On several nodes, start Ray with the variable set.

set -xeuo pipefail

# ---- user-adjustable ----
PYTHON=${PYTHON:-python3}
MODEL_PATH=${MODEL_PATH:-Qwen/Qwen3-4B}
METHOD=${METHOD:-p2o}
REWARD=${REWARD:-$(cd "$(dirname "$0")" && pwd)/p2o_reward.py}
TRAIN_FILE=${TRAIN_FILE:-$HOME/data/deepscaler/verl/train.parquet}
TEST_FILE=${TEST_FILE:-$HOME/data/deepscaler/verl/test_small.parquet}
CHECKPOINTS=${CHECKPOINTS:-checkpoints/${METHOD}/qwen3_4b_deepscaler}
NNODES=${NNODES:-1} # the paper does not say on what it trained
NGPUS_PER_NODE=${NGPUS_PER_NODE:-8}
ROLLOUT_TP=${ROLLOUT_TP:-1}
# The teacher. The paper says Kimi-K2 and no more; this is litellm's name for it at one provider. For Self-Ref serve
# MODEL_PATH somewhere: REFLECTION_MODEL=hosted_vllm/Qwen/Qwen3-4B, coevo.reflection.api_base=http://...
REFLECTION_MODEL=${REFLECTION_MODEL:-deepinfra/moonshotai/Kimi-K2-Instruct}

# No number in the paper. The longest question and the longest template have to fit in here together, or
# templates are refused; a template may have 1024 tokens (gates.max_candidate_tokens).
MAX_PROMPT_LENGTH=${MAX_PROMPT_LENGTH:-4096}
MAX_RESPONSE_LENGTH=${MAX_RESPONSE_LENGTH:-12288} # "12k tokens"
# ---- end user-adjustable ----

DATA=(
    data.train_files="${TRAIN_FILE}"
    data.val_files="${TEST_FILE}"
    data.train_max_samples=5000 # "randomly sampled"; all of what p2o_data.py drew
    data.seed=0 # ours: without a seed, a resumed run would draw other questions
    data.train_batch_size=128
    data.max_prompt_length="${MAX_PROMPT_LENGTH}"
    data.max_response_length="${MAX_RESPONSE_LENGTH}"
    data.filter_overlong_prompts=True
    data.truncation=error
    # The paper does not say whether Qwen3 thinks; its chat template lets it. To switch that off, append
    # +data.apply_chat_template_kwargs.enable_thinking=False
)

MODEL=(
    actor_rollout_ref.model.path="${MODEL_PATH}"
    actor_rollout_ref.model.use_remove_padding=True
    actor_rollout_ref.model.enable_gradient_checkpointing=True
)

ACTOR=(
    actor_rollout_ref.actor.optim.lr=1e-6 # "maximum"; the paper gives no schedule
    # Not in the paper: one update per batch. VeRL counts questions.
    actor_rollout_ref.actor.ppo_mini_batch_size=128
    actor_rollout_ref.actor.use_dynamic_bsz=True
    actor_rollout_ref.actor.ppo_max_token_len_per_gpu="$((MAX_PROMPT_LENGTH + MAX_RESPONSE_LENGTH))"
    actor_rollout_ref.actor.use_kl_loss=False
    actor_rollout_ref.actor.entropy_coeff=0 # not in the paper
)

ROLLOUT=(
    actor_rollout_ref.rollout.name=vllm
    actor_rollout_ref.rollout.tensor_model_parallel_size="${ROLLOUT_TP}"
    actor_rollout_ref.rollout.gpu_memory_utilization=0.6
    actor_rollout_ref.rollout.n=6
    actor_rollout_ref.rollout.temperature=0.6
    # "average performance across 16 rollouts" on the small test sets, greedy on the others
    actor_rollout_ref.rollout.val_kwargs.n=16
    actor_rollout_ref.rollout.val_kwargs.do_sample=True
    actor_rollout_ref.rollout.val_kwargs.temperature=0.6
)

ALGORITHM=(
    algorithm.adv_estimator=grpo
    algorithm.use_kl_in_reward=False
    reward.custom_reward_function.path="${REWARD}"
)

TRAINER=(
    # "One-step off-policy": sampling is one batch ahead of training. With `sync`, training is on-policy.
    trainer.v1.trainer_mode=colocate_async
    trainer.v1.colocate_async.num_warmup_batches=1
    trainer.total_epochs=5
    trainer.critic_warmup=0
    trainer.nnodes="${NNODES}"
    trainer.n_gpus_per_node="${NGPUS_PER_NODE}"
    trainer.logger='["console","wandb"]'
    trainer.project_name=p2o
    trainer.experiment_name="${METHOD}_qwen3_4b_deepscaler"
    trainer.default_local_dir="${CHECKPOINTS}"
    trainer.save_freq=39 # not in the paper: an epoch of 5000 questions
    trainer.test_freq=39
)

COEVO=(
    +coevo=p2o
    coevo.reflection.model="${REFLECTION_MODEL}"
    coevo.context_distillation=True
    coevo.p2o.hardness=literal
    coevo.p2o.overspend=never # the paper tests the budget between waves alone
    coevo.p2o.tau=0.2 # "nearly zero": with K = 6, all fail or one success
    coevo.p2o.search_every=epoch
    coevo.p2o.beam_width=16
    coevo.p2o.minibatch_size=3 # B; no number in the paper
    coevo.p2o.dev_size=300
    coevo.p2o.search_budget=11000 # C_total; no number in the paper, but what its authors ran
    coevo.p2o.minibatch_temperature=0.6
    coevo.p2o.dev_temperature=0.0 # not in the paper
    coevo.p2o.group_templates=diverse
)

case ${METHOD} in
    p2o) ARM=("${COEVO[@]}") ;;
    grpo) ARM=() ;;
    dapo) ARM=(algorithm.filter_groups.enable=True algorithm.filter_groups.metric=reward) ;;
    *)
        echo "METHOD=${METHOD}: must be p2o, grpo or dapo" >&2
        exit 1
        ;;
esac

"${PYTHON}" -m verl.trainer.main_ppo \
    "${DATA[@]}" \
    "${MODEL[@]}" \
    "${ACTOR[@]}" \
    "${ROLLOUT[@]}" \
    "${ALGORITHM[@]}" \
    "${TRAINER[@]}" \
    "${ARM[@]}" \
    "$@"
