"""An operator that takes host integers, with a graph handler: updates without an attention kernel.

`scale_rows(x, lens)` multiplies row i by lens[i], each by a kernel of its own, whose scalar is
baked into a graph unless it is updated.
"""

import torch
import torch_npu
from torch_npu.npu._npugraph_handlers.npugraph_handler import NpuGraphOpHandler

_library = torch.library.Library("aclgraph_test", "DEF")
_library.define("scale_rows(Tensor x, int[] lens) -> Tensor")
_library.define("scale_rows.out(Tensor x, int[] lens, *, Tensor(a!) out) -> Tensor(a!)")


def _scale_rows_out(x, lens, *, out):
    for row, length in enumerate(lens):
        torch.mul(x[row], float(length), out=out[row])
    return out


_library.impl("scale_rows.out", _scale_rows_out, "PrivateUse1")
_library.impl(
    "scale_rows",
    lambda x, lens: _scale_rows_out(x, lens, out=torch.empty_like(x)),
    "PrivateUse1",
)


@torch_npu.npu.register_npu_graph_handler(["scale_rows.default", "scale_rows.out"])
class _ScaleRowsHandler(NpuGraphOpHandler):
    UPDATE_SPECS = {"scale_rows.out": [("arg", 1, "lens")], "scale_rows.default": []}

    @classmethod
    def prepare_capture(cls, func, args, kwargs):
        out = torch.empty_like(args[0])
        return torch.ops.aclgraph_test.scale_rows.out, args, {"out": out}


scale_rows = torch.ops.aclgraph_test.scale_rows
