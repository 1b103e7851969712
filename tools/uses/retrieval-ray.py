"""An index in two shards, served by two servers on a Ray cluster, and searched at its front."""

import json
import os
import subprocess
import sys
from pathlib import Path

import ray

from prompt_coevo.retrieval.client.client import RemoteRetriever

PROGRAM = Path(sys.executable).with_name("prompt-coevo")
texts = ["Cats sleep long.", "Dogs bark.", "Whales sing in the sea.", "Bees dance."]
rows = [json.dumps({"id": str(n), "contents": text}) for n, text in enumerate(texts)]
Path("corpus.jsonl").write_text("\n".join(rows) + "\n")
build = [PROGRAM, "retrieval", "build", "corpus.jsonl", "--out", "index", "--shards", "2"]
subprocess.run(build, check=True, capture_output=True)
os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
ray.init(num_cpus=2, include_dashboard=False, object_store_memory=80_000_000)
os.environ["RAY_ADDRESS"] = ray.get_runtime_context().gcs_address
serve = [PROGRAM, "retrieval", "serve", "index", "--ray", "--port", "0"]
server = subprocess.Popen(serve, stdout=subprocess.PIPE, text=True)
address = next(line.split()[1] for line in server.stdout if line.startswith("serving "))
remote = RemoteRetriever(address.removesuffix("/retrieve"), total_timeout_s=500)
((hit,),) = remote.search(["who sings in the sea"], 1)
remote.close()
server.terminate()
server.wait()
ray.shutdown()
assert "Whales" in hit.contents, hit
print("4 passages in two shards, served on a Ray cluster and searched")
