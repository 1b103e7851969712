"""The adapter for VeRL: `python -m verl.trainer.main_ppo ... +coevo=METHOD`.

Nothing of it is imported here: VeRL loads `plugin.py` in every one of its processes.
"""
