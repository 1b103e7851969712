"""Provide a world to search, a policy that can use the tags, and a server for search-agent tests.

World and index are built on first use, once per process. The policy is trained once for all sessions and
kept in pytest's cache, under a hash of its inputs (`--cache-clear` clears it). The server is the real
command in a separate process.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import functools
import hashlib
import itertools
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

from helpers.retrieval_server import free_port
from prompt_coevo import retrieval, rng
from prompt_coevo.retrieval.agent.episode import INVALID_TURN
from worlds.search.examples import FIRST_INSTRUCTION as FIRST
from worlds.search.world import SearchQuestion, SearchWorld

_STEPS = 400
_WORLDS = Path(__file__).resolve().parents[2] / "benchmarks" / "worlds"
_KEPT = Path(__file__).parents[2] / ".pytest_cache" / "d" / "search-policy"
_COMMAND = "from prompt_coevo.cli import main; main()"
QUESTIONS = SearchWorld().questions(8)
GOLD = {question.text: question.answer for question in QUESTIONS}


@functools.cache
def search_folder() -> Path:
    """Return a folder with `corpus.jsonl`, `index/` and `policy/`."""
    folder = Path(tempfile.mkdtemp(prefix="search"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    SearchWorld().write_corpus(folder / "corpus.jsonl")
    _run("retrieval", "build", str(folder / "corpus.jsonl"), "--out", str(folder / "index"))
    shutil.copytree(_policy(), folder / "policy")
    return folder


def _policy() -> Path:
    """Return the trained policy; the first process that needs it trains it, the others wait."""
    kept = _KEPT / _made_from()
    _KEPT.mkdir(parents=True, exist_ok=True)
    with (_KEPT / f"{kept.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            # Renamed when it is whole, so that a training that was killed leaves nothing that looks so.
            part = Path(tempfile.mkdtemp(dir=_KEPT))
            maker = (str(_WORLDS), "search", "--out", str(part / "policy"))
            command = [sys.executable, "-P", *maker, "--steps", str(_STEPS)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=_environment())
            (part / "policy").rename(kept)
            part.rmdir()
    return kept


def _made_from() -> str:
    """Return a hash of the sources that affect it, of torch's version, and of the steps.

    The frameworks pin other versions of transformers; a policy that one wrote, all can read.
    """
    folders = [_WORLDS, Path(retrieval.__path__[0])]
    files = sorted(path for folder in folders for path in folder.rglob("*.py"))
    parts = [Path(file).read_bytes() for file in (*files, rng.__file__)]
    parts.append(f"{version('torch')} {_STEPS}".encode())
    return hashlib.sha256(b"\0".join(parts)).hexdigest()[:20]


def rows(questions: tuple[SearchQuestion, ...] = QUESTIONS) -> list[dict[str, Any]]:
    """Return questions as a dataset; the id is the question's text, the right answers are a list."""
    return [
        {
            "id": question.text,
            "prompt": [{"role": "user", "content": question.text}],
            "golden_answers": [question.answer],
        }
        for question in questions
    ]


class IndexServer:
    """Run `prompt-coevo retrieval serve` on the world's index; it can be killed and restarted."""

    def __init__(self) -> None:
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it and return when it answers."""
        arguments = ["serve", str(search_folder() / "index"), "--port", str(self.port)]
        command = [sys.executable, "-P", "-c", _COMMAND, "retrieval", *arguments]
        self._process = subprocess.Popen(
            command, env=_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while not self._is_healthy():
            if self._process.poll() is not None:
                raise RuntimeError("the search server did not start")
            time.sleep(0.05)

    def kill(self) -> None:
        """Send SIGKILL, so that clients get no message."""
        if self._process is not None:
            os.kill(self._process.pid, signal.SIGKILL)
            self._process.wait()
            self._process = None

    def __enter__(self) -> IndexServer:
        search_folder()
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def _is_healthy(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/health", timeout=5) as reply:
                return bool(reply.status == 200)
        except (urllib.error.URLError, OSError):
            return False


def check_tokens(
    rows: Iterable[tuple[list[int], list[int], list[int]]],
    turns: Iterable[tuple[Sequence[int], Sequence[int]]],
    tokenizer: Any,
) -> int:
    """Assert that tokens in the mask were sampled at just this place, and that the others were observed.

    `rows` are the loss's: prompt, completion and mask. `turns` are the sampler's: prompt and response.
    Returns how many observations had passages.
    """
    sampled: defaultdict[tuple[int, ...], list[Sequence[int]]] = defaultdict(list)
    for asked, response in turns:
        sampled[tuple(asked)].append(response)
    hint = tokenizer.decode(tokenizer(INVALID_TURN, add_special_tokens=False)["input_ids"]).split()
    observed = 0
    for prompt, completion, mask in rows:
        before = list(prompt)
        for own, pairs in itertools.groupby(
            zip(mask, completion, strict=True), lambda pair: pair[0]
        ):
            ids = [token for _, token in pairs]
            if own:
                assert any(list(turn[: len(ids)]) == ids for turn in sampled[tuple(before)])
            else:
                words = tokenizer.decode(ids).split()
                passages = words[0] == "<information>" and words[-1] == "</information>"
                assert passages or words == hint
                observed += passages
            before += ids
    return observed


def teach(prompt: str) -> str:
    """Return two more instructions of words the policy knows, for a proposer or a reflection server."""
    words = ("always", "exactly")
    return "\n".join(f"<ins_{n}>{FIRST} {word}</ins_{n}>" for n, word in enumerate(words, 1))


def searches_in(text: str) -> int:
    """Return how many observations a completion has."""
    return text.count("<information>")


class Outage:
    """Send SIGKILL after the second update and restart after the fourth; `reached` looks at the run.

    `teach` answers like the function, but only once the server is back: an evolution after the fifth
    update holds the run up for so long.
    """

    def __init__(self, search: IndexServer) -> None:
        self._search = search
        self._back = threading.Event()

    def teach(self, body: dict[str, Any]) -> str:
        assert self._back.wait(600)
        return teach(body["messages"][-1]["content"])

    @contextlib.contextmanager
    def during(self, reached: Callable[[int], bool]) -> Iterator[None]:
        """Act while the run is in progress."""
        over = threading.Event()

        def act() -> None:
            for step, do in ((2, self._search.kill), (4, self._search.start)):
                while not reached(step):
                    if over.wait(0.05):
                        return
                do()
            self._back.set()

        acting = threading.Thread(target=act)
        acting.start()
        try:
            yield
        finally:
            over.set()
            acting.join()


def _run(*arguments: str) -> None:
    command = [sys.executable, "-P", "-c", _COMMAND, *arguments]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=_environment())


def _environment() -> dict[str, str]:
    return {
        **{name: value for name, value in os.environ.items() if name != "PYTHONPATH"},
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
    }
