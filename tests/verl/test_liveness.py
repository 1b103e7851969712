"""Check rollout servers and agent loop workers that die.

The actors, their Ray and, in the long test, main_ppo are real; stand-ins there: platform, rollout server,
teacher.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray
from ray.exceptions import ActorDiedError, ActorUnavailableError

from helpers.verl_run import VerlRun, run_verl
from helpers.verl_world import P2O, events, reflection, teach
from prompt_coevo.adapters.common.success import Success
from prompt_coevo.adapters.verl import liveness, policy
from prompt_coevo.adapters.verl.liveness import Liveness, samplers
from prompt_coevo.errors import HostError
from prompt_coevo.settings.success import SuccessSettings
from prompt_coevo.types import Assignment, PolicyVersion
from standins.openai_server import openai_server
from standins.ray_start import patiently

DIED = "died (its log says why, or its node's log that it ran out of memory), so sampling cannot continue"


@pytest.fixture(scope="module")
def _started(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    # Ray's processes import from here first, and a checkout has no prompt_coevo.adapters.
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(tmp_path_factory.mktemp("ray"))
        patiently(ray.init, num_cpus=2, include_dashboard=False, object_store_memory=100_000_000)
        yield
        ray.shutdown()


def sampler() -> Any:
    """Return an actor that may be busy."""

    class Sampler:  # here, so that it travels as a whole
        def wait(self, path: str) -> None:
            while not os.path.exists(path):
                time.sleep(0.01)

    return ray.remote(Sampler).options(num_cpus=0).remote()


@pytest.fixture
def two(_started: None) -> Iterator[list[Any]]:
    """Yield a live server and a live worker."""
    actors = [sampler(), sampler()]
    ray.get([actor.__ray_ready__.remote() for actor in actors])
    yield actors
    for actor in actors:
        ray.kill(actor)


def killed(actor: Any) -> None:
    """Kill the actor and wait until that is known: it may still answer for a while."""
    ray.kill(actor)
    while True:
        try:
            ray.get(actor.__ray_ready__.remote())
        except ActorUnavailableError:
            continue
        except ActorDiedError:
            return


@pytest.mark.parametrize("which", [0, 1])
def test_one_that_died_is_told_by_one_sentence(two: list[Any], which: int) -> None:
    asked = Liveness(lambda: two)
    asked.check(patiently=True)
    killed(two[which])
    with pytest.raises(HostError) as raised:
        asked.check(patiently=True)
    message = str(raised.value)
    assert DIED in message
    assert "start the command again to resume from the last checkpoint" in message
    assert "\n" not in message


def test_a_busy_one_lives_and_none_at_all_is_no_error(
    two: list[Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(liveness, "_ANSWER_S", 0.1)
    path = tmp_path / "go on"
    busy = two[0].wait.remote(str(path))
    asked = Liveness(lambda: two)
    for patient in (True, False, True):
        asked.check(patiently=patient)
    path.touch()
    ray.get(busy)
    asked.check()
    Liveness(list).check(patiently=True)


def test_servers_of_all_managers_and_workers_if_there_are_any() -> None:
    def manager(*servers: str) -> Any:
        replicas = [SimpleNamespace(servers=[server]) for server in servers]
        return SimpleNamespace(get_replicas=lambda: replicas)

    trainer = SimpleNamespace(llm_server_manager=manager("s0", "s1"))
    assert samplers(trainer, SimpleNamespace()) == ["s0", "s1"]
    trainer.standalone_server_manager = manager("s2")
    workers = SimpleNamespace(agent_loop_workers=["w0"])
    assert samplers(trainer, workers) == ["s0", "s1", "s2", "w0"]


@pytest.mark.parametrize(("status", "which"), [("failure", 0), ("running", 1)])
def test_rollouts_of_what_died_are_not_waited_for(
    two: list[Any], monkeypatch: pytest.MonkeyPatch, status: str, which: int
) -> None:
    """A dead server's rollouts fail, a dead worker's never come."""
    server, worker = two
    trainer = SimpleNamespace(
        replay_buffer=SimpleNamespace(poll_interval=0.01),
        llm_server_manager=SimpleNamespace(
            get_replicas=lambda: [SimpleNamespace(servers=[server])]
        ),
    )
    dispatcher = SimpleNamespace(questions=None, agent_loop_workers=[worker])
    made = policy.VerlPolicy(
        trainer, dispatcher, lambda _: PolicyVersion(0, 0), Success(SuccessSettings(), "there")
    )
    monkeypatch.setattr(policy, "_LIVING_S", 0.0)
    tags = {"uid": {"is_prompt": True, "status": status}}
    monkeypatch.setattr(policy, "tags_of", lambda _: tags)
    killed(two[which])
    with pytest.raises(HostError, match="start the command again"):
        made.wait({"uid": [Assignment("q1")]})


def in_its_search(run: VerlRun) -> bool:
    """Tell whether a checkpoint was written and rollouts for the search after it have begun."""
    return any(
        event["event"] == "generate" and event["global_steps"] == 2 and event["temperature"] != 1.0
        for event in run.server_log()
    )


def server_of(run: VerlRun) -> int:
    """Return the process of the rollout server, by the title that Ray gives it."""
    titles = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in run.left_over()}
    (found,) = [pid for pid, title in titles.items() if title.startswith(b"ray::Server")]
    return found


@pytest.mark.long
def test_a_server_that_dies_in_a_search_ends_the_run_and_the_next_start_goes_on(
    tmp_path: Path,
) -> None:
    with openai_server(teach) as server:
        arguments: dict[str, Any] = {
            "overrides": [
                *("+coevo=p2o", *P2O, *reflection(server.base), "coevo.p2o.dev_size=4"),
                *("trainer.total_epochs=2", "trainer.save_freq=2"),
            ],
            "env": {"OPENAI_API_KEY": "sk-test"},
        }
        with VerlRun(tmp_path, **arguments) as run:
            while not in_its_search(run):
                assert run.driver.poll() is None, run.result().tail
                time.sleep(0.02)
            os.kill(server_of(run), signal.SIGKILL)
            ended = run.wait()
        resumed = run_verl(tmp_path, **arguments)
    assert ended.returncode == 1
    assert f"HostError: a rollout server or an agent loop worker of VeRL {DIED}" in ended.output
    assert sorted(ended.metrics) == [1, 2]
    assert resumed.returncode == 0, resumed.tail
    assert sorted(resumed.metrics) == [3, 4]
    assert resumed.metrics[4]["coevo/searches"] == 1
    assert events(resumed, "training_ended")
