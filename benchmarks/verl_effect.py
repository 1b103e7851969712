"""Measure what `+coevo` changes in the unmodified main_ppo, on a CPU.

    python benchmarks/verl_effect.py --seeds 3 --json benchmarks/results/verl_effect.json

    [--world facts] [--arms grpo stream] [--epochs 8] [--mode colocate_async]

    python benchmarks/verl_effect.py --world unnamed --vllm --seeds 1 --json FILE     # a language model

All arms of a world (`effect_worlds.py`) have the same data, seeds, training rollouts and VeRL settings;
all but `grpo` have the flag and settings of the package. The reflection model is the world's teacher
behind an HTTP server that speaks the OpenAI protocol; platform and rollout server are the tests'
stand-ins (`tests/standins`); with `--vllm` the rollout server is VeRL's own with the real vLLM, which the
session `verl_vllm` installs. `--mode` is VeRL's `trainer_mode`. Scores are of answers to held-out questions
without any template: greedy, and as its tier samples them (`effect_language.py`) in the world `unnamed`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import effect
from effect import Job

from helpers.verl_run import VerlRun
from standins.openai_server import openai_server

PROMPT: Final = 128
"""The most tokens of a prompt, which `VerlRun` sets."""
BFLOAT16: Final = (
    "actor_rollout_ref.actor.fsdp_config.mixed_precision.param_dtype=bf16",
    "actor_rollout_ref.actor.optim.weight_decay=0",
    "actor_rollout_ref.model.override_config.attn_implementation=sdpa",
    "actor_rollout_ref.rollout.dtype=bfloat16",
)
"""Products in bfloat16, weights and optimizer in float32; the rest as in TRL, too."""


def train(job: Job) -> effect.Run:
    """Run once, and score its last checkpoint."""
    with (
        tempfile.TemporaryDirectory() as folder,
        openai_server(job.teacher()) as server,
        VerlRun(
            Path(folder),
            train=[
                {"prompt": [{"role": "user", "content": question}], "ground_truth": answer}
                for question, answer in job.asked()
            ],
            model=job.world.base(Path(folder) / "policy"),
            real_vllm=job.vllm,
            overrides=[*overrides(job), *_flags(job, server.base)],
            env={"OPENAI_API_KEY": "none", "COEVO_TEST_SEED": str(job.seed)},
        ) as run,
    ):
        result = run.wait(effect.SECONDS)
        if result.returncode:
            raise SystemExit(result.tail)
        saved = [Path(folder) / "checkpoints" / f"global_step_{step}" for step in job.saved]
        return effect.summary(
            job,
            searched=result.metrics[job.steps].get("coevo/search_rollouts", 0),
            generated=len(result.generated()),
            reflection_calls=len(server.requests),
            scores=job.score([one / "actor" / "huggingface" for one in saved]),
            seconds=result.seconds,
            step_seconds=[m["timing_s/step"] for m in result.metrics.values()],
        )


def overrides(job: Job) -> list[str]:
    """Write the world's trainer values as VeRL has them."""
    actor, rollout, values = (
        "actor_rollout_ref.actor",
        "actor_rollout_ref.rollout",
        job.world.trainer,
    )
    tokens = values["max_completion_length"]
    return [
        *([f"trainer.v1.trainer_mode={job.mode}"] if job.mode else []),
        f"data.train_batch_size={job.batch}",
        f"data.max_response_length={tokens}",
        f"data.seed={job.seed}",
        f"{rollout}.n={job.group}",
        f"{rollout}.temperature={values['temperature']}",
        f"{rollout}.log_prob_micro_batch_size_per_gpu={job.rollouts}",
        *([f"{rollout}.max_model_len={PROMPT + tokens}"] if job.vllm else []),
        f"{actor}.ppo_mini_batch_size={job.batch}",
        f"{actor}.ppo_micro_batch_size_per_gpu={job.rollouts}",
        f"{actor}.optim.lr={values['learning_rate']}",
        f"{actor}.optim.lr_warmup_steps={values['warmup_steps']}",
        f"{actor}.optim.betas=[0.9,{values['adam_beta2']}]",
        *(BFLOAT16 if values["bf16"] else []),
        f"{actor}.checkpoint.save_contents=[model,hf_model]",
        f"reward.custom_reward_function.name={job.world.reward}",
        f"trainer.total_epochs={job.epochs}",
        f"trainer.save_freq={job.save_each}",
    ]


def _flags(job: Job, api_base: str) -> list[str]:
    if not job.coevolves:
        return []
    flags = (f"coevo.{name}={value}" for name, value in job.coevo(api_base).items())
    return [f"+coevo={job.method}", *flags]


if __name__ == "__main__":
    effect.main(__doc__, train, modes=("colocate_async",))
