"""Check that the built-in proposers keep the laws."""

from __future__ import annotations

from collections.abc import Sequence

from laws.core.references import numbered
from prompt_coevo.testing.proposer import ProposerLaws


class TestProposeImprovement(ProposerLaws):
    proposer = "propose_improvement"
    kind = "template"

    def written(self, texts: Sequence[str]) -> str:
        return "".join(f"<template>{text}</template>" for text in texts)


class Numbered(ProposerLaws):
    kind = "instruction"

    def written(self, texts: Sequence[str]) -> str:
        return numbered(texts)


class TestReflection(Numbered):
    proposer = "reflection"


class TestParaphrase(Numbered):
    proposer = "paraphrase"


class TestHistory(Numbered):
    proposer = "history"
