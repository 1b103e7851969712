"""List the core's fuzz targets by name."""

from __future__ import annotations

from fuzz.core import files, ledgers, replies, rows, setting_sources, states, texts

TARGETS = {
    **files.TARGETS,
    **ledgers.TARGETS,
    **replies.TARGETS,
    **rows.TARGETS,
    **setting_sources.TARGETS,
    **states.TARGETS,
    **texts.TARGETS,
}
