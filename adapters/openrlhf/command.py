"""Run the trainer's own command, with `--coevo.*` flags next to its own."""

from __future__ import annotations

import runpy
import sys
from collections.abc import Callable, Mapping

from prompt_coevo.adapters.common.flags import Flags, help_text
from prompt_coevo.adapters.common.refused import refused
from prompt_coevo.errors import CoevoError
from prompt_coevo.extras import require


def run_command(module: str, install: Callable[[Mapping[str, object]], None]) -> None:
    """Run `python -m module` in this process, with this process's arguments minus ours.

    The module's package is also the name of our extra. `install` is called first, with the settings from
    our flags; without any of our flags it is not called, and the trainer's command runs unchanged. An
    error of ours ends the process with one sentence.
    """
    host = module.partition(".")[0]
    try:
        flags = Flags.from_arguments(sys.argv[1:])
        if flags.wants_help:
            print(help_text())
            return
        require(host, extra=host, purpose="this command")
        if flags.settings is not None:
            install(flags.settings)
    except CoevoError as error:
        raise refused(error) from None
    sys.argv[1:] = flags.others
    runpy.run_module(module, run_name="__main__", alter_sys=True)
