"""What `--coevo.method` changes in the unmodified train_ppo_ray, on a CPU.

    python benchmarks/openrlhf_effect.py --seeds 3 --json benchmarks/results/openrlhf_effect.json

    [--world facts] [--arms grpo stream] [--epochs 8] [--mode async]

All arms of a world (`effect_worlds.py`) have the same data, seeds, training rollouts and OpenRLHF
settings; `grpo` is OpenRLHF's own command, the others are the wrapper with settings of the package. The
reflection model is the world's teacher behind an HTTP server that speaks the OpenAI protocol; vLLM,
flash-attn and the device are the tests' stand-ins (`tests/standins`). With `--mode async` it is
OpenRLHF's asynchronous trainer, with `async_corrected` also its correction for the sampler. Scores are
greedy answers to held-out questions without any template.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import effect
from effect import BATCH, GROUP, Job

from helpers.openrlhf_run import OpenRLHFRun, rows
from standins.openai_server import openai_server

WARMUP_STEPS = 5
ASYNC, CORRECTED = "async", "async_corrected"


def train(job: Job) -> effect.Run:
    """One run, and the scores of the model that it saved at its end."""
    own = "openrlhf.cli.train_ppo_ray"
    with (
        tempfile.TemporaryDirectory() as folder,
        openai_server(job.teacher()) as server,
        OpenRLHFRun(
            Path(folder),
            train=rows(job.tasks()),
            model=job.world.base,
            reward=job.world.reward,
            module="prompt_coevo.adapters.openrlhf" if job.coevolves else own,
            overrides=[*_overrides(job), *_flags(job, server.base)],
            env={"OPENAI_API_KEY": "none", "COEVO_TEST_SEED": str(job.seed)},
        ) as run,
    ):
        result = run.wait(effect.SECONDS)
        if result.returncode:
            raise SystemExit(result.tail)
        return effect.summary(
            job,
            searched=result.metrics[job.steps].get("train/coevo/search_rollouts", 0),
            generated=len(result.generated()),
            reflection_calls=len(server.requests),
            scores=job.score(Path(folder) / "model"),
            seconds=result.seconds,
            step_seconds=[m["train/timing/step_total"] for m in result.metrics.values()],
        )


def _overrides(job: Job) -> list[str]:
    rollouts = BATCH * GROUP
    return [
        *(["--train.async_enable"] if job.mode else []),
        *(["--algo.advantage.is_correction_level=token"] if job.mode == CORRECTED else []),
        f"--train.seed={job.seed}",
        f"--train.num_episodes={job.epochs}",
        f"--train.batch_size={rollouts}",
        f"--train.micro_batch_size={rollouts}",
        f"--rollout.batch_size={BATCH}",
        f"--rollout.n_samples_per_prompt={GROUP}",
        f"--rollout.micro_batch_size={rollouts}",
        f"--actor.adam.lr={job.world.learning_rate}",
        "--actor.lr_scheduler=constant_with_warmup",
        f"--actor.lr_warmup_ratio={WARMUP_STEPS / job.steps}",
    ]


def _flags(job: Job, api_base: str) -> list[str]:
    if not job.coevolves:
        return []
    flags = (f"--coevo.{name}={value}" for name, value in job.coevo(api_base).items())
    return ["--coevo.method", job.method, *flags]


if __name__ == "__main__":
    effect.main(__doc__, train, modes=(ASYNC, CORRECTED))
