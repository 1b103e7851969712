"""The door to TRL: `trainer.add_callback(CoevoCallback(trainer, settings))`."""

from prompt_coevo.extras import require

require("trl", "transformers", "torch", extra="trl", purpose="the door to TRL")

from prompt_coevo.adapters.trl.launch import CoevoCallback, attach  # noqa: E402

__all__ = ["CoevoCallback", "attach"]
