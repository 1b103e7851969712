"""Run the unmodified trainers of VeRL and OpenRLHF in small, with the tests' stand-ins."""

from __future__ import annotations

import json
import os
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import prompt_coevo
from helpers.ray_run import Result
from helpers.verl_world import MANY, teach
from standins.openai_server import openai_server

EPOCHS = {"p2o": (2, 3), "both": (2,)}
"""The epochs (of two steps) at which each start of a run ends; a second one resumes."""
RUNS = [f"{adapter}-{method}" for adapter in ("verl", "openrlhf") for method in EPOCHS]
PATIENCE_S = 1200
TRAINED = ("global_steps", "step", "prompts", "responses", "sequences", "action_mask")
SAMPLED = ("prompt_ids", "response_ids", "temperature", "top_p", "global_steps", "version")


def record(name: str, folder: Path, seed: int) -> dict[str, list[Any]]:
    """Train, and resume if the run does; record the loss's and sampler's inputs, and our metrics."""
    adapter, method = name.split("-")
    start = verl if adapter == "verl" else openrlhf
    seen: dict[str, list[Any]] = {"states": [], "metrics": [], "trained": [], "sampled": []}
    with openai_server(teach) as server:
        for epochs in EPOCHS[method]:
            result = start(folder, method, epochs, seed, server.base)
            if result.returncode != 0:
                raise RuntimeError(f"{name} failed:\n{result.tail}")
            for step in sorted(result.metrics):
                metrics = result.metrics[step].items()
                seen["metrics"].append({name: v for name, v in metrics if "coevo/" in name})
            seen["trained"] += in_order(result.actor, (*TRAINED, "advantages"))
            seen["sampled"] += in_order(result.generated(), SAMPLED)
    for path in sorted(folder.glob("checkpoints/_actor/*/*_model_states.pt")):
        seen["states"].append(openrlhf_state(path))
    return seen


def verl(folder: Path, method: str, epochs: int, seed: int, base: str) -> Result:
    from helpers.verl_run import rows, run_verl
    from helpers.verl_world import INSPO, P2O, reflection

    # Instructions do not evolve: which failures are drawn depends on which of a group's rollouts,
    # all with the same prompt, the server got first.
    instructions = (*INSPO, "coevo.inspo.evolution=off") if method == "both" else ()
    both = ("coevo.algorithms=[inspo,p2o]",) if method == "both" else ()
    overrides = [
        *(f"+coevo={method}", *both, *P2O, *instructions, *reflection(base)),
        *(f"coevo.seed={seed}", f"trainer.total_epochs={epochs}", "trainer.save_freq=2"),
        *("data.train_batch_size=8", "actor_rollout_ref.actor.ppo_mini_batch_size=8"),
    ]
    data = rows(MANY)
    return run_verl(folder, PATIENCE_S, train=data, overrides=overrides, env=environment(folder))


def openrlhf(folder: Path, method: str, epochs: int, seed: int, base: str) -> Result:
    from helpers.openrlhf_run import rows, run_openrlhf
    from helpers.openrlhf_world import BOTH, P2O, reflection

    chosen = BOTH if method == "both" else ("--coevo.method", method, *P2O)
    overrides = [
        *(*chosen, *reflection(base)),
        *(f"--coevo.seed={seed}", f"--train.num_episodes={epochs}", "--ckpt.save_steps=2"),
        *("--rollout.batch_size=8", "--train.batch_size=32"),
        *("--rollout.micro_batch_size=32", "--train.micro_batch_size=32"),
    ]
    start: dict[str, Any] = {"module": "prompt_coevo.adapters.openrlhf", "train": rows(MANY)}
    return run_openrlhf(folder, PATIENCE_S, overrides=overrides, env=environment(folder), **start)


def environment(folder: Path) -> dict[str, str]:
    """Return variables that make the next start import this process's package, even if another is
    installed."""
    path = str(folder / f"start{len(list(folder.glob('start*')))}" / "path")
    package = str(Path(str(prompt_coevo.__file__)).parents[1])
    if package != sysconfig.get_path("purelib"):
        path += os.pathsep + package
    return {"OPENAI_API_KEY": "sk-test", "PYTHONPATH": path}


def openrlhf_state(path: Path) -> Any:
    import torch

    checkpoint = torch.load(path, weights_only=False)  # written a minute ago
    return checkpoint["data_loader_state_dict"]["prompt_coevo"]


def in_order(events: Iterable[dict[str, Any]], names: Iterable[str]) -> list[dict[str, Any]]:
    """Return these entries of unordered events, rounded: sums over a batch in another order differ in the
    last bits."""
    kept = [{name: event[name] for name in names if name in event} for event in events]
    for event in kept:
        if "advantages" in event:
            event["advantages"] = [round(value, 3) + 0.0 for value in event["advantages"]]
    return sorted(kept, key=json.dumps)
