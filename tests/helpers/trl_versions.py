"""Mark tests that fail on older versions of TRL that the package allows."""

from __future__ import annotations

import pytest
import trl
from packaging.version import Version


def since(version: str, reason: str) -> pytest.MarkDecorator:
    """Mark a test of what TRL does since a version; `reason` names it."""
    old = Version(trl.__version__) < Version(version)
    return pytest.mark.skipif(old, reason=f"since TRL {version}: {reason}")
