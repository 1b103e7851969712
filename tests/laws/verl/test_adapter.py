"""Check that VeRL's adapter keeps the laws of an adapter, in the unmodified main_ppo."""

from __future__ import annotations

from helpers.verl_under_test import VerlUnderTest
from prompt_coevo.testing.adapter import adapter_laws

test_verl_adapter = adapter_laws(VerlUnderTest)
