"""Six element-wise operators captured in a graph and replayed with a new input."""

import torch
import torch_npu  # noqa: F401


def chain(x: torch.Tensor) -> torch.Tensor:
    return ((((x + 1) * 2 - 3).abs() / 4).sqrt()).exp()


x = torch.zeros(16, 512, device="npu")
graph = torch.npu.NPUGraph()
chain(x)
with torch.npu.graph(graph):
    y = chain(x)
new = torch.randn(16, 512)
x.copy_(new)
graph.replay()
torch.npu.synchronize()
torch.testing.assert_close(y.cpu(), chain(new))
print("six captured operators: right result")
