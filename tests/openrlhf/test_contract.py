"""Check that a renamed part of OpenRLHF's real classes gives one sentence, and no training without us.

Stand-ins: vLLM and flash-attn, of which only names count.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
import torch

import standins.openrlhf
from prompt_coevo.errors import HostError
from prompt_coevo.types import Assignment, Candidate

with pytest.MonkeyPatch.context() as patch:
    patch.syspath_prepend(str(Path(standins.openrlhf.__file__).parent))

    from prompt_coevo.adapters.openrlhf import contract, distill, generation, ratio, trainer

TRAINER = "openrlhf.trainer"
MUTANTS = [
    "openrlhf.utils:get_strategy",
    "openrlhf.utils.config:hierarchize",
    "openrlhf.datasets:PromptDataset",
    "openrlhf.datasets:PromptDataset.collate_fn",
    "openrlhf.utils.agent:SingleTurnAgentExecutor._fetch_rewards_via_func",
    "openrlhf.utils.agent:SingleTurnAgentExecutor._fetch_rewards_via_http",
    f"{TRAINER}.ray.vllm_engine:RolloutRayActor",
    f"{TRAINER}.ray.vllm_engine:RolloutRayActor.generate_responses",
    f"{TRAINER}.ray.vllm_engine:batch_vllm_engine_call",
    f"{TRAINER}.ppo_utils.samples_generator:SamplesGenerator.generate_samples",
    f"{TRAINER}.ppo_utils.samples_generator:SamplesGenerator.generate_eval_samples",
    f"{TRAINER}.ppo_utils.samples_generator:SamplesGenerator._generate_vllm",
    f"{TRAINER}.ppo_utils.samples_generator:SamplesGenerator._dispatch_prompts_to_vllm",
    f"{TRAINER}.ppo_utils.samples_generator:SamplesGenerator._process_response_into_experience",
    f"{TRAINER}.ppo_utils.experience_maker:RemoteExperienceMaker.make_experience",
    f"{TRAINER}.ppo_utils.experience_maker:RemoteExperienceMaker.compute_advantages_and_returns",
    f"{TRAINER}.ppo_utils.experience_maker:RemoteExperienceMaker._dispatch_forward",
    f"{TRAINER}.ppo_utils.experience_maker:RemoteExperienceMaker._flatten_results",
    f"{TRAINER}.ppo_trainer:PromptDataset",
    f"{TRAINER}.ppo_trainer:RemoteExperienceMaker",
    f"{TRAINER}.ppo_trainer:SamplesGenerator",
    f"{TRAINER}.ppo_trainer:prepare_datasets",
    f"{TRAINER}.ppo_trainer:BasePPOTrainer.broadcast_to_vllm",
    f"{TRAINER}.ppo_trainer:BasePPOTrainer.save_logs_and_checkpoints",
    f"{TRAINER}.ppo_trainer:PPOTrainer",
    f"{TRAINER}.ppo_trainer_async:SamplesGenerator",
    f"{TRAINER}.ppo_trainer_async:GenerateSamplesActor",
    f"{TRAINER}.ppo_trainer_async:TrainingActor",
    f"{TRAINER}.ppo_trainer_async:VLLMLock",
    f"{TRAINER}.ppo_trainer_async:VLLMLock.acquire",
    f"{TRAINER}.ppo_trainer_async:VLLMLock.release",
    f"{TRAINER}.ppo_trainer_async:PPOTrainerAsync",
]


def test_this_openrlhf_has_all_names() -> None:
    contract.check_names()


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_renamed_name_stops_the_run(mutant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    module, _, name = mutant.partition(":")
    owner: Any = importlib.import_module(module)
    first, _, member = name.partition(".")
    if member:
        owner = getattr(owner, first)
        owner = getattr(getattr(owner, "__ray_metadata__", None), "modified_class", owner)
    last = member or first
    monkeypatch.setattr(owner, f"{last}_renamed", getattr(owner, last), raising=False)
    # Ray's class of an actor is derived from OpenRLHF's, and has some methods again.
    for one in getattr(owner, "__mro__", (owner,)):
        if last in vars(one):
            monkeypatch.delattr(one, last)
    with pytest.raises(HostError) as raised:
        contract.check_names()
    message = str(raised.value)
    assert message.startswith(f"this OpenRLHF has no {module}.{first}")
    assert message.endswith("which prompt_coevo is built on; install openrlhf==0.11.2")


def test_a_renamed_module_stops_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(contract, "_NAMES", {"openrlhf.trainer.gone": ("Trainer",)})
    with pytest.raises(HostError, match=r"^this OpenRLHF has no openrlhf.trainer.gone, which"):
        contract.check_names()


class Host:
    """A future OpenRLHF trainer whose parts have other names or are not ours."""

    parts: ClassVar[dict[str, Any]] = {}

    def __init__(self) -> None:
        vars(self).update(self.parts)


OURS = {
    "samples_generator": generation.CoevoSamplesGenerator.__new__(generation.CoevoSamplesGenerator),
    "experience_maker": ratio.CoevoExperienceMaker.__new__(ratio.CoevoExperienceMaker),
    "prompts_dataloader": object(),
    "generate_kwargs": {},
}


@pytest.mark.parametrize(
    ("half", "changed", "told"),
    [
        (trainer._Generates, {"samples_generator": None}, "has no Half.samples_generator"),
        (
            trainer._Generates,
            {"samples_generator": object()},
            "is a object and not our CoevoSamplesGenerator",
        ),
        (trainer._Generates, {"prompts_dataloader": None}, "has no Half.prompts_dataloader"),
        (trainer._Generates, {"generate_kwargs": None}, "has no Half.generate_kwargs"),
        (trainer._Logs, {"experience_maker": None}, "has no Half.experience_maker"),
        (
            trainer._Logs,
            {"experience_maker": object()},
            "is a object and not our CoevoExperienceMaker",
        ),
    ],
)
def test_a_part_that_is_not_ours_stops_the_run(
    half: type, changed: dict[str, Any], told: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module in (trainer.sync, trainer.asynchronous):
        for name in ("PromptDataset", "RemoteExperienceMaker", "SamplesGenerator"):
            if hasattr(module, name):  # ours are put in their place, for this test
                monkeypatch.setattr(module, name, getattr(module, name))
    monkeypatch.setattr(Host, "parts", {**OURS, **changed})
    with pytest.raises(HostError, match=told):
        type("Half", (half, Host), {})()


def test_a_step_without_the_loaders_state_stops_the_run() -> None:
    """As if OpenRLHF kept it under another name: metrics and resumes would silently go."""
    half = trainer._Logs.__new__(trainer._Logs)
    for states in (None, {}, {"loader": {}}, {"data_loader_state_dict": {}}):
        with pytest.raises(HostError, match="ended a step without the state of its dataloader"):
            half.save_logs_and_checkpoints(1, {}, states)


def test_a_loader_with_another_dataset_stops_the_run() -> None:
    with pytest.raises(HostError, match="is a list and not our CoevoPromptDataset"):
        contract.check_part(SimpleNamespace(dataset=[]), "dataset", generation.CoevoPromptDataset)


@pytest.mark.parametrize("missing", ["prompt", "observation_tokens", "action_ranges"])
def test_a_response_without_what_is_read_of_it_stops_the_run(missing: str) -> None:
    response = {name: [] for name in ("prompt", "observation_tokens", "action_ranges")}
    del response[missing]
    with pytest.raises(HostError, match=f"a response of OpenRLHF has no '{missing}', which"):
        contract.check_keys(response, "prompt", "observation_tokens", "action_ranges")


@pytest.mark.parametrize("prompt", ["why?", "<system> you play a game <user> why?"])
def test_a_response_to_another_prompt_stops_the_run(prompt: str) -> None:
    """An agent that looks the question up, or asks its own, would never use an instruction."""
    tokenizer: Any = SimpleNamespace(
        batch_decode=lambda ids, **_: ["".join(map(chr, row)) for row in ids]
    )
    tokenizer.tokenizer = lambda text, **_: {"input_ids": list(map(ord, text))}
    one = Assignment("q", instruction=Candidate("note this", "instruction"))

    def response(prompt: str, **ranges: Any) -> Any:
        tokens = list(map(ord, f"{prompt} because"))
        return {"observation_tokens": tokens, "action_ranges": [(len(prompt), 9)], **ranges}

    distill.check_placed(response(f"note  this\n\n{prompt}"), one, tokenizer)
    distill.check_placed(response(f"{prompt} note this"), one, tokenizer)  # behind the question
    distill.check_placed(response(prompt), Assignment("q"), tokenizer)
    distill.check_placed(response(prompt, action_ranges=[]), one, tokenizer)  # nothing was sampled
    with pytest.raises(HostError, match="was sampled on a prompt without it"):
        distill.check_placed(response(prompt), one, tokenizer)


def test_a_distilled_sequence_begins_with_the_question() -> None:
    response: Any = {"observation_tokens": [4, 5, 6, 7], "action_ranges": [(2, 4)]}
    generation._check_tokens(SimpleNamespace(sequences=torch.tensor([[4, 5, 6, 7]])), response)
    padded = SimpleNamespace(sequences=torch.tensor([[0, 4, 5, 6, 7]]))
    with pytest.raises(HostError, match="does not begin with the question's tokens"):
        generation._check_tokens(padded, response)


def test_rows_that_are_not_punished_have_no_negative_advantage() -> None:
    info = {ratio.UNPUNISHED: torch.tensor([1.0, 1.0, 0.0])}
    made: Any = SimpleNamespace(
        advantages=torch.tensor([[-1.0, -1.0], [0.5, -0.5], [-1.0, 2.0]]), info=info
    )
    ratio.punish_nothing(made)
    assert made.advantages.tolist() == [[0, 0], [0.5, 0], [-1, 2]]
    with pytest.raises(HostError, match="has lost the entry 'coevo_unpunished'"):
        ratio.punish_nothing(SimpleNamespace(info={}))  # type: ignore[arg-type]


def test_an_experience_that_lost_its_entry_stops_the_run() -> None:
    lost = SimpleNamespace(rollout_log_probs=torch.zeros(1, 2), info={})
    with pytest.raises(HostError, match="has lost the entry 'coevo_distilled'"):
        ratio._hide_template(lost, None)  # type: ignore[arg-type]
    with pytest.raises(HostError, match="has lost the entry 'coevo_rolled_out'"):
        ratio._entry(lost, "coevo_rolled_out")  # type: ignore[arg-type]
