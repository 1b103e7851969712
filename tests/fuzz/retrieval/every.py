"""List retrieval's fuzz targets by name. Needs the extra `retrieval`."""

from __future__ import annotations

from fuzz.retrieval import agents, clients, indexes, servers

TARGETS = {**agents.TARGETS, **clients.TARGETS, **indexes.TARGETS, **servers.TARGETS}
