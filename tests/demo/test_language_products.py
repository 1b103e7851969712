"""Check the products in bfloat16 that need no such instruction, by their definition and next to torch's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.optim import optimizer
from torch.utils._python_dispatch import TorchDispatchMode
from trl.kernels.chunked_logprob import ChunkedLogProbFunction

METHODS = Path(__file__).parents[2] / "benchmarks" / "methods"
ULP = 2**-7
"""The distance between a number of bfloat16 and the next, relative to it, at most."""
Products = Callable[[], AbstractContextManager[None]]


@pytest.fixture
def products(monkeypatch: pytest.MonkeyPatch) -> Products:
    monkeypatch.syspath_prepend(str(METHODS))
    from language_products import fast_products

    torch.manual_seed(0)
    return fast_products


@pytest.fixture
def fast(products: Products) -> Iterator[None]:
    with products():
        yield


class Calls(TorchDispatchMode):
    """Count the calls of some operators with a tensor of some kind."""

    def __init__(self, operators: Sequence[object], kind: Callable[[torch.Tensor], bool]) -> None:
        super().__init__()
        self.operators, self.kind, self.made = operators, kind, 0

    def __torch_dispatch__(
        self, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> object:
        self.made += func.overloadpacket in self.operators and any(map(self.kind, args))
        return func(*args, **(kwargs or {}))


def native() -> Calls:
    """Count the products of bfloat16 that torch makes itself."""
    products = (torch.ops.aten.mm, torch.ops.aten.addmm)
    return Calls(products, lambda one: one.dtype is torch.bfloat16)


def of(layer: nn.Linear, x: torch.Tensor) -> torch.Tensor:
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out: torch.Tensor = layer(x)
    return out


def with_gradients(layer: nn.Linear, x: torch.Tensor, grad: torch.Tensor) -> list[torch.Tensor]:
    """Return a layer's product under autocast and its gradients, by input and weight."""
    x, layer.weight.grad = x.clone().requires_grad_(), None
    out = of(layer, x)
    out.backward(grad.to(out.dtype))
    assert x.grad is not None
    assert layer.weight.grad is not None
    return [out.detach(), x.grad, layer.weight.grad]


def rounded_once(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    return (a.bfloat16().double() @ b.bfloat16().double()).bfloat16()


def close(one: torch.Tensor, other: torch.Tensor) -> None:
    """Check that no entries differ by more than a last place of the largest."""
    assert one.shape == other.shape
    one, other = one.detach().float(), other.detach().float()
    assert float((one - other).abs().max()) <= ULP * float(other.abs().max())


@pytest.mark.parametrize("shape", [(48,), (3, 48), (2, 5, 48), (1, 1, 1, 48)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_layer_and_its_gradients_are_torchs_under_autocast(
    products: Products, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    layer = nn.Linear(48, 40, bias=False)
    x, grad = torch.randn(shape).to(dtype), torch.randn(*shape[:-1], 40)
    theirs = with_gradients(layer, x, grad)
    with products(), native() as by_torch:
        ours = with_gradients(layer, x, grad)
    assert not by_torch.made
    rows, of_rows = x.reshape(-1, 48), grad.reshape(-1, 40)
    exact = (
        rounded_once(rows, layer.weight.T).reshape_as(ours[0]),
        rounded_once(of_rows, layer.weight).reshape_as(x),
        rounded_once(of_rows.T, rows),
    )
    for one, other, known in zip(ours, theirs, exact, strict=True):
        assert one.dtype is other.dtype
        close(one, other)
        close(one, known)
        # A sum in another order is now and then rounded to the other side.
        assert float((one.float() == known.float()).double().mean()) > 0.95


def test_trls_log_probs_and_their_gradients_are_torchs(products: Products) -> None:
    # Exact in bfloat16, with exact sums: no order of adding up, on whatever CPU, rounds otherwise.
    hidden, weight = (
        torch.randint(-1, 2, (size, 48)) * scale for size, scale in ((6, 1.0), (50, 0.25))
    )
    targets = torch.randint(50, (6,))

    def found() -> list[torch.Tensor]:
        x, w = hidden.clone().requires_grad_(), weight.clone().requires_grad_()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            log_probs = ChunkedLogProbFunction.apply(x, w, None, targets, 1.0, 16)[0]
        log_probs.sum().backward()
        assert x.grad is not None
        assert w.grad is not None
        return [log_probs.detach(), x.grad, w.grad]

    theirs = found()
    with products(), native() as by_torch:
        ours = found()
    assert not by_torch.made
    for one, other in zip(ours, theirs, strict=True):
        close(one, other)


@pytest.mark.parametrize("kind", ["fused", "foreach", None])
def test_a_weight_that_the_optimizer_changed_is_rounded_again(fast: None, kind: str | None) -> None:
    layer = nn.Linear(8, 8, bias=False)
    options: dict[str, Any] = {kind: True} if kind else {}
    adam = torch.optim.AdamW(layer.parameters(), lr=0.5, **options)
    x, grad = torch.randn(4, 8), torch.randn(4, 8)
    for _ in range(3):
        before = with_gradients(layer, x, grad)[0]
        adam.step()
        after = of(layer, x)
        assert not torch.equal(before, after)
        close(after, rounded_once(x, layer.weight.T))


@pytest.mark.parametrize(
    "change",
    [
        lambda layer, new: layer.weight.copy_(new),
        lambda layer, new: layer.load_state_dict({"weight": new}),
        lambda layer, new: setattr(layer, "weight", nn.Parameter(new)),
    ],
)
def test_a_weight_that_is_replaced_is_rounded_again(
    fast: None, change: Callable[[nn.Linear, torch.Tensor], object]
) -> None:
    layer, x, new = nn.Linear(8, 8, bias=False), torch.randn(4, 8), torch.randn(8, 8)
    with torch.no_grad():
        of(layer, x)
        change(layer, new)
        close(of(layer, x), rounded_once(x, new.T))


def test_a_layer_in_anothers_place_in_memory_is_not_taken_for_it(
    fast: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("language_products.id", lambda _: 0, raising=False)
    x = torch.ones(1, 4)
    for value in range(3):
        layer = nn.Linear(4, 1, bias=False)
        nn.init.constant_(layer.weight, float(value))
        with torch.no_grad():
            assert of(layer, x).item() == 4 * value


def test_a_weight_is_rounded_once_for_all_tokens_of_a_step(fast: None) -> None:
    layer, x = nn.Linear(8, 7, bias=False), torch.randn(4, 8)
    with Calls([torch.ops.aten._to_copy], lambda one: one.shape == (7, 8)) as copies:
        for _ in range(3):
            of(layer, x)
    assert copies.made == 2


def test_what_is_not_of_this_kind_stays_torchs(fast: None) -> None:
    plain, biased, x = nn.Linear(8, 8, bias=False), nn.Linear(8, 8), torch.randn(4, 8)
    low = x.bfloat16()
    assert torch.equal(plain(x), x @ plain.weight.T)
    assert torch.equal(torch.mm(x, plain.weight), x @ plain.weight)
    with native() as by_torch:
        assert of(biased, x).dtype is torch.bfloat16
        assert torch.mm(low, low.T).dtype is torch.bfloat16
        assert torch.mm(low, low.T, out=None).dtype is torch.bfloat16
    assert by_torch.made == 3


def test_the_replacement_ends_with_the_block_also_by_an_error(products: Products) -> None:
    def fail() -> None:
        with products():
            assert torch.mm is not mm
            raise InterruptedError

    mm, linear = torch.mm, nn.functional.linear
    hooks = dict(optimizer._global_optimizer_post_hooks)
    with pytest.raises(InterruptedError):
        fail()
    assert (torch.mm, nn.functional.linear) == (mm, linear)
    assert optimizer._global_optimizer_post_hooks == hooks
