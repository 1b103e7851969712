"""What `--coevo.method p2o` changes in the unmodified train_ppo_ray: the demo's world and policy, on a CPU.

    python benchmarks/openrlhf_effect.py --seeds 3 --json benchmarks/results/openrlhf_effect.json

Both arms have the same data, seeds, training rollouts and OpenRLHF settings; the first is OpenRLHF's own
command, the second the wrapper with the settings of the preset `demo-p2o`. The reflection model is the
demo's teacher behind an HTTP server that speaks the OpenAI protocol; vLLM, flash-attn and the device are
the tests' stand-ins (`tests/standins`). Scores are those of the demo: greedy answers to held-out
questions without any template.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import effect
from effect import BATCH, GROUP

from helpers.openrlhf_run import OpenRLHFRun, rows
from standins.openai_server import openai_server

WARMUP_STEPS = 5
ARMS = {
    "grpo": [],
    "p2o": [
        *("--coevo.method", "p2o", "--coevo.preset", "demo-p2o"),
        *("--coevo.ground_truth_column", "auto"),
    ],
}


def train(arm: str, seed: int, epochs: int, questions: int) -> effect.Run:
    """One run, and the scores of the model that it saved at its end."""
    splits = effect.splits_of(seed, questions)
    steps = epochs * (questions // BATCH)
    own = "openrlhf.cli.train_ppo_ray"
    with (
        tempfile.TemporaryDirectory() as folder,
        openai_server(effect.teacher_of(seed)) as server,
        OpenRLHFRun(
            Path(folder),
            train=rows(splits.train),
            module="prompt_coevo.adapters.openrlhf" if ARMS[arm] else own,
            overrides=[*_overrides(seed, epochs, steps), *_flags(arm, seed, server.base)],
            env={"OPENAI_API_KEY": "none", "COEVO_TEST_SEED": str(seed)},
        ) as run,
    ):
        started = time.monotonic()
        result = run.wait(effect.SECONDS)
        if result.returncode:
            raise SystemExit(result.tail)
        return effect.summary(
            arm,
            seed,
            steps,
            searched=result.metrics[steps].get("train/coevo/search_rollouts", 0),
            scores=effect.score(Path(folder) / "model", splits, epochs),
            seconds=time.monotonic() - started,
            step_seconds=[m["train/timing/step_total"] for m in result.metrics.values()],
        )


def _overrides(seed: int, epochs: int, steps: int) -> list[str]:
    rollouts = BATCH * GROUP
    return [
        f"--train.seed={seed}",
        f"--train.num_episodes={epochs}",
        f"--train.batch_size={rollouts}",
        f"--train.micro_batch_size={rollouts}",
        f"--rollout.batch_size={BATCH}",
        f"--rollout.n_samples_per_prompt={GROUP}",
        f"--rollout.micro_batch_size={rollouts}",
        "--actor.adam.lr=2e-4",
        "--actor.lr_scheduler=constant_with_warmup",
        f"--actor.lr_warmup_ratio={WARMUP_STEPS / steps}",
    ]


def _flags(arm: str, seed: int, base: str) -> list[str]:
    if not ARMS[arm]:
        return []
    server = ["--coevo.reflection.model", "openai/teacher", "--coevo.reflection.api_base", base]
    return [*ARMS[arm], "--coevo.seed", str(seed), *server]


if __name__ == "__main__":
    effect.main(__doc__, ARMS, train)
