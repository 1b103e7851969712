"""OpenRLHF's command with `--coevo.*` flags; without any of them it is OpenRLHF's command and no more."""

from __future__ import annotations

import runpy
import sys

from prompt_coevo.doors.flags import Flags, help_text
from prompt_coevo.errors import CoevoError

_COMMAND = "openrlhf.cli.train_ppo_ray"


def main() -> None:
    try:
        flags = Flags.from_arguments(sys.argv[1:])
        if flags.wants_help:
            print(help_text())
            return
        if flags.settings is not None:
            from prompt_coevo.adapters.openrlhf.launch import install

            install(flags.settings)
    except CoevoError as error:
        raise SystemExit(f"error: {error}") from None
    sys.argv[1:] = flags.others
    runpy.run_module(_COMMAND, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main()
