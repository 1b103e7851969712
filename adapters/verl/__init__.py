"""The adapter for VeRL: `python -m verl.trainer.main_ppo ... +coevo=METHOD`.

Nothing is imported here, because VeRL loads `plugin.py` in every one of its processes.
"""
