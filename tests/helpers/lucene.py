"""Run the real Lucene, and provide real texts: man pages in four languages and WordNet's glosses.

Lucene is in Anserini's jar, in the wheel `pyserini` on PyPI; `Lucene.java` is beside this file. The texts
are Debian packages, unpacked without being installed. What is downloaded (160 MB) is kept in
`$COEVO_ENVDIR/lucene`, else in the user's cache.
"""

from __future__ import annotations

import gzip
import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Final

CACHE: Final = (
    Path(os.environ.get("COEVO_ENVDIR") or Path.home() / ".cache/prompt-coevo") / "lucene"
)
PROGRAM: Final = Path(__file__).with_name("Lucene.java")
WHEEL, JAR = "pyserini==0.22.1", "anserini-0.22.1-fatjar.jar"
JAR_SHA256: Final = "7e899283667465ce3531117932d9b859324cf3dd46de574b5ea5dfa2b627f322"
MAN_PAGES: Final = {"en": "manpages", "de": "manpages-de", "fr": "manpages-fr", "ja": "manpages-ja"}
# One thread, and no more memory than Lucene needs.
JAVA: Final = ("java", "-Xmx512m", "-XX:+UseSerialGC", "-XX:ActiveProcessorCount=1")


class Unavailable(Exception):
    """The machine has no JDK, or something cannot be downloaded."""


def lucene(*arguments: str | Path, lines: Iterable[str]) -> list[str]:
    """Run `Lucene.java`, give it `lines` to read, and return the lines that it prints."""
    path = os.pathsep.join((str(jar()), str(_compiled())))
    command = [*JAVA, "-cp", path, "Lucene", *map(str, arguments)]
    with tempfile.TemporaryFile("w+", encoding="utf-8") as file:
        file.writelines(f"{line}\n" for line in lines)
        file.seek(0)
        run = subprocess.run(
            command, stdin=file, stdout=subprocess.PIPE, encoding="utf-8", check=True
        )
    return run.stdout.split("\n")[:-1]


@cache
def _compiled() -> Path:
    """Compile `Lucene.java`, which takes longer than most runs of it, once for each version of it."""
    if not shutil.which("javac"):
        raise Unavailable("Lucene needs a JDK, 17 or newer: there is no javac on the PATH")
    folder = CACHE / f"classes-{hashlib.sha256(PROGRAM.read_bytes()).hexdigest()[:12]}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=CACHE) as work:
            command = ["javac", "-cp", str(jar()), "-d", f"{work}/classes", str(PROGRAM)]
            subprocess.run(command, check=True)
            Path(work, "classes").rename(folder)
    return folder


@cache
def jar() -> Path:
    """Return the path of Anserini's jar; download it the first time."""
    path = CACHE / JAR
    if not path.exists():
        _install(["uv", "pip", "install", "--python", sys.executable])
        _install(["pip", "install"])
    if not path.exists():
        raise Unavailable(f"Lucene's jar is missing: neither uv nor pip could install {WHEEL}")
    with path.open("rb") as file:
        if hashlib.file_digest(file, "sha256").hexdigest() != JAR_SHA256:
            raise ValueError(f"{path} is not the file in {WHEEL}: delete it")
    return path


def _install(command: Sequence[str]) -> None:
    """Install the wheel in a folder without what it requires, and keep the jar."""
    if (CACHE / JAR).exists() or not shutil.which(command[0]):
        return
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as folder:
        wanted = [*command, "--no-deps", "--no-cache", "--target", folder, WHEEL]
        if subprocess.run(wanted, capture_output=True, check=False).returncode == 0:
            found = Path(folder) / "pyserini/resources/jars" / JAR
            found.rename(CACHE / JAR)


@cache
def unpacked(package: str) -> Path:
    """Return the folder of an unpacked Debian package; download it the first time."""
    folder = CACHE / package
    if folder.exists():
        return folder
    CACHE.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=CACHE) as work:
        try:
            told = {"cwd": work, "capture_output": True, "check": True}
            subprocess.run(["apt-get", "download", package], **told)  # type: ignore[call-overload]
            (file,) = Path(work).glob("*.deb")
            subprocess.run(["dpkg", "-x", file, "files"], **told)  # type: ignore[call-overload]
        except (OSError, subprocess.CalledProcessError) as error:
            raise Unavailable(f"apt-get cannot download the package {package}") from error
        (Path(work) / "files").rename(folder)
    return folder


@cache
def man_paragraphs(language: str) -> list[str]:
    """Return the paragraphs of all man pages of a language, each once, crudely without markup."""
    folder = unpacked(MAN_PAGES[language]) / "usr/share/man"
    files = sorted((folder / language if language != "en" else folder).glob("man*/*.gz"))
    pages = (gzip.decompress(file.read_bytes()).decode("utf-8", "replace") for file in files)
    return list(dict.fromkeys(text for page in pages for text in _paragraphs(page)))


_NEW_PARAGRAPH: Final = re.compile(r"^[.'](?:[PLTI]?P|S[HS]|sp|br|nf|fi|TQ)\b.*$", re.MULTILINE)
_MACRO: Final = re.compile(r"^[.'][ \t]*(?:\\\".*|(?:[BIR]{1,2}|SM|SB)\b|.*$)", re.MULTILINE)
_ESCAPE: Final = re.compile(r"\\(?:f(?:\[\w*\]|\(..|.)|s[-+]?\d|m?\[[^\]]*\]|\((..)|(.))")
_CHARACTERS: Final = {
    "aq": "'",
    "co": "©",
    "em": "—",
    "oq": "‘",
    "cq": "’",
    "e": "\\",
    "-": "-",
    " ": " ",
}


def _paragraphs(page: str) -> Iterator[str]:
    for part in _NEW_PARAGRAPH.split(page):
        text = _ESCAPE.sub(
            lambda found: _CHARACTERS.get(found[1] or found[2], ""), _MACRO.sub("", part)
        )
        if len(words := text.split()) > 3 or len(text) > 40:
            yield " ".join(words)


_EXAMPLE: Final = re.compile(r';? *"([^"]+)"')


@cache
def wordnet() -> tuple[list[str], list[tuple[str, int]]]:
    """Return all synsets, as "words: gloss", and example sentences, each with the row of its synset.

    Examples are not part of a gloss.
    """
    folder = unpacked("wordnet-base") / "usr/share/wordnet"
    texts, examples = [], []
    for part in ("noun", "verb", "adj", "adv"):
        for line in (folder / f"data.{part}").read_text("utf-8").splitlines():
            if line.startswith(" "):  # the licence
                continue
            fields, _, gloss = line.partition(" | ")
            numbers = fields.split()
            words = [
                word.replace("_", " ") for word in numbers[4 : 4 + 2 * int(numbers[3], 16) : 2]
            ]
            examples += [(found, len(texts)) for found in _EXAMPLE.findall(gloss)]
            texts.append(f"{', '.join(words)}: {_EXAMPLE.sub('', gloss).rstrip(' ;')}")
    return texts, examples
