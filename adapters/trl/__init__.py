"""The door to TRL: `trainer.add_callback(CoevoCallback(trainer, settings))`."""

from prompt_coevo.adapters.trl.launch import CoevoCallback, attach

__all__ = ["CoevoCallback", "attach"]
