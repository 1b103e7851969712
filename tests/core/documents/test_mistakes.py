"""Check typical mistakes by making each for real and comparing the message with tests/mistakes.toml."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from helpers import mistakes_table
from helpers.mistakes_table import told
from prompt_coevo import Coevolution, Settings
from prompt_coevo.adapters.common.columns import index_columns
from prompt_coevo.adapters.common.flags import Flags
from prompt_coevo.cli import app
from prompt_coevo.engine.identity import Dataset
from prompt_coevo.errors import CoevoError
from prompt_coevo.extras import is_installed
from prompt_coevo.preflight import reflection_call
from prompt_coevo.settings.method import Workload
from standins.openai_server import Raw, openai_server

SETTINGS: dict[str, dict[str, Any]] = {
    'a misspelt setting: `stream = {"tua": 0.1}`': {"stream": {"tua": 0.1}},
    "one in the wrong place: `tau = 0.1`": {"tau": 0.1},
    "one in the wrong section: `stream.max_tokens`": {"stream": {"max_tokens": 512}},
    "a section in other letters: `Stream`": {"Stream": {"tau": 0.1}},
    'a dotted name in Python: `{"stream.tau": 0.1}`': {"stream.tau": 0.1},
    "a method that is none: `algorithms = p3o`": {"algorithms": "p3o"},
    "a preset that is none: `preset = p2`": {"preset": "p2"},
    "a number out of its range: `stream.tau = 7`": {"stream": {"tau": 7}},
    "a share of nothing: `hints.share = 1`": {"hints": {"share": 1}},
    "a text for a number: `stream.library_size = many`": {"stream": {"library_size": "many"}},
    "a switch for a number: `stream.library_size = true`": {"stream": {"library_size": True}},
    "a choice that is none: `p2o.hardness = bear`": {
        "algorithms": "p2o",
        "p2o": {"hardness": "bear"},
    },
    "a setting of another method: `stream.beam_width`": {"stream": {"beam_width": 8}},
    "a setting of the stream under P2O: `p2o.first_sight`": {
        "algorithms": "p2o",
        "p2o": {"first_sight": True},
    },
    "a setting of a method that does not run: `inspo.window`": {"inspo": {"window": 3}},
    "two searches for templates: `algorithms = stream,p2o`": {
        "algorithms": "stream,p2o",
        "reflection": {"function": str},
    },
    "templates that are trained on, with INSPO alone: `context_distillation`": {
        "algorithms": "inspo",
        "context_distillation": True,
    },
    "a layout without its placeholder": {"placement": {"template_layout": "{{question}}"}},
    "two reflection models: `model` and `function`": {
        "reflection": {"model": "openai/gpt-5", "function": str}
    },
    "an address for the policy itself: `reflection.model = self` with `api_base`": {
        "reflection": {"model": "self", "api_base": "http://127.0.0.1:8000/v1"}
    },
    "a function that is not there: `reflection.function = my_teacher:reply`": {
        "reflection": {"function": "my_teacher:reply"}
    },
    "no reflection model": {},
    "a proposer that is none": {"reflection": {"function": str}, "stream": {"proposer": "improve"}},
    "a sink that is none: `sinks = jurnal`": {"sinks": ["jurnal"]},
    "settings of a method that is not there": {"plugins": {"mine": {"share": 0.5}}},
    "no meta-prompt in the file": {
        "reflection": {
            "function": str,
            "meta_prompts": {"propose_improvement": "no-such-file.md"},
        }
    },
    "several at once": {"preset": "p2", "tau": 1, "stream": {"calls_per_step": 0}},
}

ROWS = [{"prompt": f"What is {n} + {n}?", "answer": str(2 * n)} for n in range(3)]
DATASETS: dict[str, tuple[Any, dict[str, Any]]] = {
    "an empty dataset": ([], {}),
    "a stream in place of a dataset": (iter(ROWS), {}),
    "no column `prompt`": ([{"promt": "why?", "answer": "so"}], {}),
    "a misspelt column: `ground_truth_column = anwser`": (
        ROWS,
        {"ground_truth_column": "anwser"},
    ),
    "no column with the right answer": ([{"prompt": "why?", "key": "so"}], {}),
    "a column of ids that is not there": (ROWS, {"question_id_column": "id"}),
    "a further column that is not there": (ROWS, {"row_columns": ["solution"]}),
    "one id for two questions": (
        [{**row, "id": "q"} for row in ROWS],
        {"question_id_column": "id"},
    ),
    "a prompt that is no text": ([{"prompt": 3, "answer": "so"}], {}),
    "a chat without a user's message": (
        [{"prompt": [{"role": "system", "content": "Be kind."}], "answer": "so"}],
        {},
    ),
    "images": (
        [{"prompt": [{"role": "user", "content": [{"type": "image"}]}], "answer": "so"}],
        {},
    ),
}


def refused(act: Callable[[], object], *folders: Path) -> str:
    with pytest.raises(CoevoError) as raised:
        act()
    return told(raised.value, *folders)


def checked(values: dict[str, Any]) -> None:
    Coevolution.check(Settings(**values))


def test_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = {}
    for mistake, values in SETTINGS.items():
        found[mistake] = refused(partial(checked, values))
    monkeypatch.setenv("PROMPT_COEVO_SEDE", "3")
    found["a misspelt variable: `PROMPT_COEVO_SEDE=3`"] = refused(Settings)
    mistakes_table.compare("settings", found)


def test_commands(tmp_path: Path) -> None:
    def flags(line: str) -> str:
        return refused(lambda: Flags.from_arguments(line.split()))

    def file(name: str, text: str) -> str:
        (tmp_path / name).write_text(text)
        return refused(lambda: Settings(config_file=tmp_path / name), tmp_path)

    def command(line: str) -> str:
        done = CliRunner().invoke(app, line.split())
        assert isinstance(done.exception, CoevoError)
        return told(done.exception, tmp_path)

    found = {
        "`--coevo.method p2`": flags("--coevo.method p2"),
        "`--coevo.seed` without a value": flags("--coevo.seed --coevo.method stream"),
        "a value for a section: `--coevo.stream 5 --coevo.stream.tau 0.1`": flags(
            "--coevo.stream 5 --coevo.stream.tau 0.1"
        ),
        "a key on the command line": flags("--coevo.reflection.api_key sk-1"),
        "a settings file that is not there": refused(
            lambda: Settings(config_file=tmp_path / "no.yaml"), tmp_path
        ),
        "one that is no TOML": file("broken.toml", "stream = {tau = 0.1"),
        "one with a list at its top": file("list.yaml", "- tau: 0.1\n"),
        "a misspelt name in it": file("coevo.yaml", "stream: {tua: 0.1}\n"),
        "`prompt-coevo presets show p2`": command("presets show p2"),
        "`prompt-coevo demo --quick --budget 400`": command("demo --quick --budget 400"),
    }
    mistakes_table.compare("commands", found)


@pytest.mark.skipif(
    any(is_installed(name) for name in ("trl", "verl", "openrlhf", "torch")),
    reason="a framework is installed here",
)
def test_packages(monkeypatch: pytest.MonkeyPatch) -> None:
    def python(*arguments: str) -> str:
        command = [sys.executable, "-P", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        return done.stderr.splitlines()[-1].split("Error: ")[-1].removeprefix("error: ")

    def settings(**values: Any) -> str:
        return refused(partial(checked, values))

    found = {
        "`from prompt_coevo.adapters.trl import CoevoCallback`": python(
            "-c", "from prompt_coevo.adapters.trl import CoevoCallback"
        ),
        "`python -m prompt_coevo.adapters.openrlhf`": python(
            "-m", "prompt_coevo.adapters.openrlhf"
        ),
        "`import prompt_coevo.adapters.verl.launch`": python(
            "-c", "import prompt_coevo.adapters.verl.launch"
        ),
        "`prompt-coevo demo`": refused(
            lambda: CliRunner().invoke(app, ["demo"], catch_exceptions=False)
        ),
        "`reflection.model = self` without torch": settings(reflection={"model": "self"}),
    }
    # It is installed here.
    monkeypatch.setattr("prompt_coevo.extras.find_spec", lambda package: None)
    found["a model of litellm without it"] = settings(reflection={"model": "openai/gpt-5"})
    mistakes_table.compare("packages", found)


def test_dataset() -> None:
    found = {}
    for mistake, (rows, values) in DATASETS.items():
        found[mistake] = refused(partial(index_columns, rows, Settings(**values)))
    mistakes_table.compare("dataset", found)


def test_reflection(policy: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is called once, before the first step."""
    monkeypatch.setattr(reflection_call, "PAUSE_S", 0.01)
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_API_BASE"):
        monkeypatch.delenv(name, raising=False)

    def begun(base: str | None = None, **changes: Any) -> str:
        reflection = {"model": "openai/gtp-5", "api_key": "sk-nobodys", "api_base": base, **changes}
        values = {name: value for name, value in reflection.items() if value is not None}
        engine = Coevolution.from_settings(Settings(reflection=values))
        said = refused(lambda: engine.begin(policy))
        assert engine.policy_version.step == 0
        return said.replace(base, "ADDRESS") if base else said

    def served(answer: Any, **changes: Any) -> str:
        with openai_server(answer) as server:
            return begun(server.base, **changes)

    no_quota = Raw(
        '{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}',
        429,
    )
    found = {
        "a model that the server does not have": served(404),
        "a key that is refused": served(401),
        "no key": begun(api_key=None),
        "no provider in front of the name: `gtp-5`": begun(model="gtp-5"),
        "an account without quota": served(no_quota),
        "a page in place of an API": served(Raw("<html></html>", content_type="text/html")),
        "a server that is down": begun("http://127.0.0.1:9/v1").replace("127.0.0.1:9", "ADDRESS"),
    }
    mistakes_table.compare("reflection", found)


def test_run() -> None:
    """A dry run reports the problem."""

    def problem(workload: Workload, **values: Any) -> str:
        settings = Settings(reflection={"function": str}, **values)
        page = Coevolution.from_settings(settings).preflight(None, workload)
        (line,) = page.of("problem")
        return line.text

    found = {
        "one epoch with `first_sight` off": problem(
            Workload(100, 8, epochs=1.0, steps=50), stream={"first_sight": False}
        ),
        "`max_steps` below an epoch with `first_sight` off": problem(
            Workload(100, 8, epochs=0.5, steps=25), stream={"first_sight": False}
        ),
        "one epoch, and a search between two": problem(
            Workload(100, 8, epochs=1.0, steps=50), algorithms="p2o"
        ),
        "a search less often than there are steps": problem(
            Workload(100, 8, epochs=2.0, steps=40), algorithms="p2o", p2o={"search_every": 100}
        ),
        "fewer questions than a search needs": problem(
            Workload(50, 8, epochs=3.0, steps=75), algorithms="p2o", p2o={"min_hard": 100}
        ),
    }
    mistakes_table.compare("run", found)


def test_resumed(tmp_path: Path) -> None:
    def engine(questions: str = "abc", **values: Any) -> Coevolution:
        values = {"reflection": {"function": str}, **values}
        return Coevolution.from_settings(Settings(**values), dataset=Dataset.of(list(questions)))

    state = engine().state_dict()

    def resumed(state: dict[str, Any], **values: Any) -> str:
        return refused(lambda: engine(**values).load_state_dict(state))

    found = {
        "another seed": resumed(state, seed=1),
        "another setting of the method: `stream.tau`": resumed(state, stream={"tau": 0.5}),
        "another method": resumed(state, algorithms="inspo", inspo={"instruction": "Think."}),
        "another dataset": resumed(state, questions="abd"),
        "a damaged checkpoint": resumed({**state, "epochs": 7}),
    }
    mistakes_table.compare("resumed", found)


def test_the_table_has_thirty_mistakes_and_each_part_a_test() -> None:
    here = Path(__file__).read_text("utf-8")
    tests = Path(__file__).parents[2]
    there = "".join(
        (tests / adapter / "test_mistakes.py").read_text("utf-8")
        for adapter in ("trl", "verl", "openrlhf")
    )
    parts = mistakes_table.parts()
    for part in parts:
        assert f'mistakes_table.compare("{part}", found)' in here + there
    rows = [row for part in parts for row in mistakes_table.read(part).items()]
    assert len(rows) >= 30
    assert all(said and "\n" not in said for _, said in rows)
