"""OpenRLHF's trainers with our parts built in. They run in Ray actors, on any node."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import openrlhf.trainer.ppo_trainer as sync
import openrlhf.trainer.ppo_trainer_async as asynchronous
import ray
from ray.actor import ActorHandle

from prompt_coevo.adapters.common.ratio_tensors import TEMPLATE_EFFECT
from prompt_coevo.adapters.common.trackers.texts import Writing
from prompt_coevo.adapters.openrlhf.contract import ADVICE, check_part
from prompt_coevo.adapters.openrlhf.generation import CoevoSamplesGenerator
from prompt_coevo.adapters.openrlhf.host import class_of
from prompt_coevo.adapters.openrlhf.questions import CoevoPromptDataset
from prompt_coevo.adapters.openrlhf.ratio import CoevoExperienceMaker
from prompt_coevo.adapters.openrlhf.stateful_loader import METRICS, TEXTS
from prompt_coevo.adapters.openrlhf.trackers import open_trackers
from prompt_coevo.adapters.openrlhf.weights import CoevoVLLMLock
from prompt_coevo.errors import HostError

if TYPE_CHECKING:
    from openrlhf.utils.logging_utils import TensorboardLogger, WandbLogger


class _TakesOurs:
    """Installs our parts: OpenRLHF's constructors look these names up, in the actor's own process."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        sync.PromptDataset = CoevoPromptDataset
        sync.RemoteExperienceMaker = CoevoExperienceMaker
        sync.SamplesGenerator = asynchronous.SamplesGenerator = CoevoSamplesGenerator
        super().__init__(*args, **kwargs)


class _Generates(_TakesOurs):
    """The process with the sample generator, and therefore with the engine."""

    samples_generator: CoevoSamplesGenerator
    generate_kwargs: dict[str, object]

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        check_part(self, "samples_generator", CoevoSamplesGenerator)
        check_part(self, "prompts_dataloader")
        check_part(self, "generate_kwargs")
        # OpenRLHF saves and loads the state of `self.prompts_dataloader`, which its constructor made. Our
        # generator has since wrapped it with the engine's state; without this line no checkpoint has that
        # state, and a resumed run silently starts co-evolution anew.
        self.prompts_dataloader = self.samples_generator.prompts_dataloader

    def finish(self) -> None:
        """End the run after training."""
        self.samples_generator.finish(**self.generate_kwargs)


class _Logs(_TakesOurs):
    """The process that logs. Metrics and texts reach it next to the dataloader's state, because generator
    and trainer may be two processes."""

    wandb_logger: WandbLogger | None
    tensorboard_logger: TensorboardLogger | None
    experience_maker: CoevoExperienceMaker

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__(*args, **kwargs)
        check_part(self, "experience_maker", CoevoExperienceMaker)
        self._writing = Writing()

    def save_logs_and_checkpoints(
        self,
        global_step: int,
        logs_dict: dict[str, float] | None = None,
        client_states: dict[str, Any] | None = None,
    ) -> None:
        loader_state = (client_states or {}).get("data_loader_state_dict", {})
        if METRICS not in loader_state:
            raise HostError(
                "OpenRLHF ended a step without the state of its dataloader, in which our metrics are and "
                f"with which ours is saved; {ADVICE}"
            )
        metrics, tables = loader_state.pop(METRICS), loader_state.pop(TEXTS, None)
        effect, self.experience_maker.template_effect = self.experience_maker.template_effect, None
        if effect is not None:
            metrics = {**metrics, TEMPLATE_EFFECT: effect}
        super().save_logs_and_checkpoints(  # type: ignore[misc]
            global_step, {**(logs_dict or {}), **metrics}, client_states
        )
        if tables is not None:
            trackers = open_trackers(self.wandb_logger, self.tensorboard_logger)
            self._writing.write(tables, global_step, trackers)


class CoevoTrainer(_Generates, _Logs, class_of(sync.PPOTrainer)):  # type: ignore[misc]
    """The synchronous trainer."""

    def fit(self, *args: object, **kwargs: object) -> None:
        super().fit(*args, **kwargs)
        self.finish()


class CoevoGenerateSamplesActor(_Generates, class_of(asynchronous.GenerateSamplesActor)):  # type: ignore[misc]
    """The generating half of the asynchronous trainer."""

    def __init__(self, *args: object, vllm_lock: object, **kwargs: object) -> None:
        super().__init__(*args, vllm_lock=vllm_lock, **kwargs)
        self.samples_generator.share(vllm_lock)


class _CountsBroadcasts(sync.BasePPOTrainer):
    """A base class below OpenRLHF's training half, which holds the lock when it calls this broadcast."""

    vllm_lock: ActorHandle

    def broadcast_to_vllm(self) -> None:
        super().broadcast_to_vllm()
        ray.get(self.vllm_lock.count_broadcast.remote())


class CoevoTrainingActor(_Logs, class_of(asynchronous.TrainingActor), _CountsBroadcasts):  # type: ignore[misc]
    """The training half."""


class CoevoTrainerAsync(class_of(asynchronous.PPOTrainerAsync)):  # type: ignore[misc]
    """The asynchronous trainer, which creates the two halves."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        asynchronous.GenerateSamplesActor = ray.remote(CoevoGenerateSamplesActor)
        asynchronous.TrainingActor = ray.remote(CoevoTrainingActor)
        asynchronous.VLLMLock = ray.remote(num_cpus=0)(CoevoVLLMLock)
        super().__init__(*args, **kwargs)

    def fit(self) -> None:
        super().fit()
        ray.get(self.generator_actor.finish.remote())
