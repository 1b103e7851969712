"""Run the real vLLM, in its build for CPUs, on the demo's base policy with wider heads."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from helpers.real_vllm import ENVIRONMENT, VllmServer, why_not

REASON = why_not()
collect_ignore_glob = ["test_*.py"] if REASON and "not installed" in REASON else []
# Before anything imports vLLM.
os.environ.update(ENVIRONMENT, CI="1", TRL_EXPERIMENTAL_SILENCE="1")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run tests that need the server last: it takes a minute or two to come up."""
    if REASON:
        for item in items:
            if item.path.is_relative_to(Path(__file__).parent):
                item.add_marker(pytest.mark.skip(reason=REASON))
    items.sort(key=_is_served)


def _is_served(item: pytest.Item) -> bool:
    parameters = item.callspec.params if hasattr(item, "callspec") else {}
    return "server" in (*getattr(item, "fixturenames", ()), *parameters.values())


@pytest.fixture(scope="session")
def policy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the folder of a policy that computes the same as the demo's base policy."""
    from helpers.wide_policy import write_wide_policy

    return write_wide_policy(tmp_path_factory.mktemp("policy") / "wide")


@pytest.fixture(scope="session", autouse=True)
def _starting(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[VllmServer | None]:
    if REASON or not any(map(_is_served, request.session.items)):
        yield None
        return
    policy = request.getfixturevalue("policy")
    with VllmServer(policy, tmp_path_factory.mktemp("serve") / "log.txt") as starting:
        yield starting


@pytest.fixture(scope="session")
def server(_starting: VllmServer) -> VllmServer:
    _starting.wait()
    return _starting


@pytest.fixture(scope="session")
def tokenizer(policy: Path) -> Any:
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(policy)


@pytest.fixture(scope="session")
def engines() -> dict[str, Any]:
    """Keep TRL's engines for the session: collecting one removes the process groups of all others."""
    return {}


@pytest.fixture
def make_trainer(
    policy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engines: dict[str, Any]
) -> Any:
    """Build trainers as in tests/trl, but with the real vLLM, by default in this process."""
    import trl.generation.vllm_generation as generation

    from helpers.trl_trainers import build_trainer

    real = generation.LLM

    def engine(model: str, **arguments: Any) -> Any:
        """Pass float32: TRL gives no type, and vLLM would use bfloat16 for this checkpoint."""
        if model not in engines:
            engines[model] = real(model=model, **arguments, dtype="float32", enforce_eager=True)
        return engines[model]

    monkeypatch.setattr(generation, "LLM", engine)
    vllm = {"use_vllm": True, "vllm_mode": "colocate", "vllm_max_model_length": 256}

    def make(**config: Any) -> Any:
        return build_trainer(tmp_path, policy_path=policy, **{**vllm, **config})

    return make
