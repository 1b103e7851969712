"""Check the files of runs: nothing is lost, and results measured under other conditions are rejected."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import store
from store import ResultsError, Store, digest, key_of, machine_facts

FOLDER = Path(store.__file__).parent
DIGESTS = {"grpo": "aaa", "stream": "bbb"}


def run(arm: str = "grpo", seed: int = 0) -> dict[str, Any]:
    return {"world": "B", "arm": arm, "seed": seed, "draw": 0, "words": {"w": ["hard", 1, 0.5]}}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    store = Store(tmp_path / "runs.jsonl", "tabular", DIGESTS)
    store.add(run())
    store.add(run("stream"))
    return tmp_path / "runs.jsonl"


def opened(file: Path, **digests: str) -> Store:
    return Store(file, "tabular", {**DIGESTS, **digests})


def test_what_was_added_is_there_again(file: Path) -> None:
    store = opened(file)
    assert [key_of(one) for one in store.runs] == [("B", "grpo", 0, 0), ("B", "stream", 0, 0)]
    assert store.runs[0]["words"] == {"w": ["hard", 1, 0.5]}
    assert store.keys == {("B", "grpo", 0, 0), ("B", "stream", 0, 0)}
    assert store.machines() == [machine_facts()]
    store.add(run("grpo", 1))
    assert len(opened(file).runs) == 3
    assert len(file.read_text().splitlines()) == 1 + 1 + 3  # what it is, one machine, three runs


def test_the_commit_is_recorded_with_what_is_installed_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkout, installed = FOLDER.parents[1], tmp_path / "site-packages" / "prompt_coevo"
    only_code = shutil.ignore_patterns("*.safetensors", "__pycache__")
    shutil.copytree(checkout / "prompt_coevo", installed, ignore=only_code, dirs_exist_ok=True)
    for name in ("adapters", "retrieval"):
        shutil.copytree(checkout / name, installed / name, ignore=only_code, dirs_exist_ok=True)
    git = store._git
    monkeypatch.setattr(store, "_git", lambda *words: git(*words) if words[0] != "status" else "")

    def recorded(package: Path) -> str:
        monkeypatch.setattr(store.prompt_coevo, "__file__", str(package / "__init__.py"))
        file = tmp_path / f"{len(list(tmp_path.iterdir()))}.jsonl"
        return str(Store(file, "tabular", DIGESTS).add(run())["commit"])

    assert re.fullmatch(r"[0-9a-f]{12}", recorded(checkout / "prompt_coevo"))
    assert recorded(installed) == recorded(checkout / "prompt_coevo")
    (installed / "tokens.py").write_text("", "utf-8")
    assert recorded(installed).endswith("-changed")


def test_other_settings_are_refused(file: Path) -> None:
    with pytest.raises(
        ResultsError, match=r"line 4: stream was run with other settings \(bbb, now"
    ):
        opened(file, stream="ccc")


def test_an_arm_that_is_gone_is_refused(file: Path) -> None:
    with pytest.raises(ResultsError, match="there is no arm 'stream' any more"):
        Store(file, "tabular", {"grpo": "aaa"})


def test_what_another_version_measured_counts(file: Path) -> None:
    found = json.loads(file.read_text().splitlines()[2])["version"]
    file.write_text(file.read_text().replace(f'"version":"{found}"', '"version":"0.0.0"'))
    assert len(opened(file).runs) == 2


def test_settings_that_a_replayed_run_proved_to_be_the_same_count(file: Path) -> None:
    digests = {**DIGESTS, "stream": "ccc"}
    assert len(Store(file, "tabular", digests, {"stream": {"bbb": "ccc"}}).runs) == 2
    with pytest.raises(ResultsError, match="with other settings"):
        Store(file, "tabular", digests, {"stream": {"bbb": "ddd"}})
    with pytest.raises(ResultsError, match="with other settings"):
        Store(file, "tabular", digests, {"grpo": {"bbb": "ccc"}})


@pytest.mark.parametrize("missing", [1, 30, 60])
def test_a_file_that_was_cut_off_is_refused(file: Path, missing: int) -> None:
    file.write_text(file.read_text()[:-missing])
    with pytest.raises(ResultsError, match="the last line is cut off"):
        opened(file)


def test_a_damaged_line_is_named(file: Path) -> None:
    lines = file.read_text().splitlines()
    file.write_text("\n".join([*lines[:2], "{", *lines[2:]]) + "\n")
    with pytest.raises(ResultsError, match="line 3: no JSON"):
        opened(file)


def test_another_tier_or_schema_is_refused(file: Path) -> None:
    with pytest.raises(ResultsError, match="line 1: tier tabular, not transformer; give another"):
        Store(file, "transformer", DIGESTS)


def test_a_run_without_its_key_is_refused(file: Path) -> None:
    text = file.read_text().replace('"seed":0,', "", 1)
    file.write_text(text)
    with pytest.raises(ResultsError, match="the run lacks seed"):
        opened(file)


def test_a_run_that_is_there_twice_is_refused(file: Path) -> None:
    file.write_text(file.read_text() + file.read_text().splitlines()[-1] + "\n")
    with pytest.raises(ResultsError, match="is there twice"):
        opened(file)


def test_a_hash_changes_with_the_value_and_with_nothing_else() -> None:
    assert digest({"a": 1, "b": [2]}) == digest({"b": [2], "a": 1})
    assert digest({"a": 1}) != digest({"a": 2})


@pytest.mark.parametrize("line", ["[]", "null", "3"])
def test_a_line_that_is_no_object_is_named(file: Path, line: str) -> None:
    file.write_text(file.read_text() + f"{line}\n")
    with pytest.raises(ResultsError, match="line 5: no JSON object"):
        opened(file)


def test_a_file_that_is_no_text_is_refused(file: Path) -> None:
    file.write_bytes(b"\xff\n")
    with pytest.raises(ResultsError, match=r"runs\.jsonl cannot be read"):
        opened(file)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["run", "tabular", "--arms", ""], "error: there is no arm ''; the tier tabular has grpo"),
        (["run", "tabular", "--seeds", "-1"], "argument --seeds: '-1' is no number above 0"),
        (["run", "tabular", "--jobs", "0"], "argument --jobs: '0' is no number above 0"),
        (["render", "--json", "nowhere.jsonl"], "error: nowhere.jsonl: there is no such file"),
    ],
)
def test_a_command_with_values_that_cannot_be_meant_runs_nothing(
    arguments: list[str], said: str, tmp_path: Path
) -> None:
    failed = subprocess.run(
        [sys.executable, str(FOLDER), *arguments],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (failed.returncode, failed.stdout) == (2, "")
    assert said in failed.stderr
    assert "Traceback" not in failed.stderr
