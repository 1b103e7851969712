"""Install the third-party methods as separate wheels, found by their entry points."""

from __future__ import annotations

import importlib
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from prompt_coevo.types import Question, Rollout, RolloutRequest

SOURCES = Path(__file__).parents[2] / "docs/plugins"
_BUILD = "import sys; from setuptools.build_meta import build_wheel; build_wheel(sys.argv[1])"


@pytest.fixture(scope="session")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build both distributions into one folder, as pip builds them."""
    folder = tmp_path_factory.mktemp("site")
    for source in sorted(path.parent for path in SOURCES.glob("*/pyproject.toml")):
        work = tmp_path_factory.mktemp("build")
        ignored = shutil.ignore_patterns("build", "*.egg-info", "__pycache__")
        shutil.copytree(source, work / "source", ignore=ignored)
        command = [sys.executable, "-c", _BUILD, str(work)]
        subprocess.run(command, cwd=work / "source", check=True, capture_output=True)
        (wheel,) = work.glob("*.whl")
        zipfile.ZipFile(wheel).extractall(folder)
    return folder


@pytest.fixture(autouse=True)
def installed(site: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Install them for these tests only: other tests must not find them."""
    for name in [name for name in os.environ if name.startswith("PROMPT_COEVO_")]:
        monkeypatch.delenv(name)
    monkeypatch.syspath_prepend(str(site))
    importlib.invalidate_caches()
    yield
    monkeypatch.undo()
    importlib.invalidate_caches()


@dataclass
class WordPolicy:
    """Solve a question iff the instruction or template contains its key: "k3" for question "q3"."""

    questions: dict[str, Question]
    families: int = 4
    asked: list[RolloutRequest] = field(default_factory=list)

    def question(self, question_id: str) -> Question:
        return self.questions[question_id]

    def question_ids(self) -> list[str]:
        return list(self.questions)

    def rollout(self, requests: Sequence[RolloutRequest]) -> list[Rollout]:
        self.asked += requests
        return [self.answer(request.assignment) for request in requests]

    def answer(self, assignment: Any) -> Rollout:
        texts = (assignment.instruction, assignment.template)
        words = " ".join(one.text for one in texts if one).split()
        key = f"k{int(assignment.question_id.removeprefix('q')) % self.families}"
        return Rollout(assignment, " ".join(words) or "nothing", float(key in words))


@pytest.fixture
def policy() -> WordPolicy:
    return WordPolicy(
        {
            f"q{n}": Question(
                f"q{n}", f"what is {n}?", f"answer {n}", {"solution": f"so take k{n % 4} for {n}"}
            )
            for n in range(12)
        }
    )


@pytest.fixture
def round_of() -> Callable[..., list[Any]]:
    """Return a function that plays one generation round with a policy and the step after it, and returns
    the plan."""

    def train(engine: Any, policy: WordPolicy, group_size: int = 6) -> list[Any]:
        plan: list[Any] = engine.plan(sorted(policy.questions), group_size)
        engine.observe([policy.answer(assignment) for assignment in plan])
        engine.step_end(policy)
        return plan

    return train
