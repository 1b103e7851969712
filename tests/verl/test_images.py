"""Check questions about images, in VeRL's own agent loop and its processing of an agent loop's output.

VeRL accepts the processors of only a few families, which need torchvision; a tiny LLaVA stands in for
their models, as this class does for `qwen_vl_utils`, which takes images out of messages.
"""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import torch
from omegaconf import OmegaConf
from PIL import Image
from verl.experimental.agent_loop.agent_loop import (
    AgentLoopOutput,
    AgentLoopWorker,
    DictConfigWrap,
)
from verl.workers.rollout.replica import TokenOutput

from helpers.tiny_llava import IMAGE, tiny_llava
from prompt_coevo.adapters.verl.distill import COLUMN, ERROR, CoevoAgentLoop, Plan
from prompt_coevo.types import Assignment, Candidate

QUESTION = "use dax then gorp on 8 6"
HINT = "dax means rotate ."
PICTURE = Image.new("RGB", (32, 32), (200, 0, 0))
CHAT = [
    {
        "role": "user",
        "content": [{"type": "image", "image": PICTURE}, {"type": "text", "text": QUESTION}],
    }
]
_TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}> {% for part in message.content %}"
    f"{{% if part.type == 'image' %}}{IMAGE} {{% else %}}{{{{ part.text }}}}{{% endif %}}"
    "{% endfor %} <end> {% endfor %}{% if add_generation_prompt %}<assistant>{% endif %}"
)


class Images:
    """The parts of the dataset class that an agent loop uses."""

    @classmethod
    async def process_multi_modal_info(
        cls, messages: list[dict[str, Any]], **_: Any
    ) -> tuple[list[Any], None, None]:
        parts = [part for message in messages for part in message["content"]]
        return [part["image"] for part in parts if part["type"] == "image"], None, None


class Sampler:
    """Stand in for the rollout server."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    async def generate(self, **request: Any) -> TokenOutput:
        self.asked.append(request)
        return TokenOutput(token_ids=[5, 6], log_probs=[-1.0, -2.0], extra_fields={})


def run(template: str | None) -> tuple[AgentLoopOutput, dict[str, Any], Any]:
    """Return the output of one rollout, the server's request, and the processor."""
    _, processor = tiny_llava()
    processor.chat_template = _TEMPLATE
    sampler = Sampler()
    rollout = {"prompt_length": 400, "response_length": 8}
    config = OmegaConf.create({"actor_rollout_ref": {"rollout": rollout}})
    loop = CoevoAgentLoop(
        trainer_config=DictConfigWrap(config),
        server_manager=sampler,
        tokenizer=processor.tokenizer,
        processor=processor,
        dataset_cls=Images,
        data_config=DictConfigWrap(OmegaConf.create({})),
    )
    hint = template and Candidate(template, "template")
    plan = Plan("single_turn_agent", [Assignment("q", template=hint or None)])
    output = asyncio.run(loop.run({}, raw_prompt=CHAT, session_id=0, **{COLUMN: plan}))
    assert isinstance(output, AgentLoopOutput)
    return output, sampler.asked[0], processor


def text(processor: Any, ids: list[int]) -> str:
    """Decode with one mark for each image."""
    marks = processor.tokenizer.decode(ids).split(IMAGE)
    return IMAGE.join(part for part in marks if part.strip())


def test_the_image_stays_and_the_template_goes() -> None:
    output, asked, processor = run(HINT)
    assert ERROR not in output.extra_fields
    assert HINT in text(processor, asked["prompt_ids"])
    plain, asked_plainly, _ = run(None)
    assert output.prompt_ids == plain.prompt_ids == asked_plainly["prompt_ids"]
    image = processor.tokenizer.convert_tokens_to_ids(IMAGE)
    assert output.prompt_ids.count(image) == asked["prompt_ids"].count(image) > 1
    assert text(processor, output.prompt_ids) == f"<user> {IMAGE} {QUESTION} <end> <assistant>"


def test_the_server_and_the_trainer_see_the_image() -> None:
    output, asked, processor = run(HINT)
    assert asked["image_data"] == [PICTURE]
    worker = SimpleNamespace(processor=processor, tokenizer=processor.tokenizer)
    ids = torch.tensor([output.prompt_ids + output.response_ids])
    inputs = AgentLoopWorker._compute_multi_modal_inputs(worker, output, ids)
    expected = processor.image_processor(images=[PICTURE], return_tensors="pt")
    assert torch.equal(inputs["pixel_values"], expected["pixel_values"])
