"""Push an index into Chroma's real server, killed twice at random and then left alone.

    python benchmarks/retrieval_push.py [--rows N] [--seed N] [--json FILE] [--folder FOLDER]

The index has passages of about 65 words and smooth vectors of 384 numbers, as in
benchmarks/retrieval_dense.py; those of the eight passages that a build embeds are an encoder's. Peak memory
is the resident set's, of the push with all that it imports. `recall_at_3` is the share of the exact first
three that Chroma finds. `--folder` keeps the index for a further run.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "tests"))

import numpy as np  # noqa: E402
from retrieval_dense import DIMENSION, K, recall, smooth  # noqa: E402

from helpers.chroma_server import ChromaProcess  # noqa: E402
from helpers.passages import passages, write_corpus  # noqa: E402
from helpers.tiny_encoder import save_tiny_encoder  # noqa: E402

NAME, QUERIES, SINGLES = "pushed", 256, 64
PUSH = "from prompt_coevo.cli import main; main()"


def built(folder: Path, rows: int) -> tuple[Path, Any, Any]:
    """Make an index; return its folder, its vectors, and those of questions."""
    import faiss

    from prompt_coevo.retrieval.dense.encoders import load
    from prompt_coevo.retrieval.index.build import Request, build

    texts = [passage["contents"] for passage in passages(rows)]
    encoder = f"e5:{save_tiny_encoder(folder / 'encoder', texts[:1000], dimension=DIMENSION)}"
    vectors, asked = smooth(rows)
    compared = sorted({int(part) for part in np.linspace(0, rows - 1, 8)})
    vectors[compared] = load(encoder).encode_passages([texts[row] for row in compared])
    if (folder / "index" / "manifest.json").exists():
        return folder / "index", vectors, asked[:QUERIES]
    made = faiss.IndexFlatIP(DIMENSION)
    made.add(vectors)
    faiss.write_index(made, str(folder / "flat.index"))
    corpus = write_corpus(folder / "corpus.jsonl", rows)
    build(corpus, folder / "index", Request("dense", encoder, faiss_file=folder / "flat.index"))
    return folder / "index", vectors, asked[:QUERIES]


def pushed(index: Path, server: ChromaProcess, until: int | None) -> dict[str, Any]:
    """Push, and kill it when the collection has `until` rows. Return what that took."""
    before = count(server)
    command = [sys.executable, "-P", "-c", PUSH, "retrieval", "push", str(index)]
    started = time.perf_counter()
    process = subprocess.Popen([*command, "--to", server.address, "--collection", NAME])
    used: dict[str, float] = {}
    while process.poll() is None:
        with contextlib.suppress(OSError):  # it ended meanwhile
            used = used_by(process.pid)
        if until is not None and count(server) >= until:
            process.send_signal(signal.SIGKILL)
        time.sleep(1)  # a count costs the server some time
    return {
        "rows_before": before,
        "rows_after": count(server),
        "killed": process.returncode == -signal.SIGKILL,
        "seconds": time.perf_counter() - started,
        **used,
    }


def used_by(pid: int) -> dict[str, float]:
    """Return the CPU seconds and the peak memory of a process so far."""
    place = Path(f"/proc/{pid}")
    peak = re.search(r"VmHWM:\s*(\d+) kB", (place / "status").read_text("ascii"))
    times = (place / "stat").read_text("ascii").rpartition(")")[2].split()[11:13]
    if peak is None:  # it is a zombie
        raise ProcessLookupError
    cpu_s = sum(map(int, times)) / os.sysconf("SC_CLK_TCK")
    return {"cpu_s": cpu_s, "peak_mb": int(peak[1]) / 1e3}


def count(server: ChromaProcess) -> int:
    try:
        own_id = server.facts(NAME)["id"]
    except OSError:  # it is not there yet
        return 0
    return int(server.ask("GET", f"{server.collections}/{own_id}/count"))


def searched(server: ChromaProcess, vectors: Any, asked: Any) -> dict[str, Any]:
    """Measure Chroma's own search, without an encoder."""
    from prompt_coevo.retrieval.chroma.server import ChromaServer

    client = ChromaServer(server.address, "default_tenant", "default_database", 600.0)
    collection = client.collection(NAME)
    exact = np.argsort(-(asked @ vectors.T), axis=1)[:, :K]
    started = time.perf_counter()
    found = client.query(collection, asked, K)
    batched = time.perf_counter() - started
    started = time.perf_counter()
    for n in range(SINGLES):
        client.query(collection, asked[n : n + 1], K)
    single = time.perf_counter() - started
    complete = collection.marks is not None and collection.marks.complete
    client.close()
    rows = [[int(row.id) for row in one] for one in found]
    return {
        "complete": complete,
        "recall_at_3": recall(rows, exact.tolist()),
        "batched_ms": 1e3 * batched / len(asked),
        "single_ms": 1e3 * single / SINGLES,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rows", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--folder", type=Path)
    given = parser.parse_args()
    rng = random.Random(given.seed)
    with tempfile.TemporaryDirectory() as made:
        index, vectors, asked = built(given.folder or Path(made), given.rows)
        with ChromaProcess(Path(made) / "chroma") as server:
            runs: list[dict[str, Any]] = []
            for _ in range(2):
                least = runs[-1]["rows_after"] if runs else 0
                runs.append(pushed(index, server, rng.randrange(least + 1, given.rows)))
            runs.append(pushed(index, server, None))
            found = searched(server, vectors, asked)
            used = used_by(server.pid)
        size = sum(
            path.stat().st_size for path in (Path(made) / "chroma").rglob("*") if path.is_file()
        )
    result = {
        "rows": given.rows,
        "dimension": DIMENSION,
        "pushes": runs,
        "server": {**used, "disk_mb": size / 1e6},
        "search": found,
    }
    text = json.dumps(result, indent=1)
    print(text)
    if given.json:
        given.json.write_text(text + "\n", "utf-8")


if __name__ == "__main__":
    main()
