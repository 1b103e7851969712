"""What `+coevo=p2o` changes in the unmodified main_ppo: the demo's world and policy, on a CPU.

    python benchmarks/verl_effect.py --seeds 3 --json benchmarks/results/verl_effect.json

Both arms have the same data, seeds, training rollouts and VeRL settings; the second has the flag and
the settings of the preset `demo-p2o`. The reflection model is the demo's teacher behind an HTTP server
that speaks the OpenAI protocol; platform and rollout server are the tests' stand-ins (`tests/standins`).
Scores are those of the demo: greedy answers to held-out questions without any template.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

import torch
from helpers.verl_run import Result, VerlRun, rows
from standins.openai_server import openai_server
from transformers import AutoModelForCausalLM, AutoTokenizer

from prompt_coevo.demo.evaluate import evaluate
from prompt_coevo.demo.model import base_policy_path
from prompt_coevo.demo.splits import Splits, make_splits
from prompt_coevo.demo.teacher import Teacher
from prompt_coevo.demo.world import World

BATCH, GROUP = 32, 6
ARMS = {
    "grpo": [],
    "p2o": ["+coevo=p2o", "coevo.preset=demo-p2o", "coevo.ground_truth_column=auto"],
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--arms", nargs="+", choices=ARMS, default=list(ARMS))
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--questions", type=int, default=512)
    parser.add_argument("--json", type=Path, help="add the runs to this file")
    options = parser.parse_args()
    torch.set_num_threads(1)
    runs = json.loads(options.json.read_text())["runs"] if _exists(options.json) else []
    for seed in range(options.seeds):
        for arm in options.arms:
            if any((run["arm"], run["seed"]) == (arm, seed) for run in runs):
                continue
            runs.append(train(arm, seed, options.epochs, options.questions))
            print(json.dumps(runs[-1]), flush=True)
            if options.json:
                options.json.write_text(json.dumps({"runs": runs}, indent=1) + "\n")
    print(table(runs))


def train(arm: str, seed: int, epochs: int, questions: int) -> dict[str, Any]:
    """One run, and its last checkpoint's scores."""
    splits = make_splits(World(), seed, questions, 512)
    teacher = Teacher(seed=seed)
    steps = epochs * (questions // BATCH)
    with (
        tempfile.TemporaryDirectory() as folder,
        openai_server(lambda body: teacher(body["messages"][-1]["content"])) as server,
        VerlRun(
            Path(folder),
            train=rows(splits.train),
            overrides=[*_overrides(seed, epochs, steps), *_flag(arm, seed, server.base)],
            env={"OPENAI_API_KEY": "none", "COEVO_TEST_SEED": str(seed)},
        ) as run,
    ):
        started = time.monotonic()
        result = run.wait(timeout=7200)
        if result.returncode:
            raise SystemExit(result.tail)
        scores = score(Path(folder) / "checkpoints" / f"global_step_{steps}", splits, epochs)
    return {
        "arm": arm,
        "seed": seed,
        "steps": steps,
        "train_rollouts": steps * BATCH * GROUP,
        "search_rollouts": int(result.metrics[steps].get("coevo/search_rollouts", 0)),
        "scores": scores,
        "seconds": round(time.monotonic() - started),
        "seconds_per_step": round(_median_step(result), 2),
    }


def score(checkpoint: Path, splits: Splits, epoch: int) -> dict[str, Any]:
    model = AutoModelForCausalLM.from_pretrained(
        checkpoint / "actor" / "huggingface", dtype=torch.float32
    )
    tokenizer = AutoTokenizer.from_pretrained(base_policy_path())
    return vars(evaluate(model, tokenizer, splits, epoch))


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


def _median_step(result: Result) -> float:
    return statistics.median(m["timing_s/step"] for m in result.metrics.values())


def table(runs: list[dict[str, Any]]) -> str:
    lines = [
        "| | all | hard | unseen pairs | training + search rollouts |",
        "|---|---|---|---|---|",
    ]
    for arm in ARMS:
        of_arm = [run for run in runs if run["arm"] == arm]
        if not of_arm:
            continue
        cells = [
            _mean([run["scores"][name] for run in of_arm])
            for name in ("all", "hard", "unseen_pairs")
        ]
        searched = statistics.mean(run["search_rollouts"] for run in of_arm)
        trained = of_arm[0]["train_rollouts"]
        cells.append(f"{trained / 1000:.1f}k + {searched / 1000:.1f}k")
        lines.append(f"| {arm} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _mean(values: list[float]) -> str:
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{statistics.mean(values):.3f} ± {spread:.3f}"


def _exists(path: Path | None) -> bool:
    return path is not None and path.exists()


if __name__ == "__main__":
    main()
