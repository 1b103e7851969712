"""What `+coevo=p2o` changes in the unmodified main_ppo: the demo's world and policy, on a CPU.

    python benchmarks/verl_effect.py --seeds 3 --json benchmarks/results/verl_effect.json

Both arms have the same data, seeds, training rollouts and VeRL settings; the second has the flag and
the settings of the preset `demo-p2o`. The reflection model is the demo's teacher behind an HTTP server
that speaks the OpenAI protocol; platform and rollout server are the tests' stand-ins (`tests/standins`).
Scores are those of the demo: greedy answers to held-out questions without any template.
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import effect
from effect import BATCH, GROUP

from helpers.verl_run import VerlRun, rows
from standins.openai_server import openai_server

ARMS = {
    "grpo": [],
    "p2o": ["+coevo=p2o", "coevo.preset=demo-p2o", "coevo.ground_truth_column=auto"],
}


def train(arm: str, seed: int, epochs: int, questions: int) -> effect.Run:
    """One run, and its last checkpoint's scores."""
    splits = effect.splits_of(seed, questions)
    steps = epochs * (questions // BATCH)
    with (
        tempfile.TemporaryDirectory() as folder,
        openai_server(effect.teacher_of(seed)) as server,
        VerlRun(
            Path(folder),
            train=rows(splits.train),
            overrides=[*_overrides(seed, epochs, steps), *_flag(arm, seed, server.base)],
            env={"OPENAI_API_KEY": "none", "COEVO_TEST_SEED": str(seed)},
        ) as run,
    ):
        started = time.monotonic()
        result = run.wait(effect.SECONDS)
        if result.returncode:
            raise SystemExit(result.tail)
        checkpoint = Path(folder) / "checkpoints" / f"global_step_{steps}"
        return effect.summary(
            arm,
            seed,
            steps,
            searched=result.metrics[steps].get("coevo/search_rollouts", 0),
            scores=effect.score(checkpoint / "actor" / "huggingface", splits, epochs),
            seconds=time.monotonic() - started,
            step_seconds=[m["timing_s/step"] for m in result.metrics.values()],
        )


def _overrides(seed: int, epochs: int, steps: int) -> list[str]:
    actor = "actor_rollout_ref.actor"
    return [
        f"data.train_batch_size={BATCH}",
        f"data.seed={seed}",
        f"actor_rollout_ref.rollout.n={GROUP}",
        f"actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu={BATCH * GROUP}",
        f"{actor}.ppo_mini_batch_size={BATCH}",
        f"{actor}.ppo_micro_batch_size_per_gpu={BATCH * GROUP}",
        f"{actor}.optim.lr=2e-4",
        f"{actor}.optim.lr_warmup_steps=5",
        f"{actor}.optim.betas=[0.9,0.95]",
        f"{actor}.checkpoint.save_contents=[model,hf_model]",
        f"trainer.total_epochs={epochs}",
        f"trainer.save_freq={steps}",
    ]


def _flag(arm: str, seed: int, base: str) -> list[str]:
    if not ARMS[arm]:
        return []
    return [
        *ARMS[arm],
        f"coevo.seed={seed}",
        "coevo.reflection.model=openai/teacher",
        f"coevo.reflection.api_base={base}",
    ]


if __name__ == "__main__":
    effect.main(__doc__, ARMS, train)
