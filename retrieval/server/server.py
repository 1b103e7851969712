"""The complete retrieval server: its socket, its process limits, and its main loop."""

from __future__ import annotations

import contextlib
import socket

from prompt_coevo.errors import HostError
from prompt_coevo.extras import require
from prompt_coevo.retrieval.retriever import Retriever
from prompt_coevo.retrieval.server.settings import ServerSettings

_KEEP_ALIVE_S = 75
_GRACE_S = 10


class RetrievalServer:
    """A retriever served over HTTP at `address`; listens from construction on.

    With `waits` an outage of the retriever at the start is waited for. Otherwise it ends the server.

    Raises HostError if the port is not available, MissingExtraError without the required packages.
    """

    def __init__(
        self, retriever: Retriever, settings: ServerSettings, *, waits: bool = False
    ) -> None:
        require(
            *("httptools", "orjson", "starlette", "uvicorn"),
            extra="retrieval",
            purpose="a retrieval server",
        )
        import uvicorn

        from prompt_coevo.retrieval.server.app import RetrievalApp
        from prompt_coevo.retrieval.server.entrance import Entrance
        from prompt_coevo.retrieval.server.service import RetrievalService

        _allow_open_files(settings.max_connections)
        self._service = RetrievalService(retriever, settings, waits)
        self._listener = _listen(settings.host, settings.port)
        host, port = self._listener.getsockname()[:2]
        config = uvicorn.Config(
            RetrievalApp(self._service, Entrance(settings, host), self.stop),
            http="httptools",
            ws="none",
            lifespan="on",
            log_level="warning",
            access_log=False,
            proxy_headers=False,
            server_header=False,
            limit_concurrency=settings.max_connections + 1,  # uvicorn refuses whoever reaches it
            timeout_keep_alive=_KEEP_ALIVE_S,
            timeout_graceful_shutdown=_GRACE_S,
        )
        self._server = uvicorn.Server(config)
        self.address = f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def run(self) -> None:
        """Serve until `stop`, SIGINT or SIGTERM. Raises the error of the first search if that failed."""
        with self._listener:
            self._server.run(sockets=[self._listener])
        if self._service.failure is not None:
            raise self._service.failure

    @property
    def is_ready(self) -> bool:
        """Return True once the first search has succeeded."""
        return self._service.info is not None

    def stop(self) -> None:
        """Make `run` return once the requests under way are answered. Callable from any thread."""
        self._server.should_exit = True


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise HostError(
            f"port {port} of {host} is not available: {error.strerror or error}; "
            "choose another host or port"
        ) from None


def _allow_open_files(connections: int) -> None:
    """Raise the limit of open files, usually 1024: every connection is one."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + 512
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            limit = wanted if hard == resource.RLIM_INFINITY else min(wanted, hard)
            resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
