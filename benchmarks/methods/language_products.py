"""Multiply in bfloat16 on a CPU that has no such instruction, in about the time of float32.

torch itself then takes several times as long. Here the operands are rounded to bfloat16, multiplied in
float32, and the product is rounded: as in hardware, which also adds up in float32.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from unittest.mock import patch

import torch
from torch.autograd.function import once_differentiable
from torch.nn import functional
from torch.optim.optimizer import register_optimizer_step_post_hook

_LINEAR: Final = functional.linear
_MM: Final = torch.mm
_Rounded = dict[int, tuple[weakref.ref[torch.Tensor], int, torch.Tensor]]


@contextmanager
def fast_products() -> Iterator[None]:
    """Replace the products of linear layers without bias under autocast, and those of TRL's log-probs.

    A weight that is changed through `.data` is rounded again only after the optimizer's next step.
    """
    rounded: _Rounded = {}

    def linear(
        x: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None = None
    ) -> torch.Tensor:
        ours = bias is None and weight.dtype is torch.float32 and weight.device.type == "cpu"
        if ours and torch.is_autocast_enabled("cpu"):
            product: torch.Tensor = _Linear.apply(x, weight, _kept(rounded, weight))
            return product
        return _LINEAR(x, weight, bias)

    # A fused optimizer changes weights without a new version.
    hook = register_optimizer_step_post_hook(lambda *_: rounded.clear())
    try:
        with patch.object(functional, "linear", linear), patch.object(torch, "mm", _mm):
            yield
    finally:
        hook.remove()


def _kept(rounded: _Rounded, weight: torch.Tensor) -> torch.Tensor:
    """Return the rounded weight, in float32; round it again only if it was changed."""
    if (known := rounded.get(id(weight))) is not None:
        of, version, values = known
        if of() is weight and version == weight._version:
            return values
    values = weight.detach().bfloat16().float()
    rounded[id(weight)] = (weakref.ref(weight), weight._version, values)
    return values


class _Linear(torch.autograd.Function):
    """Multiply by a weight of which the rounded values are given; round the product and the gradients."""

    @staticmethod
    def forward(
        ctx: Any, x: torch.Tensor, weight: torch.Tensor, rounded: torch.Tensor
    ) -> torch.Tensor:
        x = x.bfloat16()
        ctx.save_for_backward(x, rounded)
        with torch.autocast("cpu", enabled=False):
            return (x.float() @ rounded.T).bfloat16()

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        x, rounded = ctx.saved_tensors
        grad, of_x, of_weight = grad.float(), None, None
        with torch.autocast("cpu", enabled=False):
            if ctx.needs_input_grad[0]:
                of_x = (grad @ rounded).bfloat16()
            if ctx.needs_input_grad[1]:
                rows, of_rows = (one.reshape(-1, one.shape[-1]) for one in (x.float(), grad))
                of_weight = (of_rows.T @ rows).bfloat16().float()
        return of_x, of_weight, None


def _mm(a: torch.Tensor, b: torch.Tensor, **options: Any) -> torch.Tensor:
    """Multiply as `torch.mm`; TRL calls it with `out` for log-probs."""
    out = options.get("out")
    if out is None or a.device.type != "cpu" or {a.dtype, b.dtype} != {torch.bfloat16}:
        return _MM(a, b, **options)
    with torch.autocast("cpu", enabled=False):
        return out.copy_(_MM(a.float(), b.float()))
