"""The door to VeRL: `python -m verl.trainer.main_ppo ... +coevo=METHOD`.

Nothing of it is imported here: VeRL loads `plugin.py` in every one of its processes.
"""

from prompt_coevo.extras import require

require("verl", extra="verl", purpose="the door to VeRL")
