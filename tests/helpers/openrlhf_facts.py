"""Record below the adapter, in OpenRLHF's processes, what the kit needs beyond the stand-ins' logs.

`COEVO_TEST_INSTALL` names `install`. Events go to the server's log, between the generations, so that
their order is known; the weights go to files next to it.
"""

from __future__ import annotations

import functools
import os
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from prompt_coevo.testing.adapter import fingerprint
from standins import json_lines
from standins.on_import import when_imported

REFUSED = "refused.txt"


def install() -> None:
    """Watch the parts of OpenRLHF that this process imports."""
    when_imported("openrlhf.trainer.ppo_utils.samples_generator", _Generation)
    when_imported("openrlhf.trainer.ray.ppo_actor", _keep_weights)
    when_imported("prompt_coevo.adapters.common.open_engine", _count_engines)
    sys.excepthook = _write_down


def logs() -> Path:
    """Return the folder of this start's logs."""
    return Path(os.environ["COEVO_TEST_ACTOR_LOG"]).parent


class _Generation:
    """Record the trainer's activity at every request. `SamplesGenerator` is the class below ours."""

    def __init__(self, module: Any) -> None:
        self.moment = "train"
        self.round = int(os.environ.get("COEVO_TEST_FIRST_VERSION", "-1"))
        self.new_round = False
        self.number: int | None = None
        self._parameters = module.SamplingParams
        module.SamplingParams = self._with_note
        generator = module.SamplesGenerator
        _wrap(generator, "_dispatch_prompts_to_vllm", self._dispatch)
        _wrap(generator, "_generate_vllm", self._generate)
        _wrap(generator, "generate_eval_samples", self._evaluate)
        _wrap(generator, "generate_samples", self._serve)
        when_imported("prompt_coevo.adapters.openrlhf.policy", self._watch_policy)

    def _with_note(self, **settings: Any) -> Any:
        if self.moment == "train" and self.new_round:
            self.round, self.new_round = self.round + 1, False
        note: dict[str, Any] = {"moment": self.moment, "round": self.round, "number": self.number}
        return self._parameters(**settings, extra_args=note)

    def _dispatch(
        self, original: Callable[..., Any], host: Any, prompts: Any, labels: Any, **options: Any
    ) -> Any:
        """Number equal requests, which Ray may deliver in any order, so that each has its own random
        numbers."""
        if self.moment != "policy":
            return original(host, prompts, labels, **options)
        references = []
        for self.number, (prompt, label) in enumerate(zip(prompts, labels, strict=True)):
            references += original(host, [prompt], [label], **options)
        self.number = None
        return references

    def _generate(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        self.new_round = self.moment == "train"
        return original(*args, **options)

    def _evaluate(self, original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        self.moment = "evaluate"
        try:
            return original(*args, **options)
        finally:
            self.moment = "train"

    def _serve(self, original: Callable[..., Any], host: Any, **options: Any) -> Any:
        result = original(host, **options)
        samples, _, _, exhausted = result
        if exhausted:
            data = host.prompts_dataloader.dataset
            rows = list(zip(data.prompts, data.labels, strict=True))
            _log(event="exhausted", trains=bool(samples), rows=rows)
        return result

    def _watch_policy(self, module: Any) -> None:
        _wrap(module.OpenRLHFPolicy, "rollout", self._roll_out)

    def _roll_out(self, original: Callable[..., Any], policy: Any, requests: Any) -> Any:
        moment, self.moment = self.moment, "policy"
        _log(event="policy_begins", host=_host_state(policy))
        try:
            return original(policy, requests)
        finally:
            self.moment = moment
            _log(event="policy_ended", host=_host_state(policy))


def _host_state(policy: Any) -> dict[str, str]:
    """Return the generator process's state; the server's log has the weights and the engines' sleep."""
    state = np.random.get_state(legacy=True)
    numbers = [torch.get_rng_state().tolist(), random.getstate(), list(map(repr, state))]
    metrics = logs() / "metrics.jsonl"
    return {
        "random": fingerprint(numbers),
        "metrics": fingerprint(metrics.read_bytes() if metrics.exists() else b""),
        "arguments": fingerprint([vars(policy._host.args), dict(policy.generate_kwargs)]),
    }


def _keep_weights(module: Any) -> None:
    """Save the actor's weights after every update, by the number of its optimizer."""

    def around(original: Callable[..., Any], trainer: Any, *args: Any, **options: Any) -> Any:
        engine = trainer.actor.model
        _save_weights(engine)  # of a resumed run
        before = engine.global_steps
        result = original(trainer, *args, **options)
        if engine.global_steps != before:
            _save_weights(engine)
            json_lines.append("COEVO_TEST_SERVER_LOG", [_updated(engine.global_steps)])
        return result

    _wrap(module.ActorPPOTrainer, "training_step", around)


def _updated(step: int) -> dict[str, Any]:
    return {"event": "updated", "update": step, "rank": _rank()}


def _save_weights(engine: Any) -> None:
    folder = logs() / "weights"
    folder.mkdir(exist_ok=True)
    path = folder / f"{engine.global_steps}-{_rank()}.pt"
    if not path.exists():
        torch.save(engine.module.state_dict(), path.with_suffix(".part"))
        path.with_suffix(".part").rename(path)  # a run may be killed


def _rank() -> int:
    return torch.distributed.get_rank()


def _count_engines(module: Any) -> None:
    def around(original: Callable[..., Any], *args: Any, **options: Any) -> Any:
        _log(event="engine_built", process=os.getpid())
        return original(*args, **options)

    _wrap(module, "open_engine", around)


def _write_down(kind: Any, error: BaseException, trace: Any) -> None:
    """Write down the error that ends the driver: Ray's, which quotes the actor's."""
    (logs() / REFUSED).write_text(str(error))
    sys.__excepthook__(kind, error, trace)


def _wrap(target: Any, name: str, around: Callable[..., Any]) -> None:
    original = getattr(target, name)

    @functools.wraps(original)
    def wrapped(*args: Any, **options: Any) -> Any:
        return around(original, *args, **options)

    setattr(target, name, wrapped)


def _log(**event: Any) -> None:
    json_lines.append("COEVO_TEST_SERVER_LOG", [event])
