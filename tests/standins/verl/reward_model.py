"""Replace SGLang as the server of a reward model: `reward.reward_model.rollout.name=sglang`.

VeRL calls a reward model by HTTP, and knows only the wire forms of vLLM and SGLang. This one is SGLang's.
It reads the right answers from the file that `COEVO_TEST_ANSWERS` names, and gives the demo's reward. Like
the engine it does not answer while asleep. Its actions go to the log of the rollout servers.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import ray
from aiohttp import web
from verl.workers.rollout.replica import RolloutReplica

from standins import json_lines
from worlds.pairs.world import reward

_ASLEEP = 409  # VeRL retries server errors, with pauses of minutes, but not this one


class Judge:
    """A Ray actor with an HTTP server."""

    def __init__(self, config: Any) -> None:
        self._sleeps = config.free_cache_engine
        self._awake = True
        self._answers = json.loads(Path(os.environ["COEVO_TEST_ANSWERS"]).read_text())

    async def listen(self) -> str:
        """Start serving and return the address."""
        application = web.Application()
        application.add_routes([web.post("/v1/embeddings", self._embed)])
        runner = web.AppRunner(application)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        return f"{host}:{port}"

    async def wake_up(self) -> None:
        self._awake = True
        self._log({"event": "judge_wakes"})

    async def sleep(self) -> None:
        if self._sleeps:
            self._awake = False
            self._log({"event": "judge_sleeps"})

    async def _embed(self, request: web.Request) -> web.Response:
        if not self._awake:
            return web.json_response({"error": "asked while it is asleep"}, status=_ASLEEP)
        text = (await request.json())["input"]
        score = self._score(text)
        self._log({"event": "judged", "text": text, "score": score})
        return web.json_response({"data": [{"embedding": [score]}]})

    def _score(self, text: str) -> float:
        """Score a chat in the base policy's format, `<user> ... <end> <assistant> ... <end>`."""
        asked, _, response = text.partition("<assistant>")
        (answer,) = (said for question, said in self._answers.items() if f" {question} " in asked)
        return reward(response.replace("<end>", "").strip(), answer)

    def _log(self, record: dict[str, Any]) -> None:
        json_lines.append("COEVO_TEST_SERVER_LOG", [record])


class JudgeReplica(RolloutReplica):  # type: ignore[misc]
    """Run one server as a Ray actor that takes no resources."""

    async def launch_servers(self) -> None:
        if not self.is_reward_model:
            raise NotImplementedError("the stand-in for SGLang serves reward models alone")
        actor = ray.remote(Judge).options(num_cpus=0, max_concurrency=self.max_concurrency)
        self._server_handle = actor.remote(self.config)
        self._server_address = await self._server_handle.listen.remote()
        self.servers = [self._server_handle]
