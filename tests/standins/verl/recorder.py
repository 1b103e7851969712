"""Record what the actor's loss gets and what the real vLLM sampled; replaces nothing.

One line per row and update goes to the file that `COEVO_TEST_ACTOR_LOG` names. `log_probs` are those
that the loss compares with `old_log_probs`; they and all per-token values cover the response only.
Rows with which VeRL pads a batch are included; their `uid` starts with "pad".
"""

from __future__ import annotations

import functools
import os
from typing import Any

from standins import json_lines

_PER_TOKEN = (
    "response_mask", "old_log_probs", "rollout_log_probs", "ref_log_prob", "advantages",
    "rollout_is_weights", "values", "returns",
)  # fmt: skip


def record_loss(module: Any) -> None:
    """Wrap `ppo_loss` of `verl.workers.utils.losses`."""
    if not os.environ.get("COEVO_TEST_ACTOR_LOG"):
        return
    ppo_loss = module.ppo_loss

    @functools.wraps(ppo_loss)
    def recorded(config: Any, model_output: Any, data: Any, dp_group: Any = None) -> Any:
        log_probs = module.no_padding_2_padding(model_output["log_probs"], data).detach()
        json_lines.append("COEVO_TEST_ACTOR_LOG", _rows(data, log_probs))
        return ppo_loss(config=config, model_output=model_output, data=data, dp_group=dp_group)

    module.ppo_loss = recorded


def record_vllm(module: Any) -> None:
    """Wrap `vLLMHttpServer.generate` to record the stand-in server's events and log-probs."""
    server = module.vLLMHttpServer
    generate = server.generate

    @functools.wraps(generate)
    async def recorded(
        self: Any,
        prompt_ids: list[int],
        sampling_params: dict[str, Any],
        *more: Any,
        **named: Any,
    ) -> Any:
        asked = dict(sampling_params)  # it takes away from them
        output = await generate(self, prompt_ids, sampling_params, *more, **named)
        event = {
            "event": "generate",
            "prompt_ids": list(map(int, prompt_ids)),
            "response_ids": list(output.token_ids),
            "log_probs": output.log_probs,
            "global_steps": output.extra_fields["global_steps"],
            **{name: asked.get(name) for name in ("temperature", "top_p", "top_k")},
        }
        json_lines.append("COEVO_TEST_SERVER_LOG", [event])
        return output

    server.generate = recorded


def _rows(data: Any, log_probs: Any) -> list[dict[str, Any]]:
    rows = []
    for number in range(len(data)):
        responses = _row(data, "responses", number)
        rows.append(
            {
                "master_port": int(os.environ["MASTER_PORT"]),
                "global_steps": _row(data, "global_steps", number),
                "uid": _row(data, "uid", number),
                "session_id": _row(data, "session_id", number),
                "prompts": _row(data, "prompts", number),
                "responses": responses,
                "input_ids": _row(data, "input_ids", number),
                "log_probs": log_probs[number, : len(responses)].tolist(),
                **{name: _row(data, name, number) for name in _PER_TOKEN},
            }
        )
    return rows


def _row(data: Any, name: str, number: int) -> Any:
    """Return a row's values without padding, or None if the actor has no such column."""
    if name not in data:
        return None
    column = data[name]
    if isinstance(column, str | int):
        return column
    value = column[number]
    return value.tolist() if hasattr(value, "tolist") else getattr(value, "data", value)
