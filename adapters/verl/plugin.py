"""What VeRL loads in every process, by the entry point `verl.plugins`.

It only stores the hydra group `coevo` and the resolver behind its `trainer_mode`, so a run without
`+coevo=...` is as if this package were not installed.
"""

from __future__ import annotations

import logging

from prompt_coevo.markers import PROJECT

logger = logging.getLogger(PROJECT)

try:
    from prompt_coevo.adapters.verl.launch import store_group

    store_group()
except Exception as error:  # VeRL would only mention it at its debug level
    logger.warning("the VeRL adapter cannot be loaded, so +coevo=... is unknown: %s", error)
