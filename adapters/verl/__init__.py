"""The door to VeRL: `python -m verl.trainer.main_ppo ... +coevo=p2o`.

Nothing is imported here: VeRL loads `plugin.py` in every one of its processes.
"""
