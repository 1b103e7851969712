"""Run what is missing, several runs at once, and estimate the remaining time."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import as_completed
from typing import Any

from store import Key, ResultsError, Store

from prompt_coevo.demo.workers import workers
from prompt_coevo.preflight.page import plural

Train = Callable[[str, str, int, int], dict[str, Any]]


def run_all(keys: Sequence[Key], train: Train, store: Store, count: int) -> None:
    """Train all keys that the store lacks, in their order, and write each run down when it is done.

    An interrupted command resumes when it is repeated; unfinished runs are lost.
    """
    store.keep_to_oneself()
    missing = [key for key in keys if key not in store.keys]
    print(
        f"{plural(len(missing), 'run')} to do, {len(keys) - len(missing)} there already", flush=True
    )
    os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    began, failed = time.monotonic(), list[str]()
    with workers(count) as submit:
        futures = {submit(_timed, train, key): key for key in missing}
        for number, future in enumerate(as_completed(futures), start=1):
            world, arm, seed, draw = futures[future]
            try:
                run, seconds = future.result()
            except Exception as error:  # the others are worth their time
                failed.append(f"{world} {draw}, {arm}, seed {seed}: {error!r}")
                print(f"{number}/{len(missing)} failed: {failed[-1]}", flush=True)
                continue
            store.add(run)
            left = (len(missing) - number) * (time.monotonic() - began) / number
            print(
                f"{number}/{len(missing)}, about {_minutes(left)} left: {world} {draw}, {arm}, "
                f"seed {seed}: hard {run['curve']['hard'][-1]:.2f}, {seconds:.0f} s",
                flush=True,
            )
    if failed:
        raise ResultsError(f"{len(failed)} runs failed; the first: {failed[0]}")


def _timed(train: Train, key: Key) -> tuple[dict[str, Any], float]:
    began = time.monotonic()
    return train(*key), time.monotonic() - began


def _minutes(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
