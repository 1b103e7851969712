"""Four steps of TRL's GRPOTrainer on the demo's policy, with the callback."""

from pathlib import Path

from prompt_coevo.adapters.trl import CoevoCallback
from prompt_coevo.demo.arms import arm
from prompt_coevo.demo.job import settings_of
from prompt_coevo.demo.splits import training_tasks
from prompt_coevo.demo.trainer import build_trainer, quieten
from prompt_coevo.demo.world import World, base_path, reward

quieten()
world = World()
trainer = build_trainer(
    base_path(world),
    training_tasks(world, 0, 128),
    reward,
    out=Path("out"),
    seed=0,
    epochs=1,
    learning_rate=4e-4,
)
callback = CoevoCallback(trainer, settings_of(arm("stream"), world, 0))
trainer.add_callback(callback)
trainer.train()
metrics = callback.engine.metrics()
assert trainer.state.global_step == 4
print(f"4 steps, {metrics['coevo/reflection_calls']:.0f} reflection calls")
