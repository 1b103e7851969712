"""Check the frozen import rules, and that the wheel contains what is in the tree."""

from __future__ import annotations

import ast
import re
import runpy
import subprocess
import sys
import tomllib
from collections.abc import Collection, Sequence
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from prompt_coevo import registry

ROOT = Path(__file__).parents[2]
PACKAGES = (
    ("prompt_coevo", "prompt_coevo"),
    ("adapters", "prompt_coevo.adapters"),
    ("retrieval", "prompt_coevo.retrieval"),
)
HEAVY = (
    "torch",
    "litellm",
    "transformers",
    "trl",
    "verl",
    "openrlhf",
    "numpy",
    "pydantic",
    "pluggy",
)

# Lower floors never import higher ones. The files beside the folders are the words, the ground floor.
FLOORS = (
    "words",
    "settings",
    "candidates",
    "reflection",
    "algorithms",
    "preflight",
    "engine",
    "report",
    "retrieval",
    "adapters",
    "testing",
    "demo",
    "smoke",
    "testing",
    "cli",
    "testing",
)
LONGEST_FILE = 400
RETRIEVAL_FLOORS = ("words", "bm25", "dense", "index", "client", "chroma", "server", "agent")


def loaded_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(' '.join(sorted(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-P", "-c", code], capture_output=True, text=True, check=True
    )
    return set(run.stdout.split())


def test_importing_the_package_loads_nothing_heavy() -> None:
    assert not loaded_after("import prompt_coevo") & set(HEAVY)


def test_the_engine_needs_neither_torch_nor_a_framework() -> None:
    loaded = loaded_after("from prompt_coevo import Coevolution, Settings; Coevolution")
    assert not loaded & {"torch", "litellm", "transformers", "trl", "verl", "openrlhf"}


def test_the_trackers_read_the_journal_without_what_draws_the_page() -> None:
    loaded = loaded_after(
        "import prompt_coevo.adapters.common.trackers.texts, prompt_coevo.report.reading"
    )
    assert not loaded & {"jinja2", "markupsafe", "matplotlib", "torch"}


def test_the_search_agents_protocol_needs_nothing_heavy() -> None:
    loaded = loaded_after(
        "import prompt_coevo.retrieval.agent.episode, prompt_coevo.retrieval.agent.scoring"
    )
    assert not loaded & {*HEAVY, "faiss", "aiohttp", "starlette"}


def test_the_public_names_are_there() -> None:
    import prompt_coevo

    for name in prompt_coevo.__all__:
        assert getattr(prompt_coevo, name) is not None
    assert set(prompt_coevo.__all__) <= set(dir(prompt_coevo))
    with pytest.raises(AttributeError, match="no attribute 'Coevo'"):
        prompt_coevo.Coevo  # noqa: B018


def sources() -> dict[str, Path]:
    """Return every module of the package, by its dotted name."""
    found = {}
    for folder, package in PACKAGES:
        for path in sorted((ROOT / folder).rglob("*.py")):
            parts = path.relative_to(ROOT / folder).with_suffix("").parts
            found[".".join([package, *parts]).removesuffix(".__init__")] = path
    return found


def imported_modules(path: Path, known: Collection[str]) -> set[str]:
    """Return the package's modules that a file imports on load (not lazily, not only for types)."""
    tree = ast.parse(path.read_text("utf-8"))
    late = {
        id(child)
        for node in ast.walk(tree)
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
        or (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
        for child in ast.walk(node)
    }
    names = set()
    for node in ast.walk(tree):
        if id(node) in late:
            continue
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            names |= (inner & set(known)) or {node.module}
    return names & set(known)


def test_the_package_imports_nothing_that_is_not_in_the_wheel() -> None:
    """Covers the modules of benchmarks, docs/examples and tests, which a checkout could import."""
    beside = {
        path.stem if path.suffix == ".py" else path.name
        for folder in ("benchmarks", "docs/examples", "tests")
        for path in (ROOT / folder).iterdir()
    }
    for module, path in sources().items():
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = (
                [node.module or ""] if isinstance(node, ast.ImportFrom) and not node.level else []
            )
            names += [one.name for one in node.names] if isinstance(node, ast.Import) else []
            for name in names:
                top = name.partition(".")[0]
                assert top not in beside - set(HEAVY), (
                    f"{module} imports {name}, which is in no wheel"
                )


def place(module: str, top: str, floors: Sequence[str]) -> int:
    """Return the layer of a module below `top`; files in no folder belong to the lowest."""
    folder = module.removeprefix(f"{top}.").split(".")[0]
    return floors.index(folder) if folder in floors else 0


@pytest.mark.parametrize(
    ("top", "floors"),
    [("prompt_coevo", FLOORS), ("prompt_coevo.retrieval", RETRIEVAL_FLOORS)],
)
def test_lower_floors_do_not_import_higher_ones(top: str, floors: Sequence[str]) -> None:
    modules = {name: path for name, path in sources().items() if name.startswith(f"{top}.")}
    for module, path in modules.items():
        for imported in imported_modules(path, modules):
            assert place(imported, top, floors) <= place(module, top, floors), (
                f"{module} imports {imported}, which stands above it"
            )


def test_an_adapter_imports_what_all_share_and_nothing_of_another() -> None:
    modules = {name: path for name, path in sources().items() if ".adapters." in name}
    folders = {name: name.split(".")[2] for name in modules}
    assert set(folders.values()) == {"common", "openrlhf", "trl", "verl"}
    for module, path in modules.items():
        for imported in imported_modules(path, modules):
            assert folders[imported] in ("common", folders[module]), f"{module} imports {imported}"


def test_every_folder_is_a_floor() -> None:
    for top, floors in (("prompt_coevo", FLOORS), ("prompt_coevo.retrieval", RETRIEVAL_FLOORS)):
        packages = {name for name, path in sources().items() if path.name == "__init__.py"}
        folders = {
            name.removeprefix(f"{top}.").split(".")[0]
            for name in packages
            if name.startswith(f"{top}.")
        }
        assert folders <= set(floors)


def test_the_map_has_every_folder_and_file_that_it_names() -> None:
    text = (ROOT / "docs" / "map.md").read_text("utf-8")
    rows = re.findall(r"^\| `(\w+)/` \|", text, re.M)
    here = {path.name for path in (ROOT / "prompt_coevo").iterdir() if path.is_dir()}
    assert set(rows) == here - {"__pycache__"}
    begin = text.split("## Where to go")[1]
    for name in re.findall(r"`([\w/]+\.(?:py|md))`", begin):
        places = [ROOT / name, ROOT / "prompt_coevo" / name]
        assert any(place.exists() for place in places), f"the map names {name}, which is not there"


def test_no_file_is_too_long_to_read_in_one_go() -> None:
    lengths = {name: len(path.read_text("utf-8").splitlines()) for name, path in sources().items()}
    assert {name: length for name, length in lengths.items() if length > LONGEST_FILE} == {}


def test_no_modules_import_each_other_in_a_circle() -> None:
    modules = sources()
    graph = {name: imported_modules(path, modules) for name, path in modules.items()}
    TopologicalSorter(graph).prepare()  # raises CycleError, which names the circle


def test_no_folders_import_each_other_in_a_circle() -> None:
    """Lazy imports count too: only a package's lazy names may point upwards."""
    counts = runpy.run_path(str(ROOT / "tools" / "count_house.py"))["counts"]
    assert counts(ROOT)["circle of rooms"] == []


def test_no_file_outside_a_methods_folder_makes_a_case_for_it() -> None:
    """No file may refer to the method by its name, one of its settings, or its section's field."""
    methods = {path.name for path in (ROOT / "prompt_coevo" / "algorithms").iterdir()}
    methods &= set(registry.names("methods"))
    assert methods == {"hints", "inspo", "p2o", "stream"}
    allowed = {"algorithms", "demo", "smoke", "registry", "removed"}
    found = []
    for module, path in sources().items():
        if module.partition(".")[2].split(".")[0] in allowed:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            text = getattr(node, "value", None) if isinstance(node, ast.Constant) else None
            named = isinstance(text, str) and re.split(r"[.=]", text)[0] in methods
            if named or (isinstance(node, ast.Attribute) and node.attr in methods):
                found.append(f"{module}: {ast.unparse(node)}")
    assert found == []


def test_every_package_is_in_the_wheel() -> None:
    config = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["setuptools"]
    found = set()
    for folder, name in PACKAGES:
        for path in (ROOT / folder).rglob("*"):
            if path.suffix in (".py", ".toml"):
                parts = path.parent.relative_to(ROOT / folder).parts
                found.add(".".join([name, *parts]))
    assert found == set(config["packages"])


def test_data_files_are_in_the_wheel() -> None:
    import prompt_coevo

    package = Path(prompt_coevo.__file__).parent
    for name in (
        "py.typed",
        "presets/p2o.toml",
        "reflection/proposers/propose_improvement.md",
        "demo/base/model.safetensors",
        "demo/base/tokenizer.json",
    ):
        assert (package / name).is_file(), name
