"""The base policy from scratch: format, skills, belief in explanations, and what the draw says of words.

The examples are the second world's, in another size. Batches are a function of the seed and the step, so
that a run that goes on takes up where it was; worker processes make them, since a GPU would wait.
"""

from __future__ import annotations

import os
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import Any, Final

import torch
from clock import Clock
from tier import TIERS, Base, Tier
from torch.utils.data import DataLoader, Dataset

from prompt_coevo.demo.digits import SKILL_NAMES
from prompt_coevo.demo.world import LENGTHS, World
from prompt_coevo.rng import counter_rng
from worlds.facts.beliefs import prior
from worlds.facts.pretrain import example
from worlds.model import build_model, build_tokenizer
from worlds.pairs.pretrain import scheduled, token_batches, weighted_loss

_UNFINISHED: Final = "unfinished.pt"
_PARTS: Final = 2
_MOST_WORKERS: Final = 14


class Batches(Dataset):  # type: ignore[type-arg]
    """The batch of every step, from `first` on."""

    def __init__(self, world: World, tokenizer: Any, tier: Tier, seed: int, first: int) -> None:
        self._world, self._tokenizer, self._tier = world, tokenizer, tier
        self._seed, self._first = seed, first
        self._skill_ids = torch.tensor(tokenizer.convert_tokens_to_ids(list(SKILL_NAMES)))

    def __len__(self) -> int:
        return self._tier.pretrain_steps - self._first

    def __getitem__(self, number: int) -> list[tuple[Any, ...]]:
        rng = counter_rng(self._seed, "gpu-world/pretrain", self._first + number)
        lengths = rng.choice(LENGTHS, size=self._tier.pretrain_rows)
        chats = [example(self._world, 0.0, rng, int(length)) for length in lengths]
        return token_batches(self._tokenizer, chats, self._skill_ids, _PARTS)


def pretrain(tier_name: str, draw: int, seed: int, out: Path, clock: Clock) -> bool:
    """Train until the steps are done or the time is over; whether the base policy is finished."""
    base, tier = Base(out, tier_name, draw), TIERS[tier_name]
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(seed)
    world = base.world
    tokenizer = build_tokenizer(world.vocabulary, tier.size.function_words)
    model = build_model(
        tokenizer, width=tier.width, inner=tier.inner, layers=tier.layers, heads=tier.heads
    ).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=tier.pretrain_rate, weight_decay=0.01, betas=(0.9, 0.98)
    )
    key = {"tier": tier_name, "draw": draw, "seed": seed}
    first = _resumed(out, key, model, optimizer)
    print(f"{sum(p.numel() for p in model.parameters()):,} parameters on {device}", flush=True)
    prior(world)  # drawn once, before the workers copy it
    step = first
    for batches in _loader(Batches(world, tokenizer, tier, seed, first), device):
        for group in optimizer.param_groups:
            group["lr"] = tier.pretrain_rate * scheduled(step, tier.pretrain_steps)
        loss = _update(model, optimizer, batches, device)
        step += 1
        if step % 100 == 0 or step == tier.pretrain_steps:
            left = clock.seconds / (step - first) * (tier.pretrain_steps - step)
            print(f"step {step}: loss {loss.item():.3f}, {left:.0f} s to go", flush=True)
        if clock.is_over and step < tier.pretrain_steps:
            _save_unfinished(out, key, model, optimizer, step)
            print(f"step {step} of {tier.pretrain_steps}: the same command goes on from here")
            return False
    _save(base, model, tokenizer)
    print(f"the base policy is in {out}")
    return True


def _update(model: Any, optimizer: Any, batches: Any, device: torch.device) -> Any:
    """One step; the loss of its batch, still on the device."""
    parts = [[tensor.to(device, non_blocking=True) for tensor in part] for part in batches]
    whole = sum(weight.sum() for *_, weight in parts)
    optimizer.zero_grad()
    loss = torch.zeros((), device=device)
    for part in parts:
        with torch.autocast("cuda", torch.bfloat16) if device.type == "cuda" else nullcontext():
            share = weighted_loss(model, *part) / whole
        share.backward()
        loss += share.detach()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    return loss


def _loader(batches: Batches, device: torch.device) -> DataLoader[Any]:
    """On a GPU other processes make the batches; a CPU has its core for the model."""
    workers = min(_MOST_WORKERS, (os.cpu_count() or 1) - 1) if device.type == "cuda" else 0
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    return DataLoader(
        batches, batch_size=None, num_workers=workers, pin_memory=device.type == "cuda"
    )


def _resumed(out: Path, key: dict[str, Any], model: Any, optimizer: Any) -> int:
    """The step to begin with; weights and optimizer are those of the run that was cut off."""
    file = out / _UNFINISHED
    if not file.exists():
        return 0
    state = torch.load(file, map_location="cpu", weights_only=True)
    if state["key"] != key:
        raise SystemExit(f"{file} is of another run, {state['key']}: choose another --out")
    model.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    return int(state["step"])


def _save_unfinished(out: Path, key: dict[str, Any], model: Any, optimizer: Any, step: int) -> None:
    out.mkdir(parents=True, exist_ok=True)
    state = {
        "key": key,
        "model": model.state_dict(),
        "optimizer": optimizer.state_dict(),
        "step": step,
    }
    torch.save(state, out / "half.pt")
    shutil.move(out / "half.pt", out / _UNFINISHED)


def _save(base: Base, model: Any, tokenizer: Any) -> None:
    """In bf16: half the bytes to carry elsewhere. Training loads it in full precision."""
    model.generation_config.update(
        eos_token_id=tokenizer.eos_token_id, pad_token_id=tokenizer.pad_token_id
    )
    model.eval().to("cpu", torch.bfloat16).save_pretrained(base.folder)
    tokenizer.save_pretrained(base.folder)
    base.note()
    (base.folder / _UNFINISHED).unlink(missing_ok=True)
