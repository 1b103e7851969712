"""Lay out the demo's base policy for vision and language, as current Qwen and Gemma models are."""

from __future__ import annotations

from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    CLIPImageProcessor,
    CLIPVisionConfig,
    LlavaConfig,
    LlavaForConditionalGeneration,
    LlavaProcessor,
)

from worlds.pairs.world import base_policy_path

IMAGE = "<image>"
# As the base policy's, of contents that are lists of parts, too.
_TEMPLATE = (
    "{% for message in messages %}<{{ message.role }}> "
    "{% if message.content is string %}{{ message.content }}"
    "{% else %}{% for part in message.content %}{{ part.text }}{% endfor %}{% endif %} <end> {% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)


def tiny_llava() -> tuple[Any, Any]:
    """Return a model and its processor; on texts it agrees with the base policy."""
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(base_policy_path())
    policy = AutoModelForCausalLM.from_pretrained(base_policy_path(), dtype=torch.float32)
    tokenizer.add_special_tokens({"additional_special_tokens": [IMAGE]})
    tokenizer.chat_template = _TEMPLATE
    policy.resize_token_embeddings(len(tokenizer), mean_resizing=False)
    vision = CLIPVisionConfig(
        hidden_size=16,
        intermediate_size=16,
        projection_dim=16,
        num_hidden_layers=1,
        num_attention_heads=1,
        image_size=28,
        patch_size=14,
    )
    config = LlavaConfig(
        vision_config=vision,
        text_config=policy.config,
        image_token_index=tokenizer.convert_tokens_to_ids(IMAGE),
        eos_token_id=tokenizer.eos_token_id,
    )
    model = LlavaForConditionalGeneration(config)
    model.model.language_model.load_state_dict(policy.model.state_dict())
    model.lm_head.load_state_dict(policy.lm_head.state_dict())
    processor = LlavaProcessor(
        image_processor=CLIPImageProcessor(),
        tokenizer=tokenizer,
        patch_size=14,
        vision_feature_select_strategy="default",
        chat_template=_TEMPLATE,
    )
    return model, processor
