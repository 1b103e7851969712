"""The OpenRLHF version and names that this adapter relies on, checked before training.

Most are replaced or overridden. If OpenRLHF renamed one, training would silently go without a part of ours.
"""

from __future__ import annotations

import importlib
import re
from collections.abc import Iterable, Mapping
from importlib.metadata import PackageNotFoundError, version
from types import ModuleType
from typing import Final

from prompt_coevo.errors import HostError

ADVICE: Final = "install openrlhf==0.11.2"

_SYNC: Final = "openrlhf.trainer.ppo_trainer"
_ASYNC: Final = "openrlhf.trainer.ppo_trainer_async"
_SAMPLES: Final = "openrlhf.trainer.ppo_utils.samples_generator"
_MAKER: Final = "openrlhf.trainer.ppo_utils.experience_maker"
_ENGINE: Final = "openrlhf.trainer.ray.vllm_engine"

_NAMES: Final[Mapping[str, Iterable[str]]] = {
    "openrlhf.utils": ("get_strategy",),
    "openrlhf.utils.config": ("hierarchize",),
    "openrlhf.utils.utils": ("get_tokenizer",),
    "openrlhf.datasets": ("PromptDataset.__init__", "PromptDataset.collate_fn"),
    "openrlhf.utils.agent": (
        "AgentExecutorBase.execute",
        "SingleTurnAgentExecutor._fetch_rewards_via_func",
        "SingleTurnAgentExecutor._fetch_rewards_via_http",
    ),
    "openrlhf.trainer.ppo_utils.experience": ("Experience.info",),
    _ENGINE: ("RolloutRayActor.generate_responses", "batch_vllm_engine_call"),
    _SAMPLES: (
        "SamplesGenerator.generate_samples",
        "SamplesGenerator.generate_eval_samples",
        "SamplesGenerator._generate_vllm",
        "SamplesGenerator._dispatch_prompts_to_vllm",
        "SamplesGenerator._process_response_into_experience",
    ),
    _MAKER: (
        "RemoteExperienceMaker.make_experience",
        "RemoteExperienceMaker.compute_advantages_and_returns",
        "RemoteExperienceMaker._dispatch_forward",
        "RemoteExperienceMaker._flatten_results",
    ),
    _SYNC: (
        "PromptDataset",
        "RemoteExperienceMaker",
        "SamplesGenerator",
        "prepare_datasets",
        "BasePPOTrainer.broadcast_to_vllm",
        "BasePPOTrainer.save_logs_and_checkpoints",
        "PPOTrainer.fit",
    ),
    _ASYNC: (
        "SamplesGenerator",
        "GenerateSamplesActor.fit",
        "TrainingActor.broadcast_to_vllm",
        "VLLMLock.acquire",
        "VLLMLock.release",
        "PPOTrainerAsync.fit",
    ),
}


def check_version() -> None:
    """Raise HostError unless OpenRLHF is at least 0.11.2 and below 0.12."""
    try:
        found = version("openrlhf")
    except PackageNotFoundError:  # a folder on the path, which is not installed
        found = "of an unknown version"
    if not (0, 11, 2) <= tuple(map(int, re.findall(r"\d+", found)[:3])) < (0, 12):
        raise HostError(
            f"openrlhf {found} is not supported, because its flags and internals differ; {ADVICE}"
        )


def check_names() -> None:
    """Raise HostError for the first name that this OpenRLHF lacks."""
    for module, names in _NAMES.items():
        try:
            found = importlib.import_module(module)
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("openrlhf"):
                raise
            raise HostError(_missing(module)) from None
        for name in names:
            if not _has(found, name):
                raise HostError(_missing(f"{module}.{name}"))


def check_part(owner: object, name: str, kind: type | None = None) -> None:
    """Raise HostError if an OpenRLHF object lacks an attribute, or if that is not of our class `kind`."""
    part = getattr(owner, name, None)
    if part is None:
        raise HostError(_missing(f"{type(owner).__name__}.{name}"))
    if kind is not None and not isinstance(part, kind):
        raise HostError(
            f"{type(owner).__name__}.{name} of this OpenRLHF is a {type(part).__name__} and not our "
            f"{kind.__name__}, so training would go on without it; {ADVICE}"
        )


def check_keys(response: Mapping[str, object], *names: str) -> None:
    """Raise HostError if a response lacks one of these keys."""
    if missing := [name for name in names if name not in response]:
        raise HostError(
            f"a response of OpenRLHF has no {missing[0]!r}, which this adapter reads; if you have your own "
            f"AgentExecutor, let it return that key, else {ADVICE}"
        )


def _has(module: ModuleType, name: str) -> bool:
    """Check for a name, also inside Ray's actor classes and among dataclass fields without a default."""
    first, _, member = name.partition(".")
    found = getattr(module, first, None)
    found = getattr(getattr(found, "__ray_metadata__", None), "modified_class", found)
    if found is None or not member:
        return found is not None
    return hasattr(found, member) or member in getattr(found, "__dataclass_fields__", ())


def _missing(name: str) -> str:
    return f"this OpenRLHF has no {name}, which prompt_coevo is built on; {ADVICE}"
