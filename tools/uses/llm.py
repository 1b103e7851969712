"""A reflection model behind a local server that speaks the OpenAI protocol, asked through litellm."""

import json
import os
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

os.environ["OPENAI_API_KEY"] = "none"

from prompt_coevo.reflection.litellm_model import LiteLLMModel
from prompt_coevo.settings import Settings


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        message = {"role": "assistant", "content": "<template>think</template>"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 8}
        reply = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "any",
            "usage": usage,
        }
        body = json.dumps({**reply, "choices": [choice]}).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None: ...


server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
base = f"http://127.0.0.1:{server.server_port}/v1"
settings = Settings(reflection={"model": "openai/any", "api_base": base})
(reply,) = LiteLLMModel("openai/any", settings.reflection).complete(["what failed?"])
assert reply.text == "<template>think</template>", reply
print(f"a reply of {reply.usage.completion_tokens} tokens")
