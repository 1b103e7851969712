"""Retrieval servers on the nodes of a Ray cluster: placed, started, watched and replaced.

Ray starts an actor for each replica of each shard. In its process the ordinary server runs on a thread, so
a search that hangs blocks neither Ray nor the actor. Requests go over HTTP, never through Ray.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from prompt_coevo import __version__
from prompt_coevo.errors import HostError
from prompt_coevo.extras import require
from prompt_coevo.markers import PROJECT
from prompt_coevo.retrieval.client.sharded import ShardedRetriever
from prompt_coevo.retrieval.errors import RetrieverUnavailable
from prompt_coevo.retrieval.index import manifest
from prompt_coevo.retrieval.index.kinds import VECTORS
from prompt_coevo.retrieval.index.open import check_shards, served_index
from prompt_coevo.retrieval.server.server import RetrievalServer
from prompt_coevo.retrieval.server.settings import ServerSettings

logger = logging.getLogger(PROJECT)

_LOOK_S: Final = 0.5
_HANGS_AFTER_S: Final = 30.0
_PATIENT_S: Final = 30.0
# Before an actor is placed anew whose server has failed.
_PAUSE_S: Final = 5.0


@dataclass(frozen=True)
class Placement:
    """What to serve, and what each server may use of its node.

    `folder` and `corpus` must have the same paths on all nodes. `cpus` are also a search's threads;
    `memory` is in bytes, None to reserve none.
    """

    folder: Path
    corpus: Path | None
    settings: ServerSettings
    replicas: int = 1
    cpus: int = 1
    memory: int | None = None


class ShardServer:
    """The actor: one server of one shard, at a port of its own."""

    def __init__(self, placement: Placement, shard: int, version: str) -> None:
        self._failure: BaseException | None = None
        self._server: RetrievalServer | None = None
        if version != __version__:
            self._failure = HostError(
                f"it has prompt-coevo {__version__} where the command has {version}; install the same "
                "prompt-coevo[retrieval-ray] on all nodes"
            )
            return
        # faiss and torch read these when they are loaded.
        os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
        os.environ["OMP_NUM_THREADS"] = str(max(1, placement.cpus))
        threading.Thread(target=self._serve, args=(placement, shard), daemon=True).start()

    def address(self) -> str | None:
        """Return the server's address; None until its first search has succeeded.

        Raises HostError if it could not start, or has ended.
        """
        if self._failure is not None:
            raise HostError(f"{type(self._failure).__name__}: {self._failure}")
        server = self._server
        return server.address if server is not None and server.is_ready else None

    def _serve(self, placement: Placement, shard: int) -> None:
        import ray

        try:
            made = manifest.read(placement.folder)
            gpus = "none" if VECTORS in made.details else "auto"
            index = served_index(placement.folder, placement.corpus, gpus=gpus, shard=shard)
            host = ray.util.get_node_ip_address()
            server = RetrievalServer(index, replace(placement.settings, host=host, port=0))
            self._server = server
            server.run()
            self._failure = HostError("the server has ended")
        except BaseException as error:
            self._failure = error


class _Place:
    """A replica's actor, the question for its address that is under way, and the last answer."""

    def __init__(self, shard: int, name: str) -> None:
        self.shard, self.name = shard, name
        self.actor: Any = None
        self.question: Any = None
        self.asked = self.not_before = 0.0
        self.address: str | None = None
        self.told: str | None = None


class RayServers:
    """The servers of all shards. `with` waits for them, and ends them.

    Raises HostError without a Ray cluster or if a server cannot start; IndexFileError for a folder without
    an index or with a hybrid one; MissingExtraError without ray.
    """

    def __init__(self, placement: Placement) -> None:
        require("ray", extra="retrieval-ray", purpose="placing servers on a cluster")
        made = manifest.load(placement.folder)
        check_shards(made, placement.folder)
        self._placement = placement
        count = len(made.shards)
        self._places = [
            _Place(shard, f"replica {replica} of shard {shard} of {count}")
            for shard in range(1, count + 1)
            for replica in range(1, placement.replicas + 1)
        ]
        self._ray = _connected()
        self._ended = threading.Event()
        self._watching: threading.Thread | None = None

    def __enter__(self) -> RayServers:
        try:
            for place in self._places:
                self._start(place)
            started = time.monotonic()
            while missing := [place.name for place in self._places if place.address is None]:
                for place, error in self._look():
                    raise HostError(f"{place.name} could not start: {error}")
                if time.monotonic() - started > _PATIENT_S:
                    started = math.inf
                    logger.warning(
                        "still waiting for %s: the index is loading, or no node has %d free CPUs",
                        missing[0],
                        self._placement.cpus,
                    )
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        if self._watching is not None:
            self._watching.join()
        for place in self._places:
            if place.actor is not None:
                self._ray.kill(place.actor)
        self._ray.shutdown()

    def addresses(self) -> list[list[str]]:
        """Return the addresses of each shard's servers that are up."""
        by_shard: dict[int, list[str]] = {place.shard: [] for place in self._places}
        for place in self._places:
            if place.address is not None:
                by_shard[place.shard].append(place.address)
        return list(by_shard.values())

    def keep(self, front: ShardedRetriever) -> None:
        """From now on replace servers that are lost, and tell the front the addresses."""
        self._watching = threading.Thread(target=self._watch, args=(front,), daemon=True)
        self._watching.start()

    def _watch(self, front: ShardedRetriever) -> None:
        known = self.addresses()
        while not self._ended.is_set():
            try:
                for place, error in self._look():
                    self._replace(place, error)
                now = self.addresses()
                for shard, (before, after) in enumerate(zip(known, now, strict=True), 1):
                    if before != after:
                        logger.warning(
                            "shard %d of %d: %s", shard, len(now), " ".join(after) or "no server"
                        )
                        front.change_urls(shard, after)
                known = now
            except RetrieverUnavailable:  # the front was closed
                return
            except Exception:  # whatever it is, the other servers need their supervisor
                logger.exception("watching the servers failed; trying again")
                self._ended.wait(_PAUSE_S)

    def _look(self) -> Iterator[tuple[_Place, str]]:
        """Ask all actors for their addresses; yield those that must be replaced, and why."""
        now = time.monotonic()
        for place in self._places:
            if place.actor is None and now >= place.not_before:
                self._start(place)
            if place.actor is not None and place.question is None:
                place.question, place.asked = place.actor.address.remote(), now
        asked = {place.question: place for place in self._places if place.question is not None}
        questions = list(asked)
        ready: list[Any] = []
        if questions:
            ready, _ = self._ray.wait(questions, num_returns=len(questions), timeout=_LOOK_S)
        for question in ready:
            place = asked[question]
            place.question = None
            if (error := self._read(place, question)) is not None:
                yield place, error
        for place in self._places:
            # Those that have not answered before are being placed or loaded.
            waits = place.question is not None and place.address is not None
            if waits and time.monotonic() - place.asked > _HANGS_AFTER_S:
                logger.error("%s does not answer; it is killed and started again", place.name)
                place.address = None
                self._ray.kill(place.actor, no_restart=False)
        self._ended.wait(max(0.0, now + _LOOK_S - time.monotonic()))

    def _read(self, place: _Place, question: Any) -> str | None:
        """Take the answer of an actor. Return why it must be replaced, if it must."""
        errors = self._ray.exceptions
        try:
            place.address = self._ray.get(question)
            return None
        except errors.ActorUnavailableError:  # Ray is starting it again
            place.address = None
            return None
        except errors.RayTaskError as error:
            place.address = None
            return str(error.cause)
        except errors.RayError as error:
            place.address = None
            return str(error).strip().partition("\n")[0]

    def _replace(self, place: _Place, error: str) -> None:
        if error != place.told:
            logger.error("%s was lost: %s; it is placed anew", place.name, error)
            place.told = error
        with contextlib.suppress(Exception):
            self._ray.kill(place.actor)
        place.actor, place.not_before = None, time.monotonic() + _PAUSE_S

    def _start(self, place: _Place) -> None:
        placement = self._placement
        options: dict[str, Any] = {"num_cpus": placement.cpus, "max_restarts": -1}
        if placement.memory is not None:
            options["memory"] = placement.memory
        actor = self._ray.remote(ShardServer).options(scheduling_strategy="SPREAD", **options)
        # The token is an attribute of the settings: Ray shows environments, but no arguments.
        place.actor = actor.remote(placement, place.shard, __version__)


def _connected() -> Any:
    import ray
    import ray.exceptions

    try:
        ray.init(address="auto", log_to_driver=False, logging_level=logging.ERROR)
    except (ConnectionError, RuntimeError):
        raise HostError(
            "there is no Ray cluster here; start one by `ray start --head`, or set RAY_ADDRESS to the "
            "address of one"
        ) from None
    return ray
