"""penstock's own tensors have the dtype that it asks for, whatever a script or zero.Init has set."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from deepspeed.runtime.zero import partition_parameters
from penstock.deepspeed import plain_tensors

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.float16, torch.uint8]


@pytest.fixture(autouse=True)
def _within_zero_init(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Its replacements, and defaults of a script."""
    for name in ("tensor", "empty", "zeros", "ones", "full", "arange"):
        wrapped = partition_parameters.zero_wrapper_for_fp_tensor_constructor(
            getattr(torch, name), torch.bfloat16, torch.device("cpu")
        )
        monkeypatch.setattr(torch, name, wrapped)
    made_new = partition_parameters.get_new_tensor_fn_for_dtype(torch.bfloat16, torch.device("cpu"))
    monkeypatch.setattr(torch.Tensor, "__new__", made_new)
    torch.set_default_dtype(torch.float16)
    with torch.device("meta"):
        yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [3, (2, 3), ()])
def test_a_tensor_has_its_dtype(dtype: torch.dtype, shape: int | tuple[int, ...]) -> None:
    assert torch.empty(3, dtype=torch.float64, device="cpu").dtype == torch.bfloat16
    made = [plain_tensors.empty(shape, dtype), plain_tensors.zeros(shape, dtype), plain_tensors.full(shape, 7, dtype)]
    for tensor in made:
        assert tensor.dtype == dtype
        assert tensor.device.type == "cpu"
        assert tensor.shape == ((shape,) if isinstance(shape, int) else shape)
    assert not made[1].any()
    assert bool((made[2] == 7).all())


def test_a_number_is_not_rounded() -> None:
    assert plain_tensors.full((), 1 / 3, torch.float64).item() == 1 / 3
