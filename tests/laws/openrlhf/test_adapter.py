"""Check that OpenRLHF's adapter keeps the laws of an adapter."""

from __future__ import annotations

from helpers.openrlhf_under_test import OpenRLHFUnderTest
from prompt_coevo.testing.adapter import adapter_laws

test_openrlhf_adapter = adapter_laws(OpenRLHFUnderTest)
