"""What this door leans on in VeRL."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    from omegaconf import DictConfig
    from tensordict import TensorDict
    from transformers import PreTrainedTokenizerBase
    from verl.checkpoint_engine import CheckpointEngineManager
    from verl.experimental.reward_loop import RewardLoopManager
    from verl.utils.dataset.rl_dataset import RLHFDataset

Extras: TypeAlias = dict[str, Any]
"""The extra fields that an agent loop adds to a rollout."""
SamplingParams: TypeAlias = dict[str, Any]
"""What an agent loop gives to the rollout server, under the names of vLLM."""
Metrics: TypeAlias = dict[str, Any]
"""What the trainer logs of a step."""
Session: TypeAlias = tuple[str, int]
"""The group's uid and the number of the rollout in it."""


class Rows(Protocol):
    """Rows in TransferQueue, by key (`KVBatchMeta`)."""

    keys: list[str]
    tags: list[dict[str, Any]]
    partition_id: str


class ReplayBuffer(Protocol):
    """What we use of the trainer's, which waits until rows have come back."""

    poll_interval: float
    finished_keys: dict[str, set[str]]
    partitions: dict[str, dict[str, object]]

    def sample(
        self, *, global_steps: int, partition_id: str, batch_size: int
    ) -> tuple[Rows, Metrics]: ...


class AgentLoopManager(Protocol):
    """Sends the rows of a batch to agent loops; what comes back goes into TransferQueue."""

    def generate_sequences(self, batch: TensorDict) -> None: ...


class Trainer(Protocol):
    """What we use of a PPOTrainerSync from outside; VeRL may change what has an underscore."""

    config: DictConfig
    tokenizer: PreTrainedTokenizerBase
    train_dataset: RLHFDataset
    global_steps: int
    replay_buffer: ReplayBuffer
    reward_loop_manager: RewardLoopManager
    checkpoint_manager: CheckpointEngineManager

    def _compute_reward_colocate(self, batch: Rows) -> Rows: ...
