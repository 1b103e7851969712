"""Check the products in bfloat16 that need no such instruction against torch's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

METHODS = Path(__file__).parents[2] / "benchmarks" / "methods"
ULP = 2**-8
"""Half of the distance between a number of bfloat16 and the next, relative to it."""


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], None]]:
    monkeypatch.syspath_prepend(str(METHODS))
    from language_products import fast_products

    with fast_products():
        yield fast_products


def close(ours: torch.Tensor, theirs: torch.Tensor) -> None:
    """Rounded once, the sums may differ in the last place; never by more than the largest's."""
    assert ours.dtype is theirs.dtype
    assert ours.shape == theirs.shape
    scale = float(theirs.float().abs().max())
    assert float((ours.float() - theirs.float()).abs().max()) <= 2 * ULP * scale
    assert float((ours.float() != theirs.float()).float().mean()) < 0.1


def products(layer: nn.Linear, x: torch.Tensor, grad: torch.Tensor) -> list[torch.Tensor]:
    """Return a layer's output under autocast, and its gradients."""
    x, layer.weight.grad = x.clone().requires_grad_(), None
    with torch.autocast("cpu", dtype=torch.bfloat16):
        out = layer(x)
    out.backward(grad.to(out.dtype))
    assert x.grad is not None
    assert layer.weight.grad is not None
    return [out.detach(), x.grad, layer.weight.grad]


@pytest.mark.parametrize("shape", [(48,), (3, 48), (2, 5, 48), (1, 1, 1, 48)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_layer_and_its_gradients_are_torchs_under_autocast(
    monkeypatch: pytest.MonkeyPatch, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    monkeypatch.syspath_prepend(str(METHODS))
    from language_products import fast_products

    torch.manual_seed(0)
    layer = nn.Linear(48, 40, bias=False)
    x, grad = torch.randn(shape).to(dtype), torch.randn(*shape[:-1], 40)
    theirs = products(layer, x, grad)
    with fast_products():
        ours = products(layer, x, grad)
    for one, other in zip(ours, theirs, strict=True):
        close(one, other)
    assert not torch.equal(theirs[0].float(), x.float() @ layer.weight.T)


@pytest.mark.parametrize("kind", ["fused", "foreach", None])
def test_a_weight_that_the_optimizer_changed_is_rounded_again(
    fast: object, kind: str | None
) -> None:
    torch.manual_seed(0)
    layer = nn.Linear(8, 8, bias=False)
    options = {kind: True} if kind else {}
    optimizer = torch.optim.AdamW(layer.parameters(), lr=0.5, **options)
    x, grad = torch.randn(4, 8), torch.randn(4, 8)
    for _ in range(3):
        before = products(layer, x, grad)[0]
        optimizer.step()
        after = products(layer, x, grad)[0]
        assert not torch.equal(before, after)
        assert torch.equal(
            after, (x.bfloat16().float() @ layer.weight.bfloat16().float().T).bfloat16()
        )


def test_one_layer_is_not_taken_for_another_in_its_place(fast: object) -> None:
    x = torch.ones(1, 4)
    for value in range(20):
        layer = nn.Linear(4, 1, bias=False)
        nn.init.constant_(layer.weight, float(value))
        with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
            assert layer(x).item() == 4 * value


def test_what_is_not_in_bfloat16_stays_as_it_is(fast: object) -> None:
    torch.manual_seed(0)
    plain, biased = nn.Linear(8, 8, bias=False), nn.Linear(8, 8)
    x = torch.randn(4, 8)
    assert torch.equal(plain(x), x @ plain.weight.T)
    assert torch.equal(torch.mm(x, plain.weight), x @ plain.weight)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert biased(x).dtype is torch.bfloat16


def test_a_product_of_two_matrices_is_torchs(fast: object) -> None:
    torch.manual_seed(0)
    a, b = torch.randn(5, 48).bfloat16(), torch.randn(48, 7).bfloat16()
    close(torch.mm(a, b), a @ b)
    out = torch.empty(5, 7, dtype=torch.bfloat16)
    assert torch.mm(a, b, out=out) is out
    close(out, a @ b)


def test_the_replacement_ends_with_the_block_also_by_an_error(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.syspath_prepend(str(METHODS))
    from language_products import fast_products

    def fail() -> None:
        with fast_products():
            assert torch.mm is not mm
            raise InterruptedError

    mm, linear = torch.mm, nn.functional.linear
    with pytest.raises(InterruptedError):
        fail()
    assert (torch.mm, nn.functional.linear) == (mm, linear)
