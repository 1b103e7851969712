"""Progress bars: on a terminal, nowhere else."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def stages() -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Gives a function from the name of a stage to one that is told what is done and what there is."""
    from rich.console import Console
    from rich.progress import Progress, TimeElapsedColumn

    console = Console(stderr=True)
    columns = (*Progress.get_default_columns(), TimeElapsedColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal) as progress:

        def stage(name: str) -> Callable[[int, int], None]:
            task = progress.add_task(name, total=None)
            return lambda done, total: progress.update(task, completed=done, total=total)

        yield stage
