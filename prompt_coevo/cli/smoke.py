"""`prompt-coevo smoke`: short real trainings with one adapter on this machine's GPUs."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Final

import typer

from prompt_coevo.cli.output import new_folder, show, write_file
from prompt_coevo.errors import CoevoError, SettingsError
from prompt_coevo.extras import require
from prompt_coevo.visible import in_a_line, visible

if TYPE_CHECKING:
    from prompt_coevo.smoke.parts import Adapter, Variant
    from prompt_coevo.smoke.running import Outcome

EXAMPLE: Final = "Example: prompt-coevo smoke trl --only p2o,vllm --out smoke-trl"
_ADAPTERS: Final = ("trl", "verl", "openrlhf")
_NAMES: Final = (
    "import json, torch; cuda = torch.cuda; "
    "print(json.dumps([cuda.get_device_name(one) for one in range(cuda.device_count())]))"
)
_COLOURS: Final = {"works": "green", "failed": "red", "not run": "yellow"}


def smoke(
    adapter: str = typer.Argument(help=f"The trainer: {', '.join(_ADAPTERS)}.", show_default=False),
    only: str | None = typer.Option(
        None, metavar="NAMES", help="Run only these variants, comma-separated. By default all."
    ),
    gpus: int = typer.Option(
        1, min=1, help="How many GPUs to use: 2 adds two ranks and tensor parallel, 8 eight ranks."
    ),
    cpu: bool = typer.Option(
        False, "--cpu", help="Run only the variants that work on a CPU: TRL's without vLLM."
    ),
    limit: float = typer.Option(
        300.0, min=1.0, metavar="SECONDS", help="Time limit per run; a longer one is stopped."
    ),
    out: Path | None = typer.Option(None, help="Output folder, new or empty."),
) -> None:
    """Train a tiny policy with every variant of one adapter, each in its own process.

    The package brings policy, questions and reflection model: no network is needed. The result of a variant
    is "works", "failed" (with its log) or "not run" (with what it needs). The table is also written to
    smoke.md. Exit status: 0 if every variant that could run works, 1 if one failed, 2 if none can run.
    """
    chosen = _adapter(adapter)
    variants = _variants(chosen, only)
    if cpu and not any(one.on_cpu for one in variants):
        raise SettingsError(
            f"none of these variants of {chosen.title} runs without a GPU; leave --cpu out, on a machine "
            "that has one"
        )
    # Imported late: the other commands start without all this.
    from prompt_coevo.smoke.running import missing, run_all
    from prompt_coevo.smoke.table import markdown, summary

    require(chosen.packages[0], chosen.packages[1], extra=chosen.name, purpose="this command")
    found, machine = ([], "On a CPU") if cpu else _gpus(gpus)
    lacking = [missing(chosen, one, len(found)) for one in variants]
    if all(lacking):
        raise CoevoError(f"none of these variants can run here; {variants[0].name}: {lacking[0]}")
    folder = new_folder(out, f"smoke-{chosen.name}")
    outcomes: list[Outcome] = []
    for outcome in run_all(chosen, variants, folder, limit, found):
        outcomes.append(outcome)
        show([_line(outcome)])
    file = folder / "smoke.md"
    write_file(file, markdown(chosen, outcomes, machine))
    show([f"{summary(outcomes)}. Written: {file}"])
    raise typer.Exit(any(one.state == "failed" for one in outcomes))


def _line(outcome: Outcome) -> str:
    state = typer.style(outcome.state, fg=_COLOURS[outcome.state])
    lasted = f" ({outcome.seconds:.0f} s)" if outcome.seconds else ""
    return f"{outcome.variant.name:<15} {state}{lasted}: {visible(outcome.said)}"


def _adapter(name: str) -> Adapter:
    if name not in _ADAPTERS:
        raise SettingsError(f"there is no adapter {name!r}; known: {', '.join(_ADAPTERS)}")
    adapter: Adapter = import_module(f"prompt_coevo.smoke.{name}").ADAPTER
    return adapter


def _variants(adapter: Adapter, only: str | None) -> list[Variant]:
    known = {one.name: one for one in adapter.variants}
    if only is None:
        return list(known.values())
    names = dict.fromkeys(part.strip() for part in only.split(","))
    for name in names:
        if name not in known:
            raise SettingsError(
                f"there is no variant {name!r} with {adapter.title}; known: {', '.join(known)}"
            )
    return [known[name] for name in names]


def _gpus(most: int) -> tuple[list[str], str]:
    """Return up to `most` GPUs, named as in `CUDA_VISIBLE_DEVICES`, and words that describe them."""
    # Asked in another process, because a process that asks CUDA for names holds GPU memory until it ends.
    asked = subprocess.run(
        [sys.executable, "-P", "-c", _NAMES], capture_output=True, text=True, check=False
    )
    if asked.returncode:
        last = in_a_line(asked.stderr.strip().rpartition("\n")[2], 300)
        raise CoevoError(f"PyTorch cannot list the GPUs: {last}; repair its installation")
    names = json.loads(asked.stdout.strip().rpartition("\n")[2])[:most]
    if not names:
        raise CoevoError(
            "PyTorch finds no GPU on this machine; run this on one that has a GPU, or add --cpu for the "
            "variants that a CPU can run"
        )
    given = os.environ.get("CUDA_VISIBLE_DEVICES") or ",".join(map(str, range(len(names))))
    return given.split(",")[: len(names)], f"On {len(names)} x {in_a_line(names[0], 100)}"
