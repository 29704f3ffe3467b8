"""Random operators: numbers follow from seed and offset alone and have the right distribution."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from tests.ops import aclnn

SIZE = 20_000


def device_integer(value: int) -> torch.Tensor:
    return torch.tensor([value], dtype=torch.int64)


def fill(name: str, seed: int, offset: int, **values: Any) -> torch.Tensor:
    """Runs an in-place random function; the Tensor variants get their offset in two parts."""
    out = torch.zeros(SIZE, dtype=values.pop("dtype", torch.float32))
    given: dict[str, Any] = {"self": out, **values}
    if name.endswith("Tensor") and name != "aclnnInplaceBernoulliTensor":
        given |= {"seed": device_integer(seed), "offset": device_integer(offset - 3),
                  "offset_intragraph": 3}  # fmt: skip
    else:
        given |= {"seed": seed, "offset": offset}
    aclnn.call(name, given)
    return out


IN_PLACE: list[tuple[str, dict[str, Any]]] = [
    ("aclnnInplaceNormal", {"mean": 1.0, "std": 2.0}),
    ("aclnnInplaceNormalTensor", {"mean": 1.0, "std": 2.0}),
    ("aclnnInplaceUniform", {"from": -1.0, "to": 3.0}),
    ("aclnnInplaceUniformTensor", {"from": -1.0, "to": 3.0}),
    ("aclnnInplaceRandom", {"from": 5, "to": 15}),
    ("aclnnInplaceRandomTensor", {"from": 5, "to": 15}),
    ("aclnnInplaceRandomWithoutFromTo", {"dtype": torch.int64}),
    ("aclnnInplaceRandomWithoutFromToTensor", {"dtype": torch.int64}),
    ("aclnnInplaceBernoulli", {"p": 0.25}),
    ("aclnnInplaceBernoulliTensor", {"p": torch.full((SIZE,), 0.25)}),
    ("aclnnSimThreadExponential", {"count": SIZE, "lambd": 2.0}),
]


@pytest.mark.parametrize(
    ("name", "values"), IN_PLACE, ids=lambda v: v if isinstance(v, str) else ""
)
def test_numbers_follow_from_seed_and_offset(name: str, values: dict[str, Any]) -> None:
    first, again = fill(name, 7, 20, **values), fill(name, 7, 20, **values)
    assert torch.equal(first, again)
    assert not torch.equal(first, fill(name, 8, 20, **values))
    assert not torch.equal(first, fill(name, 7, 24, **values))


@pytest.mark.parametrize(
    ("name", "values"), [i for i in IN_PLACE if i[0] + "Tensor" in dict(IN_PLACE)]
)
def test_captured_and_eager_forms_agree(name: str, values: dict[str, Any]) -> None:
    """Under capture torch_npu passes seed and offset in memory: the numbers must not change."""
    if name == "aclnnInplaceBernoulli":
        pytest.skip("its Tensor form takes probabilities, not a seed in memory")
    assert torch.equal(fill(name, 7, 20, **values), fill(name + "Tensor", 7, 20, **values))


def test_distributions() -> None:
    normal = fill("aclnnInplaceNormal", 1, 0, mean=1.0, std=2.0)
    assert abs(normal.mean() - 1) < 0.05 and abs(normal.std() - 2) < 0.05
    uniform = fill("aclnnInplaceUniform", 1, 0, **{"from": -1.0, "to": 3.0})
    assert uniform.min() >= -1 and uniform.max() < 3 and abs(uniform.mean() - 1) < 0.05
    numbers = fill("aclnnInplaceRandom", 1, 0, **{"from": 5, "to": 15})
    assert set(numbers.unique().tolist()) == set(range(5, 15))
    assert abs(fill("aclnnInplaceBernoulli", 1, 0, p=0.25).mean() - 0.25) < 0.02
    assert abs(fill("aclnnSimThreadExponential", 1, 0, count=SIZE, lambd=2.0).mean() - 0.5) < 0.02


def test_normal_with_tensor_parameters() -> None:
    mean, std = torch.full((SIZE,), 4.0), torch.full((SIZE,), 0.5)
    for name, given in {
        "FloatFloat": (4.0, 0.5), "FloatTensor": (4.0, std), "TensorFloat": (mean, 0.5),
        "TensorTensor": (mean, std),
    }.items():  # fmt: skip
        out = torch.zeros(SIZE)
        values = {"mean": given[0], "std": given[1], "seed": 3, "offset": 0, "out": out}
        aclnn.call(f"aclnnNormal{name}", values)
        assert abs(out.mean() - 4) < 0.02 and abs(out.std() - 0.5) < 0.02, name


def test_permutation() -> None:
    out = torch.zeros(50, dtype=torch.int64)
    aclnn.call("aclnnRandperm", {"n": 50, "seed": 1, "offset": 2, "out": out})
    assert sorted(out.tolist()) == list(range(50)) and out.tolist() != list(range(50))


@pytest.mark.parametrize("variant", ["", "Tensor"])
def test_multinomial(variant: str) -> None:
    weights = torch.tensor([0.0, 1.0, 3.0])
    out = torch.zeros(8000, dtype=torch.int64)
    seed: dict[str, Any] = {"seed": 1, "offset": 2}
    if variant:
        seed = {"seed": device_integer(1), "offset": device_integer(2), "offset_intragraph": 0}
    values = {"self": weights, "num_samples": 8000, "replacement": True, "out": out, **seed}
    aclnn.call(f"aclnnMultinomial{variant}", values)
    share = torch.bincount(out, minlength=3) / 8000
    torch.testing.assert_close(share, torch.tensor([0, 0.25, 0.75]), atol=0.03, rtol=0)


def mask_bytes(elements: int) -> torch.Tensor:
    """128 bits are the unit of a dropout mask."""
    return torch.zeros((elements + 127) // 128 * 16, dtype=torch.uint8)


def bits(mask: torch.Tensor) -> torch.Tensor:
    return (mask.view(-1, 1) >> torch.arange(8) & 1).bool().view(-1)


def test_dropout_mask_and_its_use() -> None:
    x = torch.arange(1.0, 1001.0)
    mask, out = mask_bytes(1000), torch.zeros(1000)
    values = {"shape": [1000], "p": 0.25, "seed": 1, "offset": 2, "dtype": None, "mask": mask}
    aclnn.call("aclnnDropoutGenMaskV2", values)
    keep = bits(mask)[:1000]
    assert abs(keep.float().mean() - 0.75) < 0.05
    assert not bits(mask)[1000:].any()
    aclnn.call("aclnnDropoutDoMask", {"self": x, "mask": mask, "p": 0.25, "out": out})
    torch.testing.assert_close(out, torch.where(keep, x / 0.75, 0.0))


def test_all_forms_of_dropout_draw_the_same_mask() -> None:
    masks = [mask_bytes(300) for _ in range(4)]
    pair: dict[str, Any] = {"shape": [300], "p": 0.5, "seed": 9, "offset": 10}
    aclnn.call("aclnnDropoutGenMask", {**pair, "mask": masks[0]})
    aclnn.call("aclnnDropoutGenMaskV2", {**pair, "dtype": None, "mask": masks[1]})
    in_memory = {"seed": device_integer(9), "offset": device_integer(4), "offset_intragraph": 6}
    aclnn.call(
        "aclnnDropoutGenMaskV2Tensor", {**pair, **in_memory, "dtype": None, "mask": masks[2]}
    )
    v3 = {"self": torch.ones(300), "noise_shape": None, "p": 0.5, "seed": 9, "offset": 10}
    aclnn.call("aclnnDropoutV3", {**v3, "out": torch.zeros(300), "mask": masks[3]})
    assert all(torch.equal(masks[0], mask) for mask in masks[1:])


@pytest.mark.parametrize("inplace", [False, True])
def test_rrelu_draws_slopes_in_its_range(inplace: bool) -> None:
    x = torch.randn(1000, generator=torch.Generator().manual_seed(0))
    noise, out = torch.zeros(1000), x.clone() if inplace else torch.zeros(1000)
    values = {"self": out if inplace else x, "noise": noise, "lower": 0.1, "upper": 0.3,
              "training": True, "seed": 1, "offset": 0}  # fmt: skip
    name = "aclnnInplaceRReluWithNoise" if inplace else "aclnnRReluWithNoise"
    aclnn.call(name, values if inplace else values | {"out": out})
    slopes = noise[x < 0]
    assert (slopes >= 0.1).all() and (slopes <= 0.3).all()
    torch.testing.assert_close(out, torch.where(x < 0, x * noise, x))
