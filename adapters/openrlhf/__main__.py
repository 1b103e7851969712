"""OpenRLHF's command with `--coevo.*` flags; without any of them it runs OpenRLHF unchanged."""

from __future__ import annotations

from collections.abc import Mapping

from prompt_coevo.adapters.openrlhf.command import run_command


def _install(settings: Mapping[str, object]) -> None:
    from prompt_coevo.adapters.openrlhf.launch import install

    install(settings)


if __name__ == "__main__":
    run_command("openrlhf.cli.train_ppo_ray", _install)
