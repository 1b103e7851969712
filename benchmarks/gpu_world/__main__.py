"""The world of facts in a size for one GPU: `python benchmarks/gpu_world COMMAND --help`.

    pretrain --out BASE                 the base policy from scratch; goes on where it was
    check --base BASE                   refuses a base policy that knows too much or too little
    train --base BASE --arm stream --seed 0 --out FILE
    table FILE...

A command ends after --minutes; then the same command goes on. docs/gpu-world.md has the plan.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))  # for `worlds`

from clock import Clock
from needs import missing


def main() -> None:
    options = _parser().parse_args()
    if lacking := missing(options.command):
        sys.exit(lacking)
    clock = Clock(getattr(options, "minutes", 0.0))
    # A command imports what it needs when it is known to be there.
    if options.command == "pretrain":
        from pretraining import pretrain

        if (options.out / "gpu_world.json").exists():
            sys.exit(f"{options.out} has a finished base policy: choose another --out")
        pretrain(options.tier, options.draw, options.seed, options.out, clock)
    elif options.command == "check":
        _check(options.base)
    elif options.command == "train":
        from tier import read_base
        from training import train

        base = read_base(options.base)
        run = train(base, options.arm, options.seed, options.out, clock, options.learning_rate)
        if run.done:
            print(f"the run is over: {options.out}")
    else:
        from curves import table
        from runs import read

        print(table([read(file) for file in options.files]))


def _check(folder: Path) -> None:
    from checks import check, failed
    from tier import read_base

    found = check(read_base(folder))
    for name, value in found.items():
        print(f"{name}: {value:.3f}")
    if said := failed(found):
        sys.exit(f"the base policy in {folder} is refused: {'; '.join(said)}")
    print("the base policy passes")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    pretrain = commands.add_parser("pretrain", help="make a base policy from scratch")
    pretrain.add_argument("--out", type=Path, required=True, help="its folder")
    pretrain.add_argument("--draw", type=int, default=0, help="of the world")
    pretrain.add_argument("--seed", type=int, default=0)
    tiers = pretrain.add_mutually_exclusive_group()
    tiers.add_argument(
        "--small",
        dest="tier",
        action="store_const",
        const="small",
        default="full",
        help="160 000 parameters, for a CPU",
    )
    tiers.add_argument(
        "--tiny", dest="tier", action="store_const", const="tiny", help="for tests; knows nothing"
    )
    check = commands.add_parser("check", help="whether a base policy is worth training")
    check.add_argument("--base", type=Path, required=True, help="its folder")
    train = commands.add_parser("train", help="one run")
    train.add_argument("--base", type=Path, required=True, help="the base policy's folder")
    train.add_argument("--arm", choices=("grpo", "waves", "stream", "random"), required=True)
    train.add_argument("--seed", type=int, default=0)
    train.add_argument("--out", type=Path, required=True, help="the run's JSON file")
    train.add_argument("--learning-rate", type=float, help="default: the tier's")
    for command in (pretrain, train):
        command.add_argument("--minutes", type=float, default=9.0, help="until it stops and saves")
    table = commands.add_parser("table", help="runs side by side")
    table.add_argument("files", type=Path, nargs="+")
    return parser


if __name__ == "__main__":
    main()
