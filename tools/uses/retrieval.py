"""An index of three passages, built, verified, searched and served by the command line."""

import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import faiss

PROGRAM = Path(sys.executable).with_name("prompt-coevo")
passages = ['"Cats"\nCats sleep long.', '"Dogs"\nDogs bark.', '"Whales"\nWhales sing in the sea.']
rows = [json.dumps({"id": str(n), "contents": text}) for n, text in enumerate(passages)]
Path("corpus.jsonl").write_text("\n".join(rows) + "\n")


def run(*arguments: str) -> str:
    command = [PROGRAM, "retrieval", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


run("build", "corpus.jsonl", "--out", "index")
run("verify", "index")
best = json.loads(run("search", "index", "who sings in the sea", "-k", "1", "--json"))
assert "Whales" in json.dumps(best), best
with socket.create_server(("127.0.0.1", 0)) as free:
    port = str(free.getsockname()[1])
server = subprocess.Popen([PROGRAM, "retrieval", "serve", "index", "--port", port])
asked = json.dumps({"queries": ["who sings in the sea"], "topk": 1, "return_scores": True}).encode()
request = urllib.request.Request(
    f"http://127.0.0.1:{port}/retrieve", asked, {"Content-Type": "application/json"}
)
while True:
    assert server.poll() is None, "the server ended"
    try:
        with urllib.request.urlopen(request) as answer:
            served = answer.read().decode()
        break
    except urllib.error.URLError:
        time.sleep(0.2)  # it is not up yet
server.terminate()
server.wait()
assert "Whales" in served, served
print(f"3 passages searched and served; faiss {faiss.__version__} imports")
