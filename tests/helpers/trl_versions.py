"""Tests that older versions of TRL, which the package allows, cannot pass."""

from __future__ import annotations

import pytest
import trl
from packaging.version import Version


def since(version: str, reason: str) -> pytest.MarkDecorator:
    """A mark for tests of what TRL does since a version; `reason` says what that is."""
    old = Version(trl.__version__) < Version(version)
    return pytest.mark.skipif(old, reason=f"since TRL {version}: {reason}")
