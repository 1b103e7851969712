"""Check that a run's files name its settings, and that a checkpoint resumes the same run."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

from helpers.searches import SMALL_SEARCH
from prompt_coevo import Coevolution, Settings
from prompt_coevo.engine.identity import Dataset
from prompt_coevo.errors import HostError, SettingsError, StateError

SIX = Dataset.of([f"q{n}" for n in range(6)])


def engine(folder: Path | None = None, dataset: Dataset = SIX, **changes: Any) -> Coevolution:
    values: dict[str, Any] = {
        "algorithms": "p2o",
        "p2o": SMALL_SEARCH,
        "reflection": {"function": str},
    }
    return Coevolution.from_settings(
        Settings(**{**values, **changes}), output_dir=folder, dataset=dataset, host="trl 1.8"
    )


def events(folder: Path, name: str) -> list[dict[str, Any]]:
    lines = (folder / "coevo" / "events.jsonl").read_text().splitlines()
    return [event for event in map(json.loads, lines) if event["event"] == name]


def test_the_first_event_says_what_runs(policy: Any, tmp_path: Path) -> None:
    engine(tmp_path, seed=7).begin(policy)
    (begins,) = events(tmp_path, "run_begins")
    assert begins["settings"]["seed"] == 7
    assert begins["settings"]["p2o.dev_size"] == SMALL_SEARCH["dev_size"]
    assert begins["settings"]["dataset.questions"] == 6
    assert begins["noted"]["host"] == "trl 1.8"
    assert begins["noted"]["versions.prompt-coevo"]
    assert begins["noted"]["reflection.function"] == "builtins.str"


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seed": 1}, "seed was 0 and is 1"),
        ({"p2o": {**SMALL_SEARCH, "tau": 0.1}}, "p2o.tau was"),
        ({"dataset": Dataset.of(["q0"])}, "dataset.questions was 6 and is 1"),
        ({"dataset": Dataset.of([f"r{n}" for n in range(6)])}, "dataset.fingerprint was"),
        ({"context_distillation": False}, "context_distillation was True and is False"),
        ({"placement": {"instruction": "prefix"}}, "placement.instruction was"),
    ],
)
def test_a_checkpoint_of_another_run_is_refused_with_what_differs(
    change: dict[str, Any], told: str
) -> None:
    state = engine().state_dict()
    with pytest.raises(StateError, match=told) as refused:
        engine(**change).load_state_dict(state, "checkpoint-3")
    assert 'resume = "force"' in str(refused.value)


def test_a_run_goes_on_with_another_dataset(
    policy: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Its checkpoints and its call account then belong to the new dataset."""
    other = Dataset.of(["q0"])
    run = engine(tmp_path)
    run.begin(policy)
    run.dataset_replaced(other)
    (told,) = events(tmp_path, "dataset_replaced")
    assert told["differences"][1] == "dataset.questions was 6 and is 1"
    assert "the training dataset has changed: dataset.fingerprint was" in caplog.text
    state = run.state_dict()
    engine(dataset=other).load_state_dict(state)
    with pytest.raises(StateError, match="dataset.questions was 1 and is 6"):
        engine().load_state_dict(state)
    ledger = [
        json.loads(line) for line in (tmp_path / "coevo/calls.jsonl").read_text().splitlines()
    ]
    first, second = (line for line in ledger if line["event"] == "run")
    assert second["continues"] == first["run"] != second["run"]


def test_force_names_what_it_accepts(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    state = engine().state_dict()
    engine(tmp_path, seed=5, resume="force").load_state_dict(state)
    (accepted,) = events(tmp_path, "resumed_as_another_run")
    assert accepted["differences"] == ["seed was 0 and is 5"]
    assert "resumed as another run: seed was 0 and is 5" in caplog.text


def test_what_changes_no_meaning_is_noted(tmp_path: Path) -> None:
    state = engine().state_dict()
    engine(tmp_path, reflection={"function": len, "max_example_tokens": 99}).load_state_dict(state)
    (resumed,) = events(tmp_path, "resumed")
    assert "reflection.max_example_tokens was 2000 and is 99" in resumed["changed"]
    assert "reflection.function was 'builtins.str' and is 'builtins.len'" in resumed["changed"]


def test_the_order_of_the_rows_is_no_meaning() -> None:
    assert Dataset.of(["b", "a"]) == Dataset.of(["a", "b"]) != Dataset.of(["a", "c"])


def in_another_process(folder: Path, then: str = "") -> subprocess.CompletedProcess[str]:
    script = f"""
        from pathlib import Path
        from prompt_coevo import Coevolution, Settings
        from prompt_coevo.engine import run_lock
        run_lock._PATIENCE_S = 0.5
        engine = Coevolution.from_settings(Settings(algorithms=()), output_dir=Path({str(folder)!r}))
        print(engine.policy_version.attempt)
        {then}
    """
    return subprocess.run(
        [sys.executable, "-P", "-c", textwrap.dedent(script)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_a_second_process_is_kept_out_of_the_folder_and_told_whose_it_is(tmp_path: Path) -> None:
    engine(tmp_path)
    refused = in_another_process(tmp_path)
    assert "SettingsError: another run writes into" in refused.stderr
    assert "process " in refused.stderr
    assert "give the trainer another output directory" in refused.stderr


def test_two_folders_with_one_ledger_are_one_run(tmp_path: Path) -> None:
    """One after the other they have one account, but never at once: each would count its own calls."""
    folders = [tmp_path / name for name in ("a", "b")]
    (tmp_path / "shared").mkdir()
    for folder in folders:
        (folder / "coevo").mkdir(parents=True)
        (folder / "coevo" / "calls.jsonl").symlink_to(tmp_path / "shared" / "calls.jsonl")
    engine(folders[0])
    refused = in_another_process(folders[1])
    assert f"another run writes into {tmp_path / 'shared'}" in refused.stderr


def test_a_killed_process_leaves_no_lock(tmp_path: Path) -> None:
    killed = in_another_process(tmp_path, "import os; os.kill(os.getpid(), 9)")
    assert killed.returncode == -9
    assert engine(tmp_path).policy_version.attempt >= 0


FORKS = """
if os.fork() == 0:
    run_lock._PATIENCE_S = 0.5
    try:
        build(folder)
    except SettingsError as error:
        print("refused:", error, flush=True)
    os._exit(0)
os.wait()
"""
OUTLIVED = """
if os.fork() == 0:
    if os.fork() == 0:
        os.close(0), os.close(1), os.close(2)
        time.sleep(30)
        os._exit(0)
    os._exit(0)
os.wait()
"""
IN_ANOTHER_PROCESS = """
subprocess.run([sys.executable, "-P", "-c", again, str(folder), ""], check=False)
"""
IN_A_HOLDER = """
import os, shutil, subprocess, sys, time
from pathlib import Path
from prompt_coevo import Coevolution, Settings
from prompt_coevo.engine import run_lock
from prompt_coevo.errors import SettingsError

def build(folder):
    Coevolution.from_settings(Settings(algorithms=()), output_dir=folder)

folder, then = Path(sys.argv[1]), sys.argv[2]
again = "from pathlib import Path; import sys; from prompt_coevo.engine import run_lock; " \
    "run_lock._PATIENCE_S = 0.5; run_lock.hold(Path(sys.argv[1]) / 'coevo')"
build(folder)
exec(then)
"""


def in_a_holder(folder: Path, then: str) -> subprocess.CompletedProcess[str]:
    """Return the output of a process that builds an engine in the folder and runs `then`."""
    return subprocess.run(
        [sys.executable, "-P", "-c", IN_A_HOLDER, str(folder), then],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


@pytest.mark.parametrize(
    "before",
    [
        "(folder / 'coevo' / 'lock').read_text()",
        "shutil.copytree(folder, f'{folder}-copy')",
        "shutil.rmtree(folder / 'coevo'); build(folder)",
        "build(folder)",
        "os.fork() or os._exit(0); os.wait()",
        FORKS,
    ],
)
def test_nothing_that_a_process_does_frees_its_lock(before: str, tmp_path: Path) -> None:
    done = in_a_holder(tmp_path / "run", f"{before}\n{IN_ANOTHER_PROCESS}")
    assert done.returncode == 0
    assert "SettingsError: another run writes into" in done.stderr


def test_a_forked_process_is_another_one(tmp_path: Path) -> None:
    done = in_a_holder(tmp_path, FORKS)
    assert done.stdout.startswith("refused: another run writes into")


def test_a_forked_process_that_lives_on_holds_no_lock(tmp_path: Path) -> None:
    assert in_a_holder(tmp_path, OUTLIVED).returncode == 0
    assert in_another_process(tmp_path).returncode == 0


def test_a_process_may_build_its_trainer_twice(tmp_path: Path) -> None:
    first, second = engine(tmp_path), engine(tmp_path)
    assert first.settings == second.settings


def test_two_runs_of_a_process_cannot_share_a_folder(tmp_path: Path, policy: Any) -> None:
    """The first run ends; a run whose trainer is rebuilt after an interruption continues."""
    first, second, elsewhere = (engine(one) for one in (tmp_path, tmp_path, tmp_path / "other"))
    question = policy.question_ids()[0]
    for run in (first, elsewhere, second):
        run.begin(policy)
        run.plan([question], 4)
    elsewhere.plan([question], 4)
    with pytest.raises(HostError, match="another trainer of this process has begun") as refused:
        first.plan([question], 4)
    assert "\n" not in str(refused.value)
    second.plan([question], 4)
    second.end(policy)
    first.begin(policy)
    first.plan([question], 4)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({}, False),
        ({"seed": 7}, True),
        ({"dataset": Dataset.of(["another"])}, True),
        ({"reflection": {"function": str, "max_calls": 9}}, False),
    ],
)
@pytest.mark.parametrize("ended", [True, False])
def test_a_new_experiment_in_an_old_folder_is_said(
    tmp_path: Path, policy: Any, caplog: Any, change: dict[str, Any], said: bool, ended: bool
) -> None:
    old = engine(tmp_path)
    old.begin(policy)
    if ended:
        old.end(policy)
    caplog.clear()
    engine(tmp_path, **change).begin(policy)
    assert ("has the files of an earlier run" in caplog.text) is said
    assert len(events(tmp_path, "folder_of_another_run")) == said


def test_a_resumed_run_says_nothing_of_its_own_folder(
    tmp_path: Path, policy: Any, caplog: Any
) -> None:
    old = engine(tmp_path)
    old.begin(policy)
    again = engine(tmp_path, seed=7, resume="force")
    again.load_state_dict(old.state_dict())
    again.begin(policy)
    assert "has the files of an earlier run" not in caplog.text


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "coevo").write_text("a file in its place")
    with pytest.raises(SettingsError, match=r"coevo cannot be written to"):
        engine(tmp_path)


def test_another_function_is_asked_anew(tmp_path: Path, policy: Any) -> None:
    """The replies in the ledger belong to the other function."""
    asked: list[str] = []

    def other(prompt: str) -> str:
        asked.append(prompt)
        return ""

    for function in (str, other):
        run = engine(tmp_path, reflection={"function": function})
        run.begin(policy)
        run.context.language_model().complete(["a prompt"])
    assert asked == ["a prompt"]
