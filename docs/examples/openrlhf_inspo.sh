#!/usr/bin/env bash
# INSPO (arXiv 2512.01945, appendix B) | GRPO | Qwen2.5-3B search agent | DeepSpeed, vLLM
#
# Numbers without a remark are the paper's. Not tried on GPUs yet: here only the arguments are tested. ZeRO-3
# and packing were run in small on a CPU (docs/openrlhf.md), --ds.enable_sleep never with this package.
# It submits a job to a Ray cluster that runs already (ray start --head), with the package on all nodes.
#
# Index, server and data: ../recipes.md. The server has to run before this does.
#
# AGENT is the file for OpenRLHF's --train.agent_func_path, on every node: the search agent with the
# server's address and its share of the paper's numbers (3 passages, 4 turns, 500 tokens each). The
# reward is the exact match of the agent's own answer.
#
# The data are files of rows with `prompt` (the question alone), `label` (the right answers as a JSON
# list) and, if wanted, `datasource`, on every node: the training sets of NQ and HotpotQA, shuffled.
# CHECKPOINTS is a folder that all nodes share.
#
# The key of the reflection model (GEMINI_API_KEY) comes from the environment, set where Ray is started
# on each node, never from here: OpenRLHF prints its arguments. --logger.wandb.key is such a secret, too;
# with WANDB_API_KEY set likewise, --logger.wandb.key yes is enough.

set -xeuo pipefail

# ---- user-adjustable ----
DASHBOARD=${DASHBOARD:-http://127.0.0.1:8265}
RUNTIME_ENV=${RUNTIME_ENV:-'{}'} # {"working_dir": "folder"}, and Ray takes files of yours to every node
AGENT=${AGENT:-$(cd "$(dirname "$0")" && pwd)/search_agent.py}
# The base model. For Qwen/Qwen2.5-7B the paper has a rate of 3e-7 and 6 turns: max_turns in AGENT, and
# MAX_RESPONSE_LENGTH=6650.
MODEL_PATH=${MODEL_PATH:-Qwen/Qwen2.5-3B}
LEARNING_RATE=${LEARNING_RATE:-5e-7}
MAX_PROMPT_LENGTH=${MAX_PROMPT_LENGTH:-4096}
# OpenRLHF has one limit for a whole episode: 4 turns that may search and one that answers, 500 tokens
# each, 4 observations of 500, and their tags.
MAX_RESPONSE_LENGTH=${MAX_RESPONSE_LENGTH:-4600}
TRAIN_FILE=${TRAIN_FILE:-$HOME/data/nq_hotpotqa/train.jsonl}
TEST_FILE=${TEST_FILE:-$HOME/data/nq_hotpotqa/test.jsonl}
CHECKPOINTS=${CHECKPOINTS:-$HOME/checkpoints/inspo/qwen2_5_3b_search}
NNODES=${NNODES:-1}
NGPUS_PER_NODE=${NGPUS_PER_NODE:-8}
REFLECTION_MODEL=${REFLECTION_MODEL:-gemini/gemini-2.5-pro}

# Appendix F's, word for word.
INSTRUCTION="Answer the given question. You must conduct reasoning inside <think> and </think> first \
every time you get new information. After reasoning, if you find you lack some knowledge, you can call \
a search engine by <search> query </search> and it will return the top searched results between \
<information> and </information>. You can search as many times as your want. If you find no further \
external knowledge needed, you can directly provide the answer inside <answer> and </answer>, without \
detailed illustrations. For example, <answer> Beijing </answer>."
# ---- end user-adjustable ----

DATA=(
    --data.prompt_dataset "${TRAIN_FILE}"
    --data.input_key prompt
    --data.label_key label
    --data.apply_chat_template
    --data.max_samples 153600 # 300 steps, of the 331 that are in the paper's 169 615 questions
    --data.max_len "$((MAX_PROMPT_LENGTH + MAX_RESPONSE_LENGTH))"
    --eval.dataset "${TEST_FILE}"
    --eval.n_samples_per_prompt 1 # not in the paper
    --eval.temperature 0 # not in the paper
)

ACTOR=(
    --actor.model_name_or_path "${MODEL_PATH}"
    --actor.num_nodes "${NNODES}"
    --actor.num_gpus_per_node "${NGPUS_PER_NODE}"
    --actor.adam.lr "${LEARNING_RATE}"
    --actor.lr_scheduler cosine
    --actor.lr_warmup_ratio 0.1
    --actor.eps_clip 0.2
    --actor.loss_agg_mode seq-mean-token-mean # eq. 2
    --actor.gradient_checkpointing_enable
    --ref.num_nodes "${NNODES}"
    --ref.num_gpus_per_node "${NGPUS_PER_NODE}"
    --ds.zero_stage 3
    --ds.packing_samples
)

ROLLOUT=(
    --train.agent_func_path "${AGENT}"
    --vllm.num_engines "$((NNODES * NGPUS_PER_NODE))"
    --vllm.gpu_memory_utilization 0.5
    --rollout.batch_size 512
    --rollout.n_samples_per_prompt 5
    --rollout.max_new_tokens "${MAX_RESPONSE_LENGTH}" # with an agent, the room behind a prompt
    --rollout.micro_batch_size 8
    --rollout.temperature 1.0
    --rollout.top_p 1.0
)

TRAINER=(
    --train.colocate_all # training, reference and engines take turns on the same GPUs
    --vllm.enable_sleep
    --ds.enable_sleep
    --algo.advantage.estimator group_norm # GRPO
    --algo.kl.use_loss
    --algo.kl.init_coef 0.001
    --algo.kl.estimator k3 # not in the paper
    --train.batch_size 1280 # a mini-batch of 256 questions; OpenRLHF counts responses
    --train.micro_batch_size 8 # 64 on 8 GPUs
    --train.num_episodes 1
    --ckpt.path "${CHECKPOINTS}"
    --ckpt.output_dir "${CHECKPOINTS}/final"
    --ckpt.load_enable
    --ckpt.save_steps 100 # not in the paper
    --eval.steps 100
    --logger.tensorboard_dir "${CHECKPOINTS}/tensorboard"
)

COEVO=(
    --coevo.method inspo
    --coevo.reflection.model "${REFLECTION_MODEL}"
    --coevo.inspo.instruction "${INSTRUCTION}"
    --coevo.placement.instruction prefix # in front of the question, in the user message: appendix F
    --coevo.inspo.population_size 7
    --coevo.inspo.parents 1
    --coevo.inspo.selection_temperature 0.2
    --coevo.inspo.window 5
    --coevo.inspo.prune_every 5
    --coevo.inspo.evolve_every 15
    --coevo.inspo.evolve_until 150
    --coevo.inspo.proposer reflection
    --coevo.inspo.failures_per_reflection 4
    --coevo.inspo.candidates_per_call 6
    --coevo.inspo.rounds 5
    --coevo.inspo.verify_size 200
)

# Ray gives the arguments to a shell on the head node, in quotes if they have spaces: no $ or ` in them.
ray job submit --address "${DASHBOARD}" --runtime-env-json "${RUNTIME_ENV}" -- \
    python3 -m prompt_coevo.adapters.openrlhf \
    "${DATA[@]}" \
    "${ACTOR[@]}" \
    "${ROLLOUT[@]}" \
    "${TRAINER[@]}" \
    "${COEVO[@]}" \
    "$@"
