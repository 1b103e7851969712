"""OpenRLHF's trainers with our parts in them. They run in Ray actors, on any node."""

from __future__ import annotations

from typing import Any

import openrlhf.trainer.ppo_trainer as sync
import openrlhf.trainer.ppo_trainer_async as asynchronous
import ray

from prompt_coevo.adapters.openrlhf.dataset import CoevoPromptDataset
from prompt_coevo.adapters.openrlhf.experience import CoevoExperienceMaker
from prompt_coevo.adapters.openrlhf.loader import METRICS
from prompt_coevo.adapters.openrlhf.samples import CoevoSamplesGenerator


def _class_of(actor: Any) -> Any:
    """The class behind a Ray actor class, which itself cannot be subclassed."""
    return actor.__ray_metadata__.modified_class


def _use_ours() -> None:
    """In an actor's own process: the names that OpenRLHF's constructors look up."""
    sync.PromptDataset = CoevoPromptDataset
    sync.RemoteExperienceMaker = CoevoExperienceMaker
    sync.SamplesGenerator = asynchronous.SamplesGenerator = CoevoSamplesGenerator


class _LogsOurMetrics:
    """The metrics travel next to the state, because generator and trainer may be two processes."""

    def save_logs_and_checkpoints(
        self, global_step: int, logs_dict: Any = None, client_states: Any = None
    ) -> None:
        metrics = (client_states or {}).get("data_loader_state_dict", {}).pop(METRICS, {})
        super().save_logs_and_checkpoints(  # type: ignore[misc]
            global_step, {**(logs_dict or {}), **metrics}, client_states
        )


class CoevoTrainer(_LogsOurMetrics, _class_of(sync.PPOTrainer)):  # type: ignore[misc]
    """The synchronous trainer."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _use_ours()
        super().__init__(*args, **kwargs)
        self.prompts_dataloader = self.samples_generator.prompts_dataloader

    def fit(self, *args: Any, **kwargs: Any) -> None:
        super().fit(*args, **kwargs)
        self.samples_generator.finish()


class CoevoGenerateSamplesActor(_class_of(asynchronous.GenerateSamplesActor)):  # type: ignore[misc]
    """The generating half of the asynchronous trainer; it has the engine."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _use_ours()
        super().__init__(*args, **kwargs)
        self.prompts_dataloader = self.samples_generator.prompts_dataloader

    def finish(self) -> None:
        """Training is over."""
        self.samples_generator.finish()


class CoevoTrainingActor(_LogsOurMetrics, _class_of(asynchronous.TrainingActor)):  # type: ignore[misc]
    """The training half."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _use_ours()
        super().__init__(*args, **kwargs)


class CoevoTrainerAsync(_class_of(asynchronous.PPOTrainerAsync)):  # type: ignore[misc]
    """The asynchronous trainer, which makes the two halves."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        asynchronous.GenerateSamplesActor = ray.remote(CoevoGenerateSamplesActor)
        asynchronous.TrainingActor = ray.remote(CoevoTrainingActor)
        super().__init__(*args, **kwargs)

    def fit(self) -> None:
        super().fit()
        ray.get(self.generator_actor.finish.remote())
