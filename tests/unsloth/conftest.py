"""Fixtures for the tests of Unsloth's trainer, in a separate environment."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore_glob: list[str] = []
if find_spec("unsloth_zoo") is None:
    collect_ignore_glob = ["test_*.py"]
