"""Groups on their way through a real Ray: what is sent, once, and in which order it comes back.

Stand-ins: vLLM and flash-attn, of which only names count; the vLLM actors make their responses up.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
from ray import cloudpickle

import standins.openrlhf
from prompt_coevo.errors import HostError

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(Path(standins.openrlhf.__file__).parent))
    from helpers.openrlhf_generator import PATH, TEMPLATES, engines, generator
    from prompt_coevo.adapters.openrlhf import generation, groups

QUESTIONS, SIZE, TOKENS = 6, 5, 300


@pytest.fixture(scope="module")
def _ray(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("ray"))  # workers import from where their driver is
        ray.init(
            num_cpus=8,  # logical
            include_dashboard=False,
            object_store_memory=200_000_000,
            runtime_env={"env_vars": {"PYTHONPATH": PATH}},
        )
    yield
    ray.shutdown()


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """What `dispatch_groups` hands to OpenRLHF."""
    references: list[Any] = []
    dispatch = generation.dispatch_groups

    def spied(*arguments: Any) -> Any:
        references.extend(found := dispatch(*arguments))
        return found

    monkeypatch.setattr(generation, "dispatch_groups", spied)
    return references


@pytest.mark.usefixtures("_ray")
def test_no_response_is_sent_twice(tmp_path: Path, sent: list[Any]) -> None:
    """A group under one prompt comes from the vLLM actor; of others only the places are joined."""
    made = generator(tmp_path, engines(1, TOKENS), QUESTIONS, SIZE, TOKENS)
    samples, *_ = made.generate_samples(n_samples_per_prompt=SIZE, max_new_tokens=TOKENS)
    assert len(sent) == QUESTIONS
    for number, reference in enumerate(sent):
        held = ray.get(reference)
        if number % 2:
            assert type(held) is list
        else:
            assert type(held) is groups.Parts
            assert len(held.references) == 1 + len(TEMPLATES)
            assert len(cloudpickle.dumps(held)) < TOKENS * SIZE
        assert [one[groups.TAG] for one in held] == list(range(number * SIZE, (number + 1) * SIZE))
        assert {type(one["prompt"]) for one in held} == {str}
    # Groups stand together in the batch, and were distilled to their question.
    assert len(samples) == QUESTIONS * SIZE
    for start in range(0, len(samples), SIZE):
        group = samples[start : start + SIZE]
        assert len({one.prompts[0] for one in group}) == 1
        assert len({one.labels[0] for one in group}) == 1
        distilled = [float(one.info["coevo_distilled"]) for one in group]
        assert sum(distilled) in (0, 3)


@pytest.mark.usefixtures("_ray")
def test_a_part_that_fails_fails_its_group() -> None:
    @ray.remote(num_cpus=0)
    def fails() -> None:
        raise ValueError("out of memory")

    @ray.remote(num_cpus=0)
    def comes() -> Any:
        asked = groups.Asked("why?", (0,), whole=False)
        return groups.numbered(asked, [{"prompt": "why?"}])  # type: ignore[typeddict-item]

    with pytest.raises(ray.exceptions.RayTaskError, match="out of memory"):
        ray.get(groups.join.remote(comes.remote(), fails.remote()))


def test_another_number_of_responses_is_refused() -> None:
    with pytest.raises(HostError, match=r"sampled 1 responses where 2 were asked for; install"):
        groups.numbered(groups.Asked("why?", (0, 1), whole=True), [{"prompt": "why?"}])  # type: ignore[typeddict-item]


def test_prompts_that_are_not_dispatched_are_refused() -> None:
    with pytest.raises(HostError, match=r"dispatched 0 of 1 prompts; install"):
        groups.dispatch_groups(lambda *_, **__: [], ["why?"] * 2, ["1"], {}, 0)
