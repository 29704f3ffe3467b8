"""New sequence lengths for 32 captured attention calls, against 32 eager attention calls."""

import torch
import torch_npu
from timing import Row, compare

from aclgraph import DecodeRunner, Dispatcher, GraphMode, HostInput, Input, user_sizes

LAYERS, REQUESTS, HEADS, KV_HEADS, DIM, BLOCK, BLOCKS = 32, 8, 16, 4, 128, 128, 16


def measure() -> list[Row]:
    torch.manual_seed(0)
    shape = (BLOCKS, BLOCK, KV_HEADS * DIM)
    key, value = (torch.randn(shape).half().npu() for _ in range(2))
    table = torch.randperm(BLOCKS, dtype=torch.int32).view(REQUESTS, -1).npu()

    def attention(q, lens):
        return torch_npu.npu_fused_infer_attention_score(
            q,
            key,
            value,
            actual_seq_lengths_kv=lens,
            block_table=table,
            block_size=BLOCK,
            input_layout="BNSD",
            num_heads=HEADS,
            num_key_value_heads=KV_HEADS,
            scale=DIM**-0.5,
        )[0]

    def step(q, lens):
        for _ in range(LAYERS):
            q = attention(q, lens)
        return q

    dispatcher = Dispatcher(GraphMode.FULL_DECODE_ONLY, user_sizes([REQUESTS]), REQUESTS)
    lens = HostInput("lens", updates="actual_seq_lengths_kv", capture_value=2 * BLOCK)
    q = torch.randn(REQUESTS, HEADS, 1, DIM).half().npu()
    runner = DecodeRunner(step, dispatcher, [Input("q", q.shape[1:], q.dtype)], host_inputs=[lens])
    runner.capture()
    lengths = [2 * BLOCK - i for i in range(REQUESTS)]
    decision = dispatcher.lookup(REQUESTS, True)
    replayed = runner.run(decision, {"q": q}, {"lens": lengths})
    assert torch.equal(replayed.cpu(), step(q, lengths).cpu())
    graph = runner.graphs[decision.key].graph
    # An update whose operators no replay takes up only releases them once more.
    arguments = [{"actual_seq_lengths_kv": lengths}]

    def update() -> None:
        graph.update(cpu_update_input=arguments)
        torch.npu.synchronize()

    def eager() -> None:
        for _ in range(LAYERS):
            attention(q, lengths)
        torch.npu.synchronize()

    ours, calls = compare(update, eager, 1, 1, rounds=9)
    return [
        Row("aclgraph: update of 32 layers' lengths", ours, calls, 0.5, "step", "32 eager calls")
    ]
