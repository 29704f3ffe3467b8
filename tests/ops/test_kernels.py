"""Rows whose check needs more than one call, a device-only layout or an independent formula."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from tests.ops import aclnn

close = torch.testing.assert_close


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def leaf(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, requires_grad=True)


def grads(output: torch.Tensor, *inputs: torch.Tensor) -> tuple[torch.Tensor, tuple[Any, ...]]:
    """A random cotangent and the gradients that autograd finds for it."""
    cotangent = torch.randn_like(output)
    return cotangent, torch.autograd.grad(output, inputs, cotangent)


def plain(*tensors: torch.Tensor) -> list[torch.Tensor]:
    return [t.detach().clone() for t in tensors]


def test_layer_norm_backward() -> None:
    x, weight, bias = leaf(4, 6), leaf(6), leaf(6)
    cotangent, expected = grads(F.layer_norm(x, [6], weight, bias), x, weight, bias)
    xs, ws, bs = plain(x, weight, bias)
    mean = xs.mean(-1, keepdim=True)
    rstd = 1 / torch.sqrt(xs.var(-1, correction=0, keepdim=True) + 1e-5)
    found = [torch.zeros(4, 6), torch.zeros(6), torch.zeros(6)]
    values = {"grad_out": cotangent, "input": xs, "normalized_shape": [6], "mean": mean,
              "rstd": rstd, "weight": ws, "bias": bs, "output_mask": [True, True, True],
              "grad_input": found[0], "grad_weight": found[1], "grad_bias": found[2]}  # fmt: skip
    aclnn.call("aclnnLayerNormBackward", values)
    close(found, list(expected), rtol=1e-4, atol=1e-5)


def test_rms_norm_grad() -> None:
    x, gamma = leaf(4, 6), leaf(6)
    rstd = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
    cotangent, expected = grads(x * rstd * gamma, x, gamma)
    dx, dgamma = torch.zeros(4, 6), torch.zeros(6)
    values = dict(zip(("x", "rstd", "gamma"), plain(x, rstd, gamma), strict=True))
    aclnn.call("aclnnRmsNormGrad", values | {"dy": cotangent, "dx": dx, "dgamma": dgamma})
    close([dx, dgamma], list(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("training", [True, False])
def test_batch_norm_and_its_backward(training: bool) -> None:
    x, weight, bias = leaf(4, 3, 5), leaf(3), leaf(3)
    running = [torch.randn(3), torch.rand(3) + 0.5]
    ours = plain(*running)
    y = F.batch_norm(x, running[0], running[1], weight, bias, training, 0.1, 1e-5)
    cotangent, expected = grads(y, x, weight, bias)
    xs, ws, bs = plain(x, weight, bias)
    out, mean, invstd = torch.zeros(4, 3, 5), torch.zeros(3), torch.zeros(3)
    shared = {"weight": ws, "running_mean": ours[0], "running_var": ours[1], "eps": 1e-5}
    aclnn.call(
        "aclnnBatchNorm",
        shared | {"input": xs, "bias": bs, "training": training, "momentum": 0.1, "out": out,
                  "mean": mean, "invstd": invstd},
    )  # fmt: skip
    close(out, y.detach())
    close(ours, running)
    found = [torch.zeros(4, 3, 5), torch.zeros(3), torch.zeros(3)]
    aclnn.call(
        "aclnnBatchNormBackward",
        shared | {"grad_out": cotangent, "self": xs, "save_mean": mean, "save_invstd": invstd,
                  "train": training, "output_mask": [True] * 3, "grad_input": found[0],
                  "grad_weight": found[1], "grad_bias": found[2]},
    )  # fmt: skip
    close(found, list(expected), rtol=1e-4, atol=1e-5)


POOL: dict[str, Any] = {"kernel_size": [2, 2], "stride": [2, 2], "padding": [0, 0],
                        "dilation": [1, 1], "ceil_mode": False}  # fmt: skip


@pytest.mark.parametrize("kind", ["WithMask", "WithIndices"])
def test_max_pool2d_and_its_backward(kind: str) -> None:
    x = leaf(2, 3, 6, 6)
    y = F.max_pool2d(x, 2)
    cotangent, expected = grads(y, x)
    out, grad = torch.zeros(2, 3, 3, 3), torch.zeros(2, 3, 6, 6)
    name, positions = ("mask", torch.zeros(2, 3, 4, 64, dtype=torch.int8))
    if kind == "WithIndices":
        name, positions = ("indices", torch.zeros(2, 3, 3, 3, dtype=torch.int32))
    given = POOL | {"self": plain(x)[0], name: positions}
    aclnn.call(f"aclnnMaxPool2d{kind}", given | {"out": out})
    close(out, y.detach())
    aclnn.call(
        f"aclnnMaxPool2d{kind}Backward", given | {"grad_output": cotangent, "grad_input": grad}
    )
    close(grad, expected[0])


def test_max_pool3d_backward() -> None:
    x = leaf(1, 2, 4, 4, 4)
    y, indices = F.max_pool3d(x, 2, return_indices=True)
    cotangent, expected = grads(y, x)
    grad = torch.zeros(1, 2, 4, 4, 4)
    values = {"grad_output": cotangent, "self": plain(x)[0], "indices": indices.int(),
              "kernel_size": [2] * 3, "stride": [2] * 3, "padding": [0] * 3, "dilation": [1] * 3,
              "ceil_mode": False, "grad_input": grad}  # fmt: skip
    aclnn.call("aclnnMaxPool3dWithArgmaxBackward", values)
    close(grad, expected[0])


def test_scatter_update_writes_a_slice_per_row() -> None:
    cache, updates = torch.zeros(3, 2, 8, 4), torch.randn(3, 2, 1, 4)
    positions = torch.tensor([5, 0, 7])
    values = {"self": cache, "indices": positions, "updates": updates, "axis": -2}
    aclnn.call("aclnnInplaceScatterUpdate", values)
    expected = torch.zeros_like(cache)
    for row, position in enumerate(positions.tolist()):
        expected[row, :, position] = updates[row, :, 0]
    close(cache, expected)


def test_scatter_nd_update() -> None:
    target, updates = torch.zeros(4, 5, 3), torch.randn(2, 3)
    indices = torch.tensor([[1, 2], [3, 4]])
    aclnn.call("aclnnScatterNdUpdate", {"self": target, "indices": indices, "updates": updates})
    close(target[[1, 3], [2, 4]], updates)
    assert target.abs().sum(-1).count_nonzero() == 2


def test_unique_families() -> None:
    x = torch.tensor([3, 1, 2, 2, 3])
    out, inverse, counts = (torch.zeros(5, dtype=torch.int64) for _ in range(3))
    given: dict[str, Any] = {"self": x, "out": out, "inverse": inverse}
    sizes = aclnn.call("aclnnUnique", given | {"sorted": True, "return_inverse": True})
    assert sizes == {"out": [3]} and out[:3].tolist() == [1, 2, 3]
    assert inverse.tolist() == [2, 0, 1, 1, 2]
    both = given | {"return_inverse": True, "return_counts": True, "counts": counts}
    sizes = aclnn.call("aclnnUnique2", both | {"sorted": True})
    assert sizes == {"out": [3], "counts": [3]} and counts[:3].tolist() == [1, 2, 2]
    no_dim = 1000
    sizes = aclnn.call("aclnnUniqueConsecutive", both | {"dim": no_dim})
    assert sizes["out"] == [4] and out[:4].tolist() == [3, 1, 2, 3]
    assert counts[:4].tolist() == [1, 1, 2, 1]


def test_unique_dim() -> None:
    x = torch.tensor([[1, 2], [0, 0], [1, 2]])
    out = torch.zeros(3, 2, dtype=torch.int64)
    inverse, counts = (torch.zeros(3, dtype=torch.int64) for _ in range(2))
    sizes = aclnn.call(
        "aclnnUniqueDim",
        {"self": x, "sorted": True, "return_inverse": True, "dim": 0, "out": out,
         "inverse": inverse, "counts": counts},
    )  # fmt: skip
    assert sizes == {"out": [2, 2], "counts": [2]}
    assert out[:2].tolist() == [[0, 0], [1, 2]] and inverse.tolist() == [1, 0, 1]
    assert counts[:2].tolist() == [1, 2]


def rotate(x: torch.Tensor, mode: str) -> torch.Tensor:
    """Each pair (a, b) of the last dimension becomes (-b, a), as complex multiplication by i."""
    if mode == "half":
        a, b = x.chunk(2, -1)
        return torch.cat((-b, a), -1)
    pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2).contiguous()) * 1j
    return torch.view_as_real(pairs).flatten(-2).to(x.dtype)


@pytest.mark.parametrize("mode", ["half", "interleave"])
def test_rotary_embeddings(mode: str) -> None:
    x, cos, sin = leaf(2, 3, 1, 8), leaf(1, 3, 1, 8), leaf(1, 3, 1, 8)
    y = x * cos + rotate(x, mode) * sin
    xs, cs, ss = plain(x, cos, sin)
    out, number = torch.zeros_like(xs), ("half", "interleave").index(mode)
    values: dict[str, Any] = {"x": xs, "cos": cs, "sin": ss, "mode": number, "out": out}
    aclnn.call("aclnnRotaryPositionEmbedding", values)
    close(out, y.detach())
    out.zero_()
    aclnn.call("aclnnRotaryPositionEmbeddingV2", values | {"rotate": None})
    close(out, y.detach())
    query, key = plain(x, x)
    pair = {"query": query, "key": key, "cos": cs, "sin": ss, "layout": 1}
    aclnn.call("aclnnApplyRotaryPosEmbV2", pair | {"mode": mode})
    close(query, y.detach())
    close(key, y.detach())


def test_rotary_in_place_without_mode_is_half() -> None:
    x, cos, sin = torch.randn(2, 3, 1, 8), torch.randn(1, 3, 1, 8), torch.randn(1, 3, 1, 8)
    query, key = plain(x, x)
    values = {"query": query, "key": key, "cos": cos, "sin": sin, "layout": 1}
    aclnn.call("aclnnApplyRotaryPosEmb", values)
    close(query, x * cos + rotate(x, "half") * sin)
    close(key, query)


def test_rotary_gradient() -> None:
    x, cos, sin = leaf(2, 3, 1, 8), leaf(1, 3, 1, 8), leaf(1, 3, 1, 8)
    cotangent, expected = grads(x * cos + rotate(x, "half") * sin, x, cos, sin)
    found = [torch.zeros_like(t) for t in (x, cos, sin)]
    values = dict(zip(("x", "cos", "sin"), plain(x, cos, sin), strict=True))
    results = dict(zip(("dx", "dcos", "dsin"), found, strict=True))
    aclnn.call("aclnnRotaryPositionEmbeddingGrad", values | results | {"dy": cotangent, "mode": 0})
    close(found, list(expected), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("activate_left", [True, False])
def test_geglu_gradient(activate_left: bool) -> None:
    x = leaf(4, 6)
    left, right = x.chunk(2, -1)
    value, gate = (right, left) if activate_left else (left, right)
    gelu = F.gelu(gate)
    cotangent, expected = grads(value * gelu, x)
    grad = torch.zeros(4, 6)
    values = {"grad_output": cotangent, "self": plain(x)[0], "gelu": plain(gelu)[0], "dim": -1,
              "approximate": 0, "activate_left": activate_left, "grad_input": grad}  # fmt: skip
    aclnn.call("aclnnGeGluV3Backward", values)
    close(grad, expected[0])


def test_scaled_masked_softmax_gradient() -> None:
    x, mask = leaf(2, 3, 4, 4), torch.rand(2, 1, 4, 4) < 0.3
    y = (x * 0.5).masked_fill(mask, -10000.0).softmax(-1)
    cotangent, expected = grads(y, x)
    grad = torch.zeros(2, 3, 4, 4)
    values = {"y_grad": cotangent, "y": plain(y)[0], "mask": mask, "scale": 0.5,
              "fixed_triu_mask": False, "grad_input": grad}  # fmt: skip
    aclnn.call("aclnnScaledMaskedSoftmaxBackward", values)
    close(grad, expected[0])


def test_confusion_transpose_in_either_order() -> None:
    x = torch.randn(2, 3, 4)
    out = torch.zeros(4, 6)
    values = {"self": x, "perm": [2, 0, 1], "shape": [4, 6], "transpose_first": True, "out": out}
    aclnn.call("aclnnConfusionTranspose", values)
    close(out, x.permute(2, 0, 1).reshape(4, 6))
    values |= {"perm": [1, 0], "shape": [6, 4], "transpose_first": False}
    aclnn.call("aclnnConfusionTranspose", values)
    close(out, x.reshape(6, 4).permute(1, 0))


def test_decompositions() -> None:
    a = torch.randn(5, 3)
    s, u, v = torch.zeros(3), torch.zeros(5, 3), torch.zeros(3, 3)
    values = {"self": a, "full_matrices": False, "compute_uv": True, "S": s, "U": u, "V": v}
    aclnn.call("aclnnSvd", values)
    close(u @ torch.diag(s) @ v.T, a)
    positive, factor = a.T @ a, torch.zeros(3, 3)
    aclnn.call("aclnnLinalgCholesky", {"self": positive, "upper": False, "out": factor})
    close(factor @ factor.T, positive)
    close(factor, factor.tril())


@pytest.mark.parametrize("amsgrad", [False, True])
@pytest.mark.parametrize("maximize", [False, True])
def test_adamw_follows_pytorch(amsgrad: bool, maximize: bool) -> None:
    parameter = torch.nn.Parameter(torch.randn(7))
    var = parameter.detach().clone()
    m, v, max_v = (torch.zeros(7) for _ in range(3))
    options: dict[str, Any] = {"lr": 0.1, "weight_decay": 0.02, "eps": 1e-8}
    optimiser = torch.optim.AdamW(
        [parameter], betas=(0.9, 0.99), amsgrad=amsgrad, maximize=maximize, **options
    )
    for step in range(3):
        parameter.grad = torch.randn(7)
        values = {"var": var, "m": m, "v": v, "max_v": max_v, "grad": parameter.grad.clone(),
                  "step": torch.tensor(float(step)), "beta1": 0.9, "beta2": 0.99,
                  "amsgrad": amsgrad, "maximize": maximize} | options  # fmt: skip
        aclnn.call("aclnnApplyAdamWV2", values)
        optimiser.step()
        close(var, parameter.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("overflow", [False, True])
def test_loss_scale_update(overflow: bool) -> None:
    scale, tracker = torch.tensor([8.0]), torch.tensor([1], dtype=torch.int32)
    values = {"current_scale": scale, "growth_tracker": tracker, "growth_factor": 2.0,
              "found_inf": torch.tensor([float(overflow)]), "backoff_factor": 0.5,
              "growth_interval": 2, "scale": scale, "tracker": tracker}  # fmt: skip
    aclnn.call("aclnnAmpUpdateScale", values)
    assert scale.item() == (4.0 if overflow else 16.0) and tracker.item() == 0


@pytest.mark.parametrize(("mode", "function"), [(1, "round"), (2, "floor"), (7, "frac")])
def test_foreach_rounding_with_its_mode_in_memory(mode: int, function: str) -> None:
    tensors = [torch.randn(4) * 3, torch.randn(2) * 3]
    out = [torch.zeros(4), torch.zeros(2)]
    values = {"tensors": tensors, "mode": torch.tensor(mode, dtype=torch.int8), "out": out}
    aclnn.call("aclnnForeachRoundOffNumber", values)
    close(out, [getattr(torch, function)(t) for t in tensors])


def test_index_marks_for_whole_dimensions() -> None:
    """op-plugin marks x[:, i] by a tensor of size [0] with the dtype of x."""
    x, index = torch.randn(3, 5), torch.tensor([4, 0])
    out = torch.zeros(3, 2)
    aclnn.call("aclnnIndex", {"self": x, "indices": [torch.empty(0), index], "out": out})
    close(out, x[:, index])
    numbers = torch.arange(15).reshape(3, 5)
    found = torch.zeros(3, 2, dtype=torch.int64)
    mark = torch.empty(0, dtype=torch.int64)
    aclnn.call("aclnnIndex", {"self": numbers, "indices": [mark, index], "out": found})
    close(found, numbers[:, index])


def test_an_empty_index_selects_nothing() -> None:
    x, out = torch.randn(3, 5), torch.zeros(0, 5)
    values = {"self": x, "indices": [torch.empty(0, dtype=torch.int64)], "out": out}
    aclnn.call("aclnnIndex", values)
