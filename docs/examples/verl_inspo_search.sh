#!/usr/bin/env bash
# INSPO (arXiv 2512.01945, appendix B) | GRPO | Qwen2.5-3B search agent | FSDP, vLLM rollout
#
# Numbers without a remark are the paper's. Not tried on GPUs yet: here only the configuration is tested.
#
# Index, server and data: ../recipes.md. The server has to run before this does.
#
# AGENT_LOOPS is the file for VeRL's agent_loop_config_path, on every node: the search agent with the
# server's address and its share of the paper's numbers (3 passages, 4 turns, 500 tokens each). The
# reward is the exact match of the agent's own answer.
#
# The data are parquet files in VeRL's format, the training sets of NQ and HotpotQA: `prompt` (a chat with
# the question alone), `data_source` (validation is reported for each), `reward_model.ground_truth`
# ({"target": [answers]}). A column agent_name, if there is one, has to say search_agent.
#
# The key of the reflection model (GEMINI_API_KEY) comes from the environment, never from here: VeRL
# prints and logs its configuration. On several nodes, start Ray with the variable set.

set -xeuo pipefail

# ---- user-adjustable ----
PYTHON=${PYTHON:-python3}
AGENT_LOOPS=${AGENT_LOOPS:-$(dirname "$0")/search_agent.yaml}
# The base model. For Qwen/Qwen2.5-7B the paper has a rate of 3e-7 and 6 turns: max_turns in AGENT_LOOPS,
# and MAX_RESPONSE_LENGTH=6650.
MODEL_PATH=${MODEL_PATH:-Qwen/Qwen2.5-3B}
LEARNING_RATE=${LEARNING_RATE:-5e-7}
# VeRL has one limit for a whole episode: 4 turns that may search and one that answers, 500 tokens each,
# 4 observations of 500, and their tags.
MAX_RESPONSE_LENGTH=${MAX_RESPONSE_LENGTH:-4600}
TRAIN_FILE=${TRAIN_FILE:-$HOME/data/nq_hotpotqa/train.parquet}
TEST_FILE=${TEST_FILE:-$HOME/data/nq_hotpotqa/test.parquet}
CHECKPOINTS=${CHECKPOINTS:-checkpoints/inspo/qwen2_5_3b_search}
NNODES=${NNODES:-1}
NGPUS_PER_NODE=${NGPUS_PER_NODE:-8}
REFLECTION_MODEL=${REFLECTION_MODEL:-gemini/gemini-2.5-pro}

# Appendix F's, word for word. No single quotes: hydra reads it.
INSTRUCTION="Answer the given question. You must conduct reasoning inside <think> and </think> first \
every time you get new information. After reasoning, if you find you lack some knowledge, you can call \
a search engine by <search> query </search> and it will return the top searched results between \
<information> and </information>. You can search as many times as your want. If you find no further \
external knowledge needed, you can directly provide the answer inside <answer> and </answer>, without \
detailed illustrations. For example, <answer> Beijing </answer>."
# ---- end user-adjustable ----

if [[ ! -r ${AGENT_LOOPS} ]]; then
    echo "AGENT_LOOPS: there is no file ${AGENT_LOOPS} with the search agent, see above" >&2
    exit 1
fi
AGENT_LOOPS=$(realpath "${AGENT_LOOPS}") # Ray's workers are in folders of their own

DATA=(
    data.train_files="${TRAIN_FILE}"
    data.val_files="${TEST_FILE}"
    data.train_batch_size=512
    data.max_prompt_length=4096
    data.max_response_length="${MAX_RESPONSE_LENGTH}"
    data.filter_overlong_prompts=True
    data.truncation=error
)

MODEL=(
    actor_rollout_ref.model.path="${MODEL_PATH}"
    actor_rollout_ref.model.use_remove_padding=True
    actor_rollout_ref.model.enable_gradient_checkpointing=True
)

ACTOR=(
    actor_rollout_ref.actor.optim.lr="${LEARNING_RATE}"
    actor_rollout_ref.actor.optim.lr_scheduler_type=cosine
    actor_rollout_ref.actor.optim.lr_warmup_steps_ratio=0.1
    actor_rollout_ref.actor.ppo_mini_batch_size=256 # VeRL counts questions
    actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=8 # 64 on 8 GPUs
    actor_rollout_ref.actor.clip_ratio=0.2
    actor_rollout_ref.actor.use_kl_loss=True
    actor_rollout_ref.actor.kl_loss_coef=0.001
    actor_rollout_ref.actor.kl_loss_type=low_var_kl # not in the paper
    actor_rollout_ref.actor.entropy_coeff=0 # not in the paper
    actor_rollout_ref.ref.log_prob_micro_batch_size_per_gpu=8
    actor_rollout_ref.ref.fsdp_config.param_offload=True
)

ROLLOUT=(
    actor_rollout_ref.rollout.name=vllm
    actor_rollout_ref.rollout.tensor_model_parallel_size=1
    actor_rollout_ref.rollout.gpu_memory_utilization=0.5
    actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=8
    actor_rollout_ref.rollout.n=5
    actor_rollout_ref.rollout.temperature=1.0
    actor_rollout_ref.rollout.top_p=1.0
    actor_rollout_ref.rollout.agent.agent_loop_config_path="${AGENT_LOOPS}"
    actor_rollout_ref.rollout.agent.default_agent_loop=search_agent
)

ALGORITHM=(
    algorithm.adv_estimator=grpo
    algorithm.use_kl_in_reward=False
)

TRAINER=(
    trainer.total_training_steps=300
    trainer.total_epochs=1 # 331 steps for the paper's 169 615 questions
    trainer.critic_warmup=0
    trainer.nnodes="${NNODES}"
    trainer.n_gpus_per_node="${NGPUS_PER_NODE}"
    trainer.logger='["console","wandb"]'
    trainer.project_name=inspo
    trainer.experiment_name=qwen2_5_3b_search
    trainer.default_local_dir="${CHECKPOINTS}"
    trainer.test_freq=100
    trainer.save_freq=100 # not in the paper
)

COEVO=(
    +coevo=inspo
    coevo.reflection.model="${REFLECTION_MODEL}"
    "coevo.inspo.instruction='${INSTRUCTION}'"
    coevo.placement.instruction=prefix # in front of the question, in the user message: appendix F
    coevo.inspo.population_size=7
    coevo.inspo.parents=1
    coevo.inspo.selection_temperature=0.2
    coevo.inspo.window=5
    coevo.inspo.prune_every=5
    coevo.inspo.evolve_every=15
    coevo.inspo.evolve_until=150
    coevo.inspo.proposer=reflection
    coevo.inspo.failures_per_reflection=4
    coevo.inspo.candidates_per_call=6
    coevo.inspo.rounds=5
    coevo.inspo.verify_size=200
)

"${PYTHON}" -m verl.trainer.main_ppo \
    "${DATA[@]}" \
    "${MODEL[@]}" \
    "${ACTOR[@]}" \
    "${ROLLOUT[@]}" \
    "${ALGORITHM[@]}" \
    "${TRAINER[@]}" \
    "${COEVO[@]}" \
    "$@"
