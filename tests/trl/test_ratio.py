"""Check log-probs of distilled rows, in GRPO and RLOO, with and without vLLM's correction."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from trl import GRPOTrainer, RLOOTrainer

from helpers.spies import Logps, Spy
from helpers.trl_world import TASKS, FixedTemplates, right_hint
from prompt_coevo import hookimpl
from prompt_coevo.adapters.trl import CoevoCallback, attach
from prompt_coevo.types import Candidate, MemberPlan
from standins.trl_vllm import use_vllm

# Every other question has a template, the same for its whole group: so its completions tell the prompt.
HINTS = {f"q{n}": [right_hint(task)] for n, task in enumerate(TASKS) if n % 2}
ALL_HINTS = {f"q{n}": [right_hint(task)] for n, task in enumerate(TASKS)}
DIVERSE = {f"q{n}": [right_hint(task), "note please", "now", ""] for n, task in enumerate(TASKS)}
SETTINGS = {"algorithms": (), "question_id_column": "id"}


def train(
    trainer: Any,
    vllm: bool = False,
    hints: dict[str, list[str]] = HINTS,
    drift: float = 0.0,
    punished_from: float | None = None,
    **settings: Any,
) -> Spy:
    spy = Spy.on(trainer)
    if vllm:
        use_vllm(trainer).drift = drift
    trainer.add_callback(
        CoevoCallback(
            trainer,
            SETTINGS | settings,
            plugins={"templates": FixedTemplates(hints, punished_from)},
        )
    )
    trainer.train()
    return spy


@pytest.mark.parametrize("config", [{}, {"num_iterations": 2}, {"loss_type": "grpo"}])
@pytest.mark.parametrize("kind", [GRPOTrainer, RLOOTrainer])
def test_failures_under_templates_are_not_punished_and_stay_in_their_group(
    make_trainer: Any, kind: type, config: dict[str, Any]
) -> None:
    """With the same rewards, the others keep their advantages, and the loss divides by as many tokens."""
    if kind is RLOOTrainer and "loss_type" in config:
        pytest.skip("RLOO has one loss")
    found = []
    for punished_from in (None, 0.5):
        trainer = make_trainer(kind, max_steps=1, per_device_train_batch_size=16, **config)
        spy = train(trainer, hints=DIVERSE, punished_from=punished_from)
        found.append(spy.losses[0])
    before, after = (one["advantages"] for one in found)
    gone = (before != 0) & (after == 0)
    assert gone.any()
    assert (before[gone] < 0).all()
    assert torch.equal(after[~gone], before[~gone])
    assert (after < 0).any(), "failures without a template keep theirs"
    if "num_items_in_batch" in found[0]:
        assert found[0]["num_items_in_batch"] == found[1]["num_items_in_batch"]


@pytest.mark.parametrize("mode", ["token_truncate", "sequence_mask"])
def test_the_samplers_logps_do_not_leak_into_vllms_correction(
    make_trainer: Any, tokenizer: Any, mode: str
) -> None:
    spy = train(
        make_trainer(
            max_steps=1, per_device_train_batch_size=16, vllm_importance_sampling_mode=mode
        ),
        vllm=True,
    )
    found = Logps(spy, 0, tokenizer)
    rows = found.templated
    # Uncorrected, these rows would be weighed by this (the sampler saw the template):
    leaked = (found.on_question - found.on_rollout).exp()[rows]
    assert leaked[found.mask[rows]].min() < 0.05
    assert (found.loss["importance_sampling_ratio"][rows] == 1).all()
    assert found.close(found.loss["sampling_per_token_logps"], found.on_question)
    untemplated = found.loss["importance_sampling_ratio"][~rows]
    real = untemplated[found.mask[~rows]] if untemplated.shape[1] > 1 else untemplated
    assert (real - 1).abs().max() < 1e-3


DRIFT = 0.25


@pytest.mark.parametrize("level", ["sequence_mask", "token_truncate"])
def test_a_forward_under_the_template_corrects_the_sampler_in_distilled_rows(
    make_trainer: Any, tokenizer: Any, level: str
) -> None:
    """The sampler's part is corrected as in all other rows, the template's is not."""
    built = make_trainer(
        max_steps=1, per_device_train_batch_size=16, vllm_importance_sampling_mode=level
    )
    spy = train(built, vllm=True, drift=DRIFT, distill_forward=True)
    found = Logps(spy, 0, tokenizer)
    rows, mask = found.templated, found.mask
    ratio = found.loss["importance_sampling_ratio"]
    tokens = mask.sum(1, keepdim=True) if level == "sequence_mask" else torch.ones_like(ratio)
    expected = (-DRIFT * tokens).exp()
    counted = mask if level == "token_truncate" else torch.ones_like(ratio, dtype=torch.bool)
    assert ((ratio - expected) * counted).abs().max() < 1e-3
    old, sampler = found.loss["old_per_token_logps"], found.loss["sampling_per_token_logps"]
    assert found.close(old, found.on_question)
    assert found.close(sampler, DRIFT + old)
    (effect,) = [row["coevo/template_logp_difference"] for row in built.state.log_history[:1]]
    difference = (found.on_rollout - found.on_question)[rows[:, None] & mask]
    assert effect == pytest.approx(float(difference.mean()), abs=1e-3)
    assert effect > 0.5


@pytest.mark.parametrize("trainer", [GRPOTrainer, RLOOTrainer])
def test_a_forward_where_no_sampler_is_corrected_changes_nothing_and_measures(
    make_trainer: Any, trainer: type
) -> None:
    """Also with a KL to a reference policy, whose log-probs are computed by the same method."""
    norms = []
    for forward in (False, True):
        built = make_trainer(trainer, max_steps=1, per_device_train_batch_size=16, beta=0.1)
        train(built, distill_forward=forward)
        log = built.state.log_history[0]
        norms.append(log["grad_norm"])
        assert (log.get("coevo/template_logp_difference", 0) > 0.5) is forward
    assert norms[0] == pytest.approx(norms[1], rel=1e-3)


def test_the_samplers_logps_without_a_correction(make_trainer: Any, tokenizer: Any) -> None:
    spy = train(
        make_trainer(
            max_steps=1,
            per_device_train_batch_size=16,
            vllm_importance_sampling_correction=False,
            off_policy_mask_threshold=1.0,
        ),
        vllm=True,
    )
    found = Logps(spy, 0, tokenizer)
    assert "importance_sampling_ratio" not in found.loss
    assert found.close(found.loss["sampling_per_token_logps"], found.on_question)


@pytest.mark.parametrize("trainer", [GRPOTrainer, RLOOTrainer])
def test_a_vllm_server_samples_every_template(
    make_trainer: Any, tokenizer: Any, trainer: type
) -> None:
    built = make_trainer(trainer, max_steps=2, per_device_train_batch_size=16)
    spy = train(built, vllm=True, hints=DIVERSE)
    for prompts, _ in spy.sampled:
        for first in range(0, len(prompts), 4):
            group = [tokenizer.decode(prompt) for prompt in prompts[first : first + 4]]
            assert len(set(group)) == 4
            assert "note please use" in group[1]
            assert group[3].startswith("<user> use")
    assert {call["n"] for call in built.vllm_generation.calls} == {1}
    assert built.num_generations == 4


class Instructors:
    """A third-party plugin that gives every member of a group another instruction."""

    texts = ("please note .", "now carefully .", "always remember .", "note please .")

    @hookimpl
    def coevo_plan_group(self) -> list[MemberPlan]:
        return [MemberPlan(Candidate(text, "instruction")) for text in self.texts]


def test_a_vllm_server_samples_every_instruction(make_trainer: Any, tokenizer: Any) -> None:
    trainer = make_trainer(max_steps=1)
    spy = Spy.on(trainer)
    use_vllm(trainer)
    attach(trainer, SETTINGS, plugins={"instructors": Instructors()})
    trainer.train()
    assert trainer.vllm_generation.calls == [{"rows": 8, "n": 1, "temperature": 1.0}]
    ((prompts, _),) = spy.sampled
    for prompt, text in zip(prompts, Instructors.texts * 2, strict=True):
        assert tokenizer.decode(prompt).startswith(f"<system> {text} <end>")


def test_a_vllm_server_still_shares_prompts_where_nothing_is_templated(make_trainer: Any) -> None:
    trainer = make_trainer(max_steps=1)
    use_vllm(trainer)
    trainer.add_callback(CoevoCallback(trainer, SETTINGS))
    trainer.train()
    assert trainer.vllm_generation.calls == [{"rows": 8, "n": 4, "temperature": 1.0}]


def test_a_round_that_fails_leaves_nothing_to_the_next_one(make_trainer: Any) -> None:
    """As an interrupted cell of a notebook does."""
    built = make_trainer(max_steps=1, per_device_train_batch_size=16)
    use_vllm(built)
    callback = CoevoCallback(
        built,
        SETTINGS | {"distill_forward": True},
        plugins={"templates": FixedTemplates(HINTS)},
    )
    built.add_callback(callback)
    logps = built._get_per_token_logps_and_entropies

    def interrupted(*_: Any, **__: Any) -> Any:
        raise KeyboardInterrupt

    built._get_per_token_logps_and_entropies = interrupted
    with pytest.raises(KeyboardInterrupt):
        built.train()
    built._get_per_token_logps_and_entropies = logps
    ratio = callback._adapter._ratio
    assert ratio._awaited is None
    assert ratio._seen is None
