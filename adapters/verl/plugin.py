"""The entry point `verl.plugins`, which VeRL loads in every process.

It only registers the hydra group `coevo` and the resolver for `trainer_mode`, so a run without
`+coevo=...` behaves as if this package were not installed.
"""

from __future__ import annotations

import logging

from prompt_coevo.markers import PROJECT

logger = logging.getLogger(PROJECT)

try:
    from prompt_coevo.adapters.verl.launch import store_group

    store_group()
except Exception as error:  # VeRL logs a plugin's errors at debug level only
    logger.warning("the VeRL adapter cannot be loaded, so +coevo=... is unknown: %s", error)
