"""Write the results of resolving and using the extras: a file of results and docs/installed-versions.md."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parent.parent
FILE: Final = ROOT / "benchmarks" / "results" / "extras.json"
PAGE: Final = ROOT / "docs" / "installed-versions.md"
SHOWN: Final = (
    *("trl", "verl", "openrlhf", "vllm", "torch", "transformers", "ray", "litellm"),
    *("faiss-cpu", "faiss-gpu", "jinja2", "matplotlib"),
)
"""The packages on the page; the rest is in the file."""

HEAD: Final = """# Which versions an extra brings

What a resolver chose for `prompt-coevo[EXTRA]` of the built wheel, on Linux x86_64 with Python 3.11,
without any constraint but those of the packages; and what was done with the extra after it was
installed. The ranges are in `pyproject.toml`, what the tests run with is in `constraints/`
([supply chain](supply-chain.md)); everything that was chosen is in `benchmarks/results/extras.json`.
Made by

```bash
python dev.py nox -s extras                  # resolve every extra, install and use what fits a CPU
python dev.py nox -s extras -- retrieval     # or one
```
"""
RESOLVED: Final = """
## Resolved

Nothing is installed here; `+` joins extras of one environment. The torch that is chosen is the
index's own, for CUDA. VeRL and OpenRLHF name one version of vLLM each, which is not always the newest
that TRL works with: with them, take `verl[vllm]` or `openrlhf[vllm]` in place of `prompt-coevo[vllm]`.
`+cpu` is a build that lay on the machine, where pip found it. The seconds are of two busy cores.
"""
USED: Final = """
## Installed and used

The built wheel with this extra in an environment of its own, with the newest versions that fit and the
CPU build of torch (`constraints/torch.txt`), and then a script from `tools/uses/`, which sees nothing of
the checkout. `verl` and `openrlhf` are used by their tests, in the versions of `constraints/`, the latter
without flash-attn; `vllm` needs a GPU and was resolved only.
"""


def known(part: str) -> dict[str, Any]:
    """Return this part of the file."""
    data: dict[str, dict[str, Any]] = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    return data.get(part, {})


def remember(part: str, name: str, found: Mapping[str, Any] | str) -> None:
    """Store the result, and rewrite the page."""
    data = json.loads(FILE.read_text("utf-8")) if FILE.exists() else {}
    data.setdefault(part, {})[name] = found
    FILE.write_text(json.dumps(data, indent=1) + "\n", "utf-8")
    PAGE.write_text(page(data), "utf-8")


def page(data: Mapping[str, Any]) -> str:
    """Return the page of these results."""
    tools = ", ".join(f"{name} {version}" for name, version in data.get("with", {}).items())
    rows = ["| extra | uv | pip |", "|---|---|---|"]
    for name, found in data.get("resolved", {}).items():
        cells = " | ".join(_cell(found[tool]) for tool in ("uv", "pip"))
        rows.append(f"| `{name}` | {cells} |")
    used = [
        "| extra | what was done | came out | packages | installed in |",
        "|---|---|---|---|---|",
    ]
    for name, one in data.get("used", {}).items():
        told = (one["what"], one["came_out"], str(one["packages"]), f"{one['install_s']} s")
        used.append(f"| `{name}` | {' | '.join(told)} |")
    resolved = [RESOLVED, f"With {tools}.\n" if tools else "", "\n".join(rows)]
    return "\n".join([HEAD + resolved[0], *resolved[1:], USED, "\n".join(used), ""])


def _cell(found: Mapping[str, Any]) -> str:
    if "error" in found:
        return f"no answer: {found['error'].replace('|', '/')}"
    versions = found["versions"]
    shown = ", ".join(f"{name} {versions[name]}" for name in SHOWN if name in versions)
    return f"{shown or 'nothing of note'}; {len(versions)} packages, {found['seconds']:g} s"
