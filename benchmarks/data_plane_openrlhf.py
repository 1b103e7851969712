"""Measure what the OpenRLHF adapter adds to a generation: seconds in the generator, bytes in Ray's store.

    python benchmarks/data_plane_openrlhf.py --questions 1024 --rollouts 16 --tokens 8192 [--json FILE]

The real generator, dispatch, vLLM actor class and object store of OpenRLHF; the actor makes its responses
up (`tests/helpers/openrlhf_generator.py`), and nothing is trained. Half of the groups run under two
templates and none, a third of the rollouts each. OpenRLHF's own generator comes first, then the adapter's.
"Ours" is all that happens in the adapter's methods and not in those of OpenRLHF that they call, but for
what is done once before the first step.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "standins" / "openrlhf"))

import ray
from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator
from ray import cloudpickle

from helpers.openrlhf_generator import engines, generator, local_ray
from prompt_coevo.adapters.openrlhf.generation import CoevoSamplesGenerator
from prompt_coevo.adapters.openrlhf.groups import TAG

HOST: Final = "OpenRLHF's own"
PARTS: Final = {
    "generate_samples": "the rest",
    "_generate_vllm": "the rest",
    "_begin": "before the first step",
    "_dispatch_prompts_to_vllm": "placing prompts",
    "_process_response_into_experience": "responses",
}


class Clock:
    """Measure seconds in the innermost part of a call, by the clock and by the driver thread's CPU time."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.cpu: dict[str, float] = {}
        self._parts: list[str] = []
        self._since = 0.0, 0.0

    def around(self, target: Any, name: str, part: str) -> None:
        inner: Callable[..., Any] = getattr(target, name)

        @wraps(inner)
        def timed(*arguments: Any, **options: Any) -> Any:
            self._to([*self._parts, part])
            try:
                return inner(*arguments, **options)
            finally:
                self._to(self._parts[:-1])

        setattr(target, name, timed)

    def _to(self, parts: list[str]) -> None:
        now = time.perf_counter(), time.thread_time()
        if self._parts:
            part = self._parts[-1]
            self.seconds[part] = self.seconds.get(part, 0.0) + now[0] - self._since[0]
            self.cpu[part] = self.cpu.get(part, 0.0) + now[1] - self._since[1]
        self._parts, self._since = parts, now


def measure(sizes: argparse.Namespace, folder: Path, actors: list[Any]) -> dict[str, Any]:
    """Measure one generation of each."""
    kwargs = {"n_samples_per_prompt": sizes.rollouts, "max_new_tokens": sizes.tokens}
    kwargs["max_len"] = sizes.tokens + 128
    shape = (sizes.questions, sizes.rollouts, sizes.tokens)
    # So that no process has to start meanwhile.
    ray.get([actor.get_num_unfinished_requests.remote() for actor in actors])
    bare = generator(folder, actors, *shape, bare=True)
    started = time.perf_counter()
    bare.generate_samples(**kwargs)
    without = time.perf_counter() - started
    del bare

    made = generator(folder, actors, *shape)
    clock, first, asked = Clock(), [], 0
    dispatch = made._dispatched

    def kept(prompts: Any, *arguments: Any, **options: Any) -> Any:
        nonlocal asked
        asked += sum(len(cloudpickle.dumps(prompt)) for prompt in prompts)
        references = dispatch(prompts, *arguments, **options)
        first.append(references[0])
        return references

    made._dispatched = kept
    clock.around(made, "_dispatched", HOST)
    for name, part in PARTS.items():
        clock.around(CoevoSamplesGenerator, name, part)
        if hasattr(SamplesGenerator, name):
            clock.around(SamplesGenerator, name, HOST)
    clock.around(made.engine, "plan", "plan")
    clock.around(made.engine, "observe", "observe")
    started = time.perf_counter()
    made.generate_samples(**kwargs)
    with_adapter = time.perf_counter() - started
    (reference,) = first
    group = ray.get(reference)
    as_it_was = [{name: one[name] for name in one if name != TAG} for one in group]
    group_bytes, was = (len(cloudpickle.dumps(some)) for some in (group, as_it_was))
    once = PARTS["_begin"]
    ours = [part for part in clock.seconds if part not in (HOST, once)]
    return {
        "questions": sizes.questions,
        "rollouts": sizes.rollouts,
        "tokens": sizes.tokens,
        "seconds_bare": round(without, 1),
        "seconds_with_adapter": round(with_adapter, 1),
        "load": [round(one, 1) for one in os.getloadavg()],
        "seconds_of_ours": round(sum(clock.seconds[part] for part in ours), 2),
        "cpu_seconds_of_ours": round(sum(clock.cpu[part] for part in ours), 2),
        "cpu_seconds_by_part": {part: round(value, 2) for part, value in clock.cpu.items()},
        "bytes_of_responses": was * sizes.questions,
        "bytes_of_requests": asked,
        "bytes_added_to_responses": (group_bytes - was) * sizes.questions,
    }


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--questions", type=int, default=64)
    parser.add_argument("--rollouts", type=int, default=16)
    parser.add_argument("--tokens", type=int, default=1024)
    parser.add_argument("--store-gb", type=float, default=6.0)
    parser.add_argument("--json", type=Path)
    sizes = parser.parse_args()
    target = sizes.json and sizes.json.resolve()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with local_ray(folder, int(sizes.store_gb * 1e9)):
            result = measure(sizes, folder, engines(1, sizes.tokens))
    text = json.dumps(result, indent=1)
    print(text)
    if target:
        target.write_text(text + "\n")
