"""One decode step of a transformer block, captured once with ACLGraph and replayed for every token.

RMSNorm (TileLang) -> q/k/v projection -> RoPE in place (TileLang) -> KV-cache write -> attention of
one token over the cache -> output projection -> residual.

The TileLang kernels ride on the stream that torch_npu's operators use, so the capture takes them in
like any other operator. Everything that changes from step to step (the token and its position)
enters through buffers whose addresses stay the same; the graph holds addresses.

Needs torch, torch_npu and TileLang-Ascend (the dialect with `T.Kernel(..., is_npu=True)`), and an
Ascend NPU or softnpu: `softnpu run aclgraph_decode_block.py`.
"""

import argparse
import math
import time

import tilelang
import tilelang.language as T
import torch
import torch_npu

EPS = 1e-5
DTYPE = "float16"
PASS_CONFIGS = {
    tilelang.PassConfigKey.TL_ASCEND_AUTO_SYNC: True,
    tilelang.PassConfigKey.TL_ASCEND_MEMORY_PLANNING: True,
    tilelang.PassConfigKey.TL_ASCEND_AUTO_CV_COMBINE: True,
    tilelang.PassConfigKey.TL_ASCEND_AUTO_CV_SYNC: True,
}


def build_rms_norm(batch, hidden, auto_cv_combine):
    """out[b] = x[b] / sqrt(mean(x[b]^2) + eps) * weight; one row per vector core."""

    @tilelang.jit(out_idx=[-1], pass_configs=with_combine(auto_cv_combine))
    def rms_norm(batch, hidden):
        @T.prim_func
        def main_rms(
            x: T.Tensor((batch, hidden), DTYPE),
            weight: T.Tensor((1, hidden), DTYPE),
            out: T.Tensor((batch, hidden), DTYPE),
        ):
            with T.Kernel(T.ceildiv(batch, 2), is_npu=True) as (cid, vid):
                row = cid * 2 + vid
                x_ub = T.alloc_ub((1, hidden), DTYPE)
                weight_ub = T.alloc_ub((1, hidden), DTYPE)
                wide = T.alloc_ub((1, hidden), "float32")
                scale = T.alloc_ub((1, hidden), "float32")
                mean = T.alloc_ub((1,), "float32")

                T.copy(x[row : row + 1, :], x_ub)
                T.copy(weight, weight_ub)
                T.copy(x_ub, wide)
                T.tile.mul(scale, wide, wide)
                T.reduce_sum(scale, mean, dim=-1)
                T.tile.div(mean, mean, hidden)
                T.tile.add(mean, mean, EPS)
                T.tile.sqrt(mean, mean)
                T.tile.div(wide, wide, mean[0])
                T.copy(weight_ub, scale)
                T.tile.mul(wide, wide, scale)
                T.copy(wide, x_ub)
                T.copy(x_ub, out[row : row + 1, :])

        return main_rms

    return rms_norm(batch, hidden)


def build_rope(batch, heads, head_size, auto_cv_combine):
    """Rotates x[b, h] by the angles of token b, in place; the halves of a head form the pairs."""

    @tilelang.jit(out_idx=None, pass_configs=with_combine(auto_cv_combine))
    def rope(batch, heads, head_size):
        half = head_size // 2
        rows = (heads + 1) // 2  # the two vector cores of a block share a token's heads

        @T.prim_func
        def main_rope(
            x: T.Tensor((batch, heads, head_size), DTYPE),
            cos: T.Tensor((batch, half), "float32"),
            sin: T.Tensor((batch, half), "float32"),
        ):
            with T.Kernel(batch, is_npu=True) as (cid, vid):
                first = vid * rows
                part = T.alloc_ub((rows, half), DTYPE)
                low = T.alloc_ub((rows, half), "float32")
                high = T.alloc_ub((rows, half), "float32")
                angle = T.alloc_ub((1, half), "float32")
                cos_ub = T.alloc_ub((rows, half), "float32")
                sin_ub = T.alloc_ub((rows, half), "float32")
                turned = T.alloc_ub((rows, half), "float32")
                other = T.alloc_ub((rows, half), "float32")

                T.copy(cos[cid : cid + 1, :], angle)
                T.tile.broadcast(cos_ub, angle)
                T.copy(sin[cid : cid + 1, :], angle)
                T.tile.broadcast(sin_ub, angle)
                T.copy(x[cid, first : first + rows, 0:half], part)
                T.copy(part, low)
                T.copy(x[cid, first : first + rows, half:head_size], part)
                T.copy(part, high)

                T.tile.mul(turned, low, cos_ub)
                T.tile.mul(other, high, sin_ub)
                T.tile.sub(turned, turned, other)
                T.copy(turned, part)
                T.copy(part, x[cid, first : first + rows, 0:half])

                T.tile.mul(turned, high, cos_ub)
                T.tile.mul(other, low, sin_ub)
                T.tile.add(turned, turned, other)
                T.copy(turned, part)
                T.copy(part, x[cid, first : first + rows, half:head_size])

        return main_rope

    return rope(batch, heads, head_size)


def with_combine(on):
    return {**PASS_CONFIGS, tilelang.PassConfigKey.TL_ASCEND_AUTO_CV_COMBINE: on}


class DecodeBlock:
    """Weights, KV cache and static inputs of one block; `step()` is what gets captured."""

    def __init__(self, args, weights, device):
        self.batch, self.heads, self.head_size = args.batch, args.heads, args.head_size
        self.length = args.steps
        self.weights = {name: value.half().to(device) for name, value in weights.items()}
        self.rms_norm = build_rms_norm(args.batch, args.hidden, args.auto_cv_combine)
        self.rope = build_rope(args.batch, args.heads, args.head_size, args.auto_cv_combine)

        rows = args.batch * args.heads
        cache = (rows, self.length, args.head_size)
        self.k_cache = torch.zeros(cache, dtype=torch.half, device=device)
        self.v_cache = torch.zeros_like(self.k_cache)
        self.first_slot = torch.arange(rows, device=device) * self.length
        self.places = torch.arange(self.length, device=device)
        cos, sin = rope_table(self.length, args.head_size)
        self.cos_table, self.sin_table = cos.to(device), sin.to(device)

        # Static inputs: the graph reads these addresses at every replay.
        self.token = torch.zeros(args.batch, args.hidden, dtype=torch.half, device=device)
        self.position = torch.zeros(1, dtype=torch.long, device=device)

    def reset(self):
        self.k_cache.zero_()
        self.v_cache.zero_()

    def feed(self, token, position):
        """Stages the next step's inputs; both sources are device tensors made beforehand."""
        self.token.copy_(token)
        self.position.copy_(position)

    def step(self):
        """`token` [batch, hidden] fp16, `position` [1] int64 -> the output, like `token`."""
        heads = (self.batch, self.heads, self.head_size)
        normed = self.rms_norm(self.token, self.weights["norm"])
        q = torch.mm(normed, self.weights["q"]).view(heads)
        k = torch.mm(normed, self.weights["k"]).view(heads)
        v = torch.mm(normed, self.weights["v"]).view(heads)

        cos = self.cos_table.index_select(0, self.position).expand(self.batch, -1).contiguous()
        sin = self.sin_table.index_select(0, self.position).expand(self.batch, -1).contiguous()
        self.rope(q, cos, sin)
        self.rope(k, cos, sin)

        slots = self.first_slot + self.position
        self.k_cache.view(-1, self.head_size).index_put_((slots,), k.view(-1, self.head_size))
        self.v_cache.view(-1, self.head_size).index_put_((slots,), v.view(-1, self.head_size))

        scores = torch.bmm(q.view(-1, 1, self.head_size), self.k_cache.transpose(1, 2))
        scores = scores.float() * (1.0 / math.sqrt(self.head_size))
        scores = scores.masked_fill(self.places > self.position, float("-inf"))
        attended = torch.bmm(torch.softmax(scores, dim=-1).half(), self.v_cache)
        return self.token + torch.mm(attended.view(self.batch, -1), self.weights["o"])


def rope_table(length, head_size):
    """cos and sin of position * 10000^(-2i / head_size): two [length, head_size / 2], fp32."""
    inverse = 10000.0 ** (-torch.arange(0, head_size, 2, dtype=torch.float32) / head_size)
    angles = torch.arange(length, dtype=torch.float32)[:, None] * inverse[None, :]
    return angles.cos(), angles.sin()


def reference(args, weights, tokens):
    """The same steps in fp32 on the CPU: [steps, batch, hidden]."""
    shape = (args.batch, args.heads, args.head_size)
    cos_table, sin_table = rope_table(args.steps, args.head_size)

    def turn(x, step):
        low, high = x.chunk(2, dim=-1)
        cos, sin = cos_table[step], sin_table[step]
        return torch.cat((low * cos - high * sin, high * cos + low * sin), dim=-1)

    keys, values, outputs = [], [], []
    for step, token in enumerate(tokens.float()):
        scale = torch.rsqrt(token.pow(2).mean(dim=-1, keepdim=True) + EPS)
        normed = token * scale * weights["norm"]
        q, k, v = ((normed @ weights[name]).view(shape) for name in "qkv")
        keys.append(turn(k, step))
        values.append(v)
        scores = torch.einsum("bhd,bhld->bhl", turn(q, step), torch.stack(keys, dim=2))
        weight = torch.softmax(scores / math.sqrt(args.head_size), dim=-1)
        attended = torch.einsum("bhl,bhld->bhd", weight, torch.stack(values, dim=2))
        outputs.append(token + attended.reshape(args.batch, -1) @ weights["o"])
    return torch.stack(outputs)


def decode(block, tokens, positions, run):
    """All steps; returns the outputs, and the host's and the whole time per step in us."""
    block.reset()
    outputs = torch.empty_like(tokens)
    torch.npu.synchronize()
    begin = time.perf_counter()
    for step in range(len(tokens)):
        block.feed(tokens[step], positions[step])
        outputs[step].copy_(run())
    dispatched = time.perf_counter()
    torch.npu.synchronize()
    finished = time.perf_counter()
    scale = 1e6 / len(tokens)
    return outputs, (dispatched - begin) * scale, (finished - begin) * scale


def capture(block):
    """Captures one step; the outputs of every replay land in the tensor returned here."""
    block.step()  # warm-up: kernels get compiled, the allocator's pool gets filled
    torch.npu.synchronize()
    graph = torch.npu.NPUGraph()
    with torch.npu.graph(graph):
        output = block.step()

    def replay():
        graph.replay()
        return output

    return replay


def cann_version():
    try:
        from torch_npu.npu.utils import get_cann_version

        return get_cann_version("CANN")
    except Exception:  # an NPU's software may lack the version files; the run is valid without
        return "unknown"


def report(args, rows):
    print()
    print(f"NPU model         {torch.npu.get_device_name(0)}")
    print(f"CANN              {cann_version()}")
    print(f"torch / torch_npu {torch.__version__} / {torch_npu.__version__}")
    print(f"batch {args.batch}  heads {args.heads}  hidden {args.hidden}  steps {args.steps}")
    print(f"AUTO_CV_COMBINE   {'on' if args.auto_cv_combine else 'off'}")
    print()
    print(f"{'per step':<12}{'graph':>7}{'host dispatch':>17}{'end to end':>15}")
    for name, graph, host, total in rows:
        print(f"{name:<12}{graph:>7}{host:>14.1f} us{total:>12.1f} us")


def parse_arguments():
    parser = argparse.ArgumentParser(description="A decode step as an ACLGraph")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--heads", type=int, default=16)
    parser.add_argument("--head-size", type=int, default=64)
    parser.add_argument("--steps", type=int, default=32, help="tokens to decode")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--eager", action="store_true", help="no graph: the eager run alone")
    parser.add_argument("--no-auto-cv-combine", dest="auto_cv_combine", action="store_false")
    args = parser.parse_args()
    for name in ("batch", "heads", "head_size", "steps"):
        if getattr(args, name) < 1:
            parser.error(f"--{name.replace('_', '-')} must be at least 1")
    if args.head_size % 32:
        parser.error("--head-size must be a multiple of 32 (half a head fills 32-byte blocks)")
    args.hidden = args.heads * args.head_size
    return args


def main():
    args = parse_arguments()
    torch.manual_seed(args.seed)
    scale = 1.0 / math.sqrt(args.hidden)
    weights = {name: torch.randn(args.hidden, args.hidden) * scale for name in "qkvo"}
    weights["norm"] = 1.0 + 0.1 * torch.randn(1, args.hidden)
    weights = {name: value.half().float() for name, value in weights.items()}
    tokens = torch.randn(args.steps, args.batch, args.hidden).half()

    block = DecodeBlock(args, weights, "npu")
    device_tokens = tokens.npu()
    positions = torch.arange(args.steps).view(-1, 1).npu()
    decode(block, device_tokens, positions, block.step)  # warm-up
    eager, eager_host, eager_total = decode(block, device_tokens, positions, block.step)
    rows = [("eager", "off", eager_host, eager_total)]
    result = eager
    if not args.eager:
        replay = capture(block)
        decode(block, device_tokens, positions, replay)  # warm-up
        result, host, total = decode(block, device_tokens, positions, replay)
        rows.append(("replay", "on", host, total))

    expected = reference(args, weights, tokens)
    torch.testing.assert_close(result.float().cpu(), expected, rtol=1e-2, atol=1e-2)
    print("Kernel Output Match!")
    if not args.eager:
        if not torch.equal(eager.cpu(), result.cpu()):
            raise SystemExit("eager != graph: the graph computes something else")
        print(f"eager == graph: bit-identical over {args.steps} steps")
    report(args, rows)


if __name__ == "__main__":
    main()
