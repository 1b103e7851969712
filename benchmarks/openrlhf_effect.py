"""Measure what `--coevo.method` changes in the unmodified train_ppo_ray, on a CPU.

    python benchmarks/openrlhf_effect.py --seeds 3 --json benchmarks/results/openrlhf_effect.json

    [--world facts] [--arms grpo stream] [--epochs 8] [--mode async]

    python benchmarks/openrlhf_effect.py --world unnamed --vllm --seeds 1 --json FILE     # a language model

All arms of a world (`effect_worlds.py`) have the same data, seeds, training rollouts and OpenRLHF
settings; `grpo` is OpenRLHF's own command, the others are the wrapper with settings of the package. The
reflection model is the world's teacher behind an HTTP server that speaks the OpenAI protocol; vLLM,
flash-attn and the device are the tests' stand-ins (`tests/standins`); with `--vllm` vLLM is the real one,
which the session `openrlhf_vllm` installs. With `--mode async` it is OpenRLHF's asynchronous trainer, with
`async_corrected` also its correction for the sampler. With `--mode filtered` it drops groups whose rewards
are all equal (dynamic sampling) and takes the next question, so the same rollouts make fewer steps. Scores
are of answers to held-out questions without any template: greedy, and as its tier samples them
(`effect_language.py`) in the world `unnamed`.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import effect
from effect import Job

from helpers.openrlhf_run import OpenRLHFRun
from standins.openai_server import openai_server

PROMPT = 128
"""The most tokens of a prompt."""
ASYNC, CORRECTED, FILTERED = "async", "async_corrected", "filtered"


def train(job: Job) -> effect.Run:
    """Run once, and score the model saved at the end."""
    own = "openrlhf.cli.train_ppo_ray"
    with (
        tempfile.TemporaryDirectory() as folder,
        openai_server(job.teacher()) as server,
        OpenRLHFRun(
            Path(folder),
            train=[
                {"input": [{"role": "user", "content": question}], "label": answer}
                for question, answer in job.asked()
            ],
            model=job.world.base(Path(folder) / "policy"),
            real_vllm=job.vllm,
            reward=job.world.reward,
            module="prompt_coevo.adapters.openrlhf" if job.coevolves else own,
            overrides=[*overrides(job), *_flags(job, server.base)],
            env={
                "OPENAI_API_KEY": "none",
                "COEVO_TEST_SEED": str(job.seed),
                **({"COEVO_TEST_BF16": "1"} if job.world.trainer["bf16"] else {}),
            },
        ) as training,
    ):
        result = training.wait(effect.SECONDS)
        if result.returncode:
            raise SystemExit(result.tail)
        steps, generated = max(result.metrics), len(result.generated())
        saved = [step for step in job.saved if step < steps]
        ways = [Path(folder) / "checkpoints" / f"global_step{step}_hf" for step in saved]
        run = effect.summary(
            job,
            searched=result.metrics[steps].get("train/coevo/search_rollouts", 0),
            generated=generated,
            reflection_calls=len(server.requests),
            scores=job.score([*ways, Path(folder) / "model"]),
            seconds=result.seconds,
            step_seconds=[m["train/timing/step_total"] for m in result.metrics.values()],
        )
    if job.mode == FILTERED:
        run["steps"] = steps
    return run


def overrides(job: Job) -> list[str]:
    """Write the world's trainer values as OpenRLHF has them."""
    values = job.world.trainer
    tokens = values["max_completion_length"]
    # A little less: OpenRLHF rounds the number of steps up.
    warmup = (values["warmup_steps"] - 0.5) / job.steps
    return [
        *(["--train.async_enable"] if job.mode in (ASYNC, CORRECTED) else []),
        *(["--algo.dynamic_filtering_enable"] if job.mode == FILTERED else []),
        *(["--algo.advantage.is_correction_level=token"] if job.mode == CORRECTED else []),
        f"--train.seed={job.seed}",
        f"--train.num_episodes={job.epochs}",
        f"--train.batch_size={job.rollouts}",
        f"--train.micro_batch_size={job.rollouts}",
        f"--data.max_len={PROMPT + tokens}",
        f"--rollout.max_new_tokens={tokens}",
        f"--rollout.temperature={values['temperature']}",
        f"--rollout.batch_size={job.batch}",
        f"--rollout.n_samples_per_prompt={job.group}",
        f"--rollout.micro_batch_size={job.rollouts}",
        f"--actor.adam.lr={values['learning_rate']}",
        *("--actor.adam.betas", "0.9", str(values["adam_beta2"])),
        "--actor.lr_scheduler=constant_with_warmup",
        f"--actor.lr_warmup_ratio={warmup}",
        *(_saving(job) if job.world.points > 1 else []),
    ]


def _saving(job: Job) -> list[str]:
    """Save weights during the run; the trainer's state comes with them, and the older one is deleted."""
    return [f"--ckpt.save_steps={job.save_each}", "--ckpt.save_hf", "--ckpt.max_num=1"]


def _flags(job: Job, api_base: str) -> list[str]:
    if not job.coevolves:
        return []
    flags = (f"--coevo.{name}={value}" for name, value in job.coevo(api_base).items())
    return ["--coevo.method", job.method, *flags]


if __name__ == "__main__":
    effect.main(__doc__, train, modes=(ASYNC, CORRECTED, FILTERED))
