"""Run what is missing, several runs at once, and estimate the remaining time."""

from __future__ import annotations

import multiprocessing
import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from typing import Any

from store import Key, ResultsError, Store

Train = Callable[[str, str, int, int], dict[str, Any]]


def run_all(keys: Sequence[Key], train: Train, store: Store, workers: int) -> None:
    """Train all keys that the store lacks, in their order, and write each run down when it is done.

    An interrupted command resumes when it is repeated; unfinished runs are lost.
    """
    store.keep_to_oneself()
    missing = [key for key in keys if key not in store.keys]
    print(f"{len(missing)} runs to do, {len(keys) - len(missing)} are there", flush=True)
    os.environ.update(OMP_NUM_THREADS="1", TOKENIZERS_PARALLELISM="false")
    began, failed = time.monotonic(), list[str]()
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, _end_with_the_command) as pool:
        futures = {pool.submit(_timed, train, key): key for key in missing}
        try:
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
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise
    if failed:
        raise ResultsError(f"{len(failed)} runs failed; the first: {failed[0]}")


def _end_with_the_command() -> None:
    """End this process when the command that started it was killed: nobody takes the result."""

    def wait() -> None:
        command = multiprocessing.parent_process()
        if command is not None:
            command.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _timed(train: Train, key: Key) -> tuple[dict[str, Any], float]:
    began = time.monotonic()
    return train(*key), time.monotonic() - began


def _minutes(seconds: float) -> str:
    hours, minutes = divmod(round(seconds / 60), 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min"
