"""What `+coevo` changes in the unmodified main_ppo, on a CPU.

    python benchmarks/verl_effect.py --seeds 3 --json benchmarks/results/verl_effect.json

    [--world facts] [--arms grpo stream] [--epochs 8] [--mode colocate_async]

All arms of a world (`effect_worlds.py`) have the same data, seeds, training rollouts and VeRL settings;
all but `grpo` have the flag and settings of the package. The reflection model is the world's teacher
behind an HTTP server that speaks the OpenAI protocol; platform and rollout server are the tests'
stand-ins (`tests/standins`). `--mode` is VeRL's `trainer_mode`. Scores are
greedy answers to held-out questions without any template.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import effect
from effect import BATCH, GROUP, Job

from helpers.verl_run import VerlRun, rows
from standins.openai_server import openai_server


def train(job: Job) -> effect.Run:
    """One run, and its last checkpoint's scores."""
    with (
        tempfile.TemporaryDirectory() as folder,
        openai_server(job.teacher()) as server,
        VerlRun(
            Path(folder),
            train=rows(job.tasks()),
            model=job.world.base,
            overrides=[*_overrides(job), *_flags(job, server.base)],
            env={"OPENAI_API_KEY": "none", "COEVO_TEST_SEED": str(job.seed)},
        ) as run,
    ):
        result = run.wait(effect.SECONDS)
        if result.returncode:
            raise SystemExit(result.tail)
        checkpoint = Path(folder) / "checkpoints" / f"global_step_{job.steps}"
        return effect.summary(
            job,
            searched=result.metrics[job.steps].get("coevo/search_rollouts", 0),
            generated=len(result.generated()),
            reflection_calls=len(server.requests),
            scores=job.score(checkpoint / "actor" / "huggingface"),
            seconds=result.seconds,
            step_seconds=[m["timing_s/step"] for m in result.metrics.values()],
        )


def _overrides(job: Job) -> list[str]:
    actor = "actor_rollout_ref.actor"
    return [
        *([f"trainer.v1.trainer_mode={job.mode}"] if job.mode else []),
        f"data.train_batch_size={BATCH}",
        f"data.seed={job.seed}",
        f"actor_rollout_ref.rollout.n={GROUP}",
        f"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu={BATCH * GROUP}",
        f"{actor}.ppo_mini_batch_size={BATCH}",
        f"{actor}.ppo_micro_batch_size_per_gpu={BATCH * GROUP}",
        f"{actor}.optim.lr={job.world.learning_rate}",
        f"{actor}.optim.lr_warmup_steps=5",
        f"{actor}.optim.betas=[0.9,0.95]",
        f"{actor}.checkpoint.save_contents=[model,hf_model]",
        f"reward.custom_reward_function.name={job.world.reward}",
        f"trainer.total_epochs={job.epochs}",
        f"trainer.save_freq={job.steps}",
    ]


def _flags(job: Job, api_base: str) -> list[str]:
    if not job.coevolves:
        return []
    flags = (f"coevo.{name}={value}" for name, value in job.coevo(api_base).items())
    return [f"+coevo={job.method}", *flags]


if __name__ == "__main__":
    effect.main(__doc__, train, modes=("colocate_async",))
