"""Compare the stand-ins for servers of vLLM and SGLang with VeRL's, read from its files.

These import vLLM and SGLang, which are not in this environment. `tests/real_vllm/test_standins.py` compares
what the server passes on to vLLM.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from verl.workers.rollout.replica import RolloutReplica

from helpers.signatures import misfits, read_function
from standins.verl.adapter import Replica, ServerAdapter
from standins.verl.reward_model import Judge, JudgeReplica
from standins.verl.server import Server


def real(file: str, owner: str, name: str, engine: str = "vllm") -> Any:
    (folder,) = find_spec("verl.workers.rollout").submodule_search_locations  # type: ignore[union-attr, misc]
    return read_function(Path(folder) / f"{engine}_rollout" / file, owner, name)


@pytest.mark.parametrize("name", ["generate", "wake_up", "sleep"])
def test_the_server_is_called_as_verls(name: str) -> None:
    theirs = real("vllm_async_server.py", "vLLMHttpServer", name)
    assert misfits(getattr(Server, name), theirs) == []


@pytest.mark.parametrize("name", ["__init__", "resume", "release", "update_weights"])
def test_the_adapter_is_called_as_verls(name: str) -> None:
    theirs = real("vllm_rollout.py", "ServerAdapter", name)
    assert misfits(getattr(ServerAdapter, name), theirs) == []


def test_the_replica_is_called_as_verls() -> None:
    theirs = real("vllm_async_server.py", "vLLMReplica", "launch_servers")
    assert misfits(Replica.launch_servers, theirs) == []
    assert Replica.__init__ is RolloutReplica.__init__


@pytest.mark.parametrize("name", ["wake_up", "sleep"])
def test_the_reward_models_server_is_called_as_verls(name: str) -> None:
    theirs = real("async_sglang_server.py", "SGLangHttpServer", name, "sglang")
    assert misfits(getattr(Judge, name), theirs) == []


def test_the_reward_models_replica_is_called_as_verls() -> None:
    theirs = real("async_sglang_server.py", "SGLangReplica", "launch_servers", "sglang")
    assert misfits(JudgeReplica.launch_servers, theirs) == []
    assert JudgeReplica.__init__ is RolloutReplica.__init__
