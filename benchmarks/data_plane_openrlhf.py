"""What the door to OpenRLHF adds to a generation: seconds of the sample generator, bytes in Ray's store.

    python benchmarks/data_plane_openrlhf.py --questions 1024 --rollouts 16 --tokens 8192 [--json FILE]

The real generator, dispatch, vLLM actor class and object store of OpenRLHF; the actor makes its responses
up (`tests/helpers/openrlhf_generator.py`), and nothing is trained. Half of the groups run under two
templates and none, a third of the rollouts each. OpenRLHF's own generator and the door's take turns.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "standins" / "openrlhf"))

import ray
from ray import cloudpickle

from helpers.openrlhf_generator import engines, generator, local_ray
from prompt_coevo.adapters.openrlhf import generation
from prompt_coevo.adapters.openrlhf.groups import TAG


class Clock:
    """Seconds inside of functions, by their names."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def around(self, target: Any, name: str) -> None:
        inner: Callable[..., Any] = getattr(target, name)

        def timed(*arguments: Any, **options: Any) -> Any:
            started = time.perf_counter()
            try:
                return inner(*arguments, **options)
            finally:
                taken = time.perf_counter() - started
                self.seconds[name] = self.seconds.get(name, 0.0) + taken

        setattr(target, name, timed)


def measure(sizes: argparse.Namespace, folder: Path, actors: list[Any]) -> dict[str, Any]:
    """One generation of each."""
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
    clock.around(generation, "to_train_on")
    clock.around(generation.BatchTexts, "keep")
    clock.around(made._policy, "scored")
    clock.around(made._dataset, "place_group")
    clock.around(made.engine, "plan")
    clock.around(made.engine, "observe")
    started = time.perf_counter()
    made.generate_samples(**kwargs)
    with_door = time.perf_counter() - started
    (reference,) = first
    group = ray.get(reference)
    as_it_was = [{name: one[name] for name in one if name != TAG} for one in group]
    group_bytes, was = (len(cloudpickle.dumps(some)) for some in (group, as_it_was))
    return {
        "questions": sizes.questions,
        "rollouts": sizes.rollouts,
        "tokens": sizes.tokens,
        "seconds_bare": round(without, 1),
        "seconds_with_door": round(with_door, 1),
        "seconds_of_ours": {name: round(value, 2) for name, value in clock.seconds.items()},
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
