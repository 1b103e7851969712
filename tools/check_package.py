"""Check a wheel and a source distribution before they are published.

    python tools/check_package.py FOLDER DIRECT      which tools/build_package.py has filled

One line for each problem, and exit status 1.
"""

from __future__ import annotations

import re
import sys
import tarfile
import tomllib
import zipfile
from collections.abc import Iterator, Mapping
from email import message_from_bytes
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
Contents = Mapping[str, bytes]

UNWANTED = re.compile(
    r"(^|/)(__pycache__|\.git|\.nox|\.venv|\.env|\.netrc|\.pypirc|id_rsa|node_modules|runs|\.[a-z]+_cache)(/|$)"
    r"|\.(pyc|pyo|swp|orig|rej|log)$"
)
SECRET = re.compile(
    rb"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bAKIA[0-9A-Z]{16}\b|\bghp_[A-Za-z0-9]{36}\b|\bhf_[A-Za-z]{34}\b"
    rb"|\bsk-(?:proj-|ant-)?[A-Za-z0-9_]{32,}|\bpypi-AgEI[\w-]{20,}"
)
RELATIVE_LINK = re.compile(
    r"\]\((?!https?://|#|mailto:)([^)]*)\)|(?:src|href)=\"(?!https?://|#)([^\"]*)\""
)
METADATA = {"METADATA", "RECORD", "WHEEL", "entry_points.txt", "licenses/LICENSE", "top_level.txt"}


def main(folder: Path, direct_folder: Path) -> int:
    (wheel,), (sdist,), (direct,) = (
        *(folder.glob(kind) for kind in ("*.whl", "*.tar.gz")),
        direct_folder.glob("*.whl"),
    )
    ours = {name: path.read_bytes() for name, path in mapped(ROOT).items()}
    sources = {path.relative_to(ROOT).as_posix(): ours[name] for name, path in mapped(ROOT).items()}
    problems = [
        *of_wheel(unzipped(wheel), ours, version(ROOT)),
        *of_sdist(untarred(sdist), sources),
        *apart(unzipped(wheel), unzipped(direct)),
    ]
    for problem in problems:
        print(f"error: {problem}", file=sys.stderr)
    if not problems:
        sizes = ", ".join(f"{one.name} {one.stat().st_size / 1e6:.1f} MB" for one in (wheel, sdist))
        print(
            f"{len(unzipped(wheel))} files in the wheel, {len(untarred(sdist))} in the sources: {sizes}"
        )
    return 1 if problems else 0


def unzipped(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def untarred(sdist: Path) -> dict[str, bytes]:
    """Return the files without the top folder."""
    with tarfile.open(sdist) as archive:
        files = [one for one in archive.getmembers() if one.isfile()]
        return {one.name.partition("/")[2]: archive.extractfile(one).read() for one in files}  # type: ignore[union-attr]


def version(root: Path) -> str:
    """Return the version from the only place that defines it."""
    text = (root / "prompt_coevo" / "__init__.py").read_text("utf-8")
    found = re.search(r'^__version__ = "(.*)"$', text, re.MULTILINE)
    assert found, "prompt_coevo/__init__.py names no version"
    return found[1]


def mapped(root: Path) -> dict[str, Path]:
    """Return the package's files in this checkout, by their names in the wheel."""
    setup = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    found = {}
    for package, folder in setup["package-dir"].items():
        for path in sorted((root / folder).rglob("*")):
            inner = path.relative_to(root / folder).as_posix()
            if path.is_file() and not UNWANTED.search(inner):
                found[f"{package.replace('.', '/')}/{inner}"] = path
    return found


def of_wheel(wheel: Contents, ours: Contents, wanted_version: str) -> Iterator[str]:
    """Yield the problems of a wheel whose package has the files `ours`."""
    inside = re.compile(r"[^/]+\.dist-info/(.*)")
    metadata = {found[1]: data for name, data in wheel.items() if (found := inside.fullmatch(name))}
    code = {name: data for name, data in wheel.items() if not inside.fullmatch(name)}
    for name in sorted(ours.keys() - code.keys()):
        yield f"the wheel lacks {name}; see packages and package-data in pyproject.toml"
    for name in sorted(code.keys() - ours.keys()):
        yield f"the wheel has {name}, which is no file of the package"
    for name in sorted(code.keys() & ours.keys()):
        if code[name] != ours[name]:
            yield f"{name} is another one in the wheel"
    for name in sorted(METADATA ^ metadata.keys()):
        yield f"the wheel's metadata {'lack' if name in METADATA else 'have'} {name}"
    yield from _secrets(wheel, "the wheel")
    if "METADATA" in metadata:
        yield from _of_metadata(metadata["METADATA"], wanted_version)


def _of_metadata(text: bytes, wanted_version: str) -> Iterator[str]:
    read = message_from_bytes(text)
    if read["Version"] != wanted_version:
        yield f"the wheel says version {read['Version']}, prompt_coevo.__version__ is {wanted_version}"
    for name in ("License-Expression", "Requires-Python", "Summary", "Description-Content-Type"):
        if not read[name]:
            yield f"the wheel's metadata have no {name}"
    for requirement in read.get_all("Requires-Dist", []):
        if " @ " in requirement:
            yield f"the wheel requires {requirement}, which an index refuses"
    for found in RELATIVE_LINK.finditer(str(read.get_payload())):
        yield f"the page of the package links to {found[1] or found[2]!r}, which is not there"


def of_sdist(sdist: Contents, sources: Contents) -> Iterator[str]:
    """Yield the problems of a source distribution made from `sources`."""
    for name, data in sources.items():
        if sdist.get(name) != data:
            yield f"the source distribution {'has another' if name in sdist else 'lacks'} {name}"
    for name in (
        "LICENSE",
        "README.md",
        "docs/index.md",
        "tests/conftest.py",
        "dev.py",
        "noxfile.py",
    ):
        if name not in sdist:
            yield f"the source distribution lacks {name}; see MANIFEST.in"
    for name in sorted(filter(UNWANTED.search, sdist)):
        yield f"the source distribution has {name}, which belongs to nobody else"
    yield from _secrets(sdist, "the source distribution")


def _secrets(contents: Contents, where: str) -> Iterator[str]:
    for name, data in contents.items():
        if SECRET.search(data):
            yield f"{where} has what looks like a key, in {name}"


def apart(one: Contents, other: Contents) -> Iterator[str]:
    """Yield the differences between the wheel from the source distribution and the one without it."""
    for name in sorted(one.keys() | other.keys()):
        if one.get(name) != other.get(name):
            yield f"{name} is not the same in the wheels with and without the source distribution between"


if __name__ == "__main__":
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    raise SystemExit(main(Path(sys.argv[1]), Path(sys.argv[2])))
