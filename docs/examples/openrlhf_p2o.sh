#!/usr/bin/env bash
# P2O (arXiv 2603.21877, section 4.1) | GRPO | Qwen3-4B | DeepScaler-5K | DeepSpeed, vLLM
#
# Numbers without a remark are the paper's. Not tried on GPUs yet: here only the arguments are tested. ZeRO-3,
# packing and dynamic batching were run in small on a CPU (docs/openrlhf.md).
# It submits a job to a Ray cluster that runs already (ray start --head), with the package on all nodes.
#
# REWARD is a Python file, on every node, with OpenRLHF's reward_func(queries, prompts, labels). Rewards have to be
# 0 or 1, as in the paper. A query is prompt and response in one text, and the prompt may hold a template: only
# what follows the prompt is to be graded.
#
# p2o_data.py makes the data, on every node: files of rows with `prompt` (a text or a chat, the question with what
# it asks for: an answer in \boxed{}) and `label`. CHECKPOINTS is a folder that all nodes share.
#
# METHOD chooses the arm: p2o; grpo, the paper's baseline, which is plain OpenRLHF; or dapo, GRPO with DAPO's dynamic
# sampling (arXiv 2503.14476), which is not in the paper: groups that all fail or all succeed are replaced.
#
# The key of the reflection model comes from its provider's environment variable, set where Ray is
# started on each node, never from here: OpenRLHF prints its arguments. --logger.wandb.key is such a
# secret, too; with WANDB_API_KEY set likewise, --logger.wandb.key yes is enough.

set -xeuo pipefail

# ---- user-adjustable ----
DASHBOARD=${DASHBOARD:-http://127.0.0.1:8265}
RUNTIME_ENV=${RUNTIME_ENV:-'{}'} # {"working_dir": "folder"}, and Ray takes files of yours to every node
METHOD=${METHOD:-p2o}
REWARD=${REWARD-$(cd "$(dirname "$0")" && pwd)/p2o_reward.py}
: "${REWARD:?set it to the Python file with the reward function, see above}"
MODEL_PATH=${MODEL_PATH:-Qwen/Qwen3-4B}
TRAIN_FILE=${TRAIN_FILE:-$HOME/data/deepscaler/openrlhf/train.jsonl}
TEST_FILE=${TEST_FILE:-$HOME/data/deepscaler/openrlhf/test_small.jsonl}
CHECKPOINTS=${CHECKPOINTS:-$HOME/checkpoints/${METHOD}/qwen3_4b_deepscaler}
NNODES=${NNODES:-1} # the paper does not say on what it trained; here 4 GPUs train and 4 generate
NGPUS_PER_NODE=${NGPUS_PER_NODE:-4}
ROLLOUT_ENGINES=${ROLLOUT_ENGINES:-4}
ROLLOUT_TP=${ROLLOUT_TP:-1}
# The teacher. The paper says Kimi-K2 and no more; this is litellm's name for it at one provider. For Self-Ref serve
# MODEL_PATH somewhere: REFLECTION_MODEL=hosted_vllm/Qwen/Qwen3-4B, --coevo.reflection.api_base http://...
REFLECTION_MODEL=${REFLECTION_MODEL:-deepinfra/moonshotai/Kimi-K2-Instruct}

# No number in the paper. The longest question and the longest template have to fit in here together, or
# templates are refused; a template may have 1024 tokens (gates.max_candidate_tokens).
MAX_PROMPT_LENGTH=${MAX_PROMPT_LENGTH:-4096}
MAX_RESPONSE_LENGTH=${MAX_RESPONSE_LENGTH:-12288} # "12k tokens"
# ---- end user-adjustable ----

DATA=(
    --data.prompt_dataset "${TRAIN_FILE}"
    --data.input_key prompt
    --data.label_key label
    # The paper does not say whether Qwen3 thinks; its chat template lets it. OpenRLHF has no flag for that.
    --data.apply_chat_template
    --data.max_samples 5000 # "randomly sampled": OpenRLHF takes the first, p2o_data.py drew them
    --data.max_len "$((MAX_PROMPT_LENGTH + MAX_RESPONSE_LENGTH))"
    --eval.dataset "${TEST_FILE}"
    # "average performance across 16 rollouts" on the small test sets, greedy on the others
    --eval.n_samples_per_prompt 16
    --eval.temperature 0.6
)

ACTOR=(
    --actor.model_name_or_path "${MODEL_PATH}"
    --actor.num_nodes "${NNODES}"
    --actor.num_gpus_per_node "${NGPUS_PER_NODE}"
    --actor.adam.lr 1e-6 # "maximum"; the paper gives no schedule, so OpenRLHF's
    --actor.gradient_checkpointing_enable
    --ds.zero_stage 3
    --ds.packing_samples
)

ROLLOUT=(
    --reward.remote_url "${REWARD}"
    --vllm.num_engines "${ROLLOUT_ENGINES}"
    --vllm.tensor_parallel_size "${ROLLOUT_TP}"
    --rollout.batch_size 128
    --rollout.n_samples_per_prompt 6
    --rollout.max_new_tokens "${MAX_RESPONSE_LENGTH}"
    --rollout.temperature 0.6
)

TRAINER=(
    # One step off-policy: the next batch is generated while one is trained on.
    --train.async_enable
    --train.async_queue_size 1
    --algo.advantage.estimator group_norm # GRPO
    --algo.kl.init_coef 0
    # Not in the paper: one update per batch. OpenRLHF counts responses, 128 times 6.
    --train.batch_size 768
    --train.dynamic_batch_enable
    --train.max_tokens_per_gpu "$((MAX_PROMPT_LENGTH + MAX_RESPONSE_LENGTH))"
    --train.num_episodes 5
    --ckpt.path "${CHECKPOINTS}"
    --ckpt.output_dir "${CHECKPOINTS}/final"
    --ckpt.load_enable
    # Not in the paper: an epoch. The last of its 40 batches has 8 questions, too few for an update.
    --ckpt.save_steps 40
    --eval.steps 40
    --logger.tensorboard_dir "${CHECKPOINTS}/tensorboard"
)

COEVO=(
    --coevo.method p2o
    --coevo.reflection.model "${REFLECTION_MODEL}"
    --coevo.context_distillation true
    --coevo.p2o.hardness literal
    --coevo.p2o.overspend never # the paper tests the budget between waves alone
    --coevo.p2o.tau 0.2 # "nearly zero": with K = 6, all fail or one success
    --coevo.p2o.search_every epoch
    --coevo.p2o.beam_width 16
    --coevo.p2o.minibatch_size 3 # B; no number in the paper
    --coevo.p2o.dev_size 300
    --coevo.p2o.search_budget 11000 # C_total; no number in the paper, but what its authors ran
    --coevo.p2o.minibatch_temperature 0.6
    --coevo.p2o.dev_temperature 0.0 # not in the paper
    --coevo.p2o.group_templates diverse
)

MODULE=openrlhf.cli.train_ppo_ray
case ${METHOD} in
    p2o)
        MODULE=prompt_coevo.adapters.openrlhf
        ARM=("${COEVO[@]}")
        ;;
    grpo) ARM=() ;;
    dapo) ARM=(--algo.dynamic_filtering_enable --algo.dynamic_filtering_range 0 1) ;;
    *)
        echo "METHOD=${METHOD}: must be p2o, grpo or dapo" >&2
        exit 1
        ;;
esac

# Ray gives the arguments to a shell on the head node, in quotes if they have spaces: no $ or ` in them.
ray job submit --address "${DASHBOARD}" --runtime-env-json "${RUNTIME_ENV}" -- \
    python3 -m "${MODULE}" \
    "${DATA[@]}" \
    "${ACTOR[@]}" \
    "${ROLLOUT[@]}" \
    "${TRAINER[@]}" \
    "${ARM[@]}" \
    "$@"
