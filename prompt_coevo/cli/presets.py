"""`prompt-coevo presets`: the named sets of values that come with the package."""

from __future__ import annotations

import typer

from prompt_coevo.settings.presets import preset_names, preset_text

app = typer.Typer(help="Named sets of values.", no_args_is_help=True)


@app.command("list")
def list_presets() -> None:
    """List the presets, each with its first line."""
    names = preset_names()
    width = max(map(len, names))
    for name in names:
        typer.echo(f"{name:{width}}  {preset_text(name).splitlines()[0].removeprefix('# ')}")


@app.command("show")
def show_preset(name: str = typer.Argument(help="A name from the list.")) -> None:
    """Show a preset as TOML."""
    typer.echo(preset_text(name), nl=False)
