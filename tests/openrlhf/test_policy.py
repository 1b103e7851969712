"""Check the adapter's policy without a trainer. Stand-ins: vLLM and flash-attn, only their names count."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import ray

import standins.openrlhf
from prompt_coevo.adapters.common.policy import RolloutsFailed
from prompt_coevo.errors import HostError
from prompt_coevo.settings.success import SuccessSettings
from prompt_coevo.types import Assignment, PolicyVersion, RolloutRequest, Sampling

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(Path(standins.openrlhf.__file__).parent))
    from prompt_coevo.adapters.openrlhf import policy, weights

TOKENIZER = SimpleNamespace(decode=lambda ids, skip_special_tokens: "yes")
ASKED = [RolloutRequest(Assignment(name), Sampling()) for name in ("raises", "has none", "a 1")]


def answer(reward: float | None) -> list[dict[str, Any]]:
    tokens = {"observation_tokens": [1, 2], "action_ranges": [(1, 2)]}
    return [{"prompt": "why?", "rollout_log_probs": None, "reward": reward, **tokens}]


class Policy(policy.OpenRLHFPolicy):
    """A policy whose responses follow from the question."""

    def __init__(self, success: SuccessSettings | None = None) -> None:
        host = SimpleNamespace(args=SimpleNamespace(vllm=SimpleNamespace(enable_sleep=False)))
        engine = SimpleNamespace(policy_version=PolicyVersion(0, 3))
        dataset = SimpleNamespace(tokenizer=TOKENIZER)
        success = success or SuccessSettings()
        super().__init__(host, dataset, None, weights.Weights(engine), None, success)

    def _sent(self, requests: Any, sampling: Any) -> list[Any]:
        return [(one.assignment, one.assignment.question_id) for one in requests]


@pytest.fixture(autouse=True)
def _responses(monkeypatch: pytest.MonkeyPatch) -> None:
    def get(reference: str) -> Any:
        if reference == "raises":
            raise ray.exceptions.RayTaskError("join", "traceback", ValueError("out of memory"))
        return answer(1.0 if reference == "a 1" else None)

    monkeypatch.setattr(policy.ray, "get", get)


def test_what_fails_or_has_no_reward_is_aborted_with_one_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    raised, unrewarded, scored = Policy().rollout([ASKED[0], *ASKED])[1:]
    assert [raised.status, unrewarded.status, scored.status] == ["aborted", "aborted", "ok"]
    assert scored.reward == 1.0
    (warning,) = caplog.messages
    assert warning == "2 of 4 rollouts outside training failed, the first with: out of memory"


def test_where_all_of_them_fail_the_search_ends() -> None:
    with pytest.raises(RolloutsFailed, match="none of 2 rollouts came back"):
        Policy().rollout(ASKED[:2])


def test_two_responses_for_one_end_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """A search would cost a multiple, and nobody would see it."""
    monkeypatch.setattr(policy.ray, "get", lambda _: answer(1.0) * 2)
    with pytest.raises(HostError, match="sampled 2 responses where one was asked for"):
        Policy().rollout(ASKED[:1])


@pytest.mark.parametrize("fails", [False, True])
def test_engines_sleep_once_after_all_batches(monkeypatch: pytest.MonkeyPatch, fails: bool) -> None:
    calls: list[str] = []
    monkeypatch.setattr(policy, "batch_vllm_engine_call", lambda _, name: calls.append(name))
    mine = Policy()
    mine.asleep, mine._host.vllm_engines = True, []  # type: ignore[attr-defined]
    with mine.kept_awake():
        pass  # nothing is asked for, nobody is woken
    with suppress(RolloutsFailed), mine.kept_awake():
        mine.rollout(ASKED)
        mine.rollout(ASKED[:1] if fails else ASKED)
    assert calls == ["wake_up", "sleep"]
    assert mine.asleep


def test_an_engine_that_died_is_told_by_one_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not by what Ray says of the attempt to let it sleep."""

    def dead(*_: Any) -> Any:
        raise ray.exceptions.RayActorError

    monkeypatch.setattr(
        policy, "batch_vllm_engine_call", lambda _, name: name == "sleep" and dead()
    )
    monkeypatch.setattr(policy.ray, "get", dead)
    mine = Policy()
    mine.asleep, mine._host.vllm_engines = True, []  # type: ignore[attr-defined]
    with pytest.raises(HostError, match="a vLLM engine died"), mine.kept_awake():
        mine.rollout(ASKED)


@pytest.mark.parametrize(
    ("name", "extra", "found"),
    [
        (None, {}, 1.0),
        ("scores", {}, 1.0),
        ("reward", {}, 0.25),
        ("acc", {"acc": 0.5}, 0.5),
        ("reward", {"reward": 0.75}, 0.75),  # a key of extra_logs stays one
    ],
)
def test_which_reward_decides(name: str | None, extra: dict[str, float], found: float) -> None:
    (response,) = answer(0.25)
    response |= {"scores": 1.0, "extra_logs": extra}
    mine = Policy(SuccessSettings(reward=name))
    assert mine.scored(Assignment("q"), response).reward == found
