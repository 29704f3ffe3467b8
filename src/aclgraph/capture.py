"""One bucket: warm-up, capture, and the captured graph."""

import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._pytree import TreeSpec, tree_flatten, tree_unflatten
from torch_npu._C import _weak_ref_tensor

from aclgraph.dispatch import GraphKey
from aclgraph.errors import CaptureError
from aclgraph.trace import Trace, storage_of, traced

# What a device's error code in a failed capture means for the author of the step. Codes as seen in
# vllm-ascend's issues and listed by torch_npu (NPUErrorCodes.h).
HINTS = {
    "107024": "the step waits for an event recorded before the capture; record it inside the step",
    "107025": "a side stream of the step was not joined: `current_stream().wait_stream(side)`",
    "107027": "the step waits for the device (.item(), print, .cpu(), nonzero, a Python branch on "
    "a tensor). Keep the value on the device, or pass it in as a HostInput",
    "107028": "an event of the capture is queried or synchronised, perhaps by another thread",
    "107030": "a synchronous copy or memset ran during the capture, perhaps in another thread; "
    "stop it meanwhile, or capture with capture_error_mode='thread_local'",
    "107031": "work on the default stream joined the capture",
    "107041": "the step copies pageable host memory; declare it as an Input",
    "207001": "out of device memory; capture fewer or smaller sizes",
    "207005": "the device has no streams left; plan with aclgraph.live_plan()",
    "207008": "the device has no streams left; plan with aclgraph.live_plan()",
}


@dataclass
class CapturedGraph:
    """A bucket's graph and its static outputs.

    Attributes:
        key: what it was captured for.
        graph: the torch.npu.NPUGraph.
        outputs: the step's result, flattened. What the step allocated is known here without being
            owned, so that the graphs captured after this one may use the same memory of the pool.
        storages: per output, which memory it is in (`storage_of`); 0 if it is no tensor.
        structure: how to put `outputs` together again.
        trace: what the warm-up run was seen to do.
        bytes: device memory that this capture added to what the process holds.
        seconds: time of warm-up and capture.
    """

    key: GraphKey
    graph: Any
    outputs: list[Any]
    storages: list[int]
    structure: TreeSpec
    trace: Trace
    bytes: int
    seconds: float
    views: dict[int, Any] = field(default_factory=dict)

    def result(self, rows: Callable[[int], int | None]) -> Any:
        """The step's result with each output `i` cut to its first `rows(i)` rows (None: whole)."""
        leaves = [
            leaf if (count := rows(i)) is None else leaf[:count]
            for i, leaf in enumerate(self.outputs)
        ]
        for leaf in leaves:
            if isinstance(leaf, torch.Tensor):
                # The memory lives as long as the graph; who holds a result must not outlive it.
                leaf._aclgraph_graph = self.graph
        return tree_unflatten(leaves, self.structure)


def capture(
    step: Callable[[], Any],
    key: GraphKey,
    *,
    pool: Any,
    stream: Any,
    auto_dispatch: bool,
    error_mode: str,
) -> CapturedGraph:
    """Warms `step` up eagerly, then captures it.

    Raises:
        CaptureError: the step does what no graph can hold, or the device refused. Names the bucket;
            the stream is the caller's again, and other captures may follow.
    """
    begin = time.perf_counter()
    try:
        warm, trace = traced(step)
        torch.npu.synchronize()
    except Exception as error:
        raise failed(key, "its warm-up run", error) from error
    _refuse_host_traffic(key, trace)
    made = [_is_made(leaf, trace) for leaf in tree_flatten(warm)[0]]
    del warm
    torch.npu.empty_cache()
    before = torch.npu.memory_reserved()
    graph = torch.npu.NPUGraph()
    try:
        result = _record(step, graph, pool, stream, auto_dispatch, error_mode)
    except Exception as error:
        raise failed(key, "its capture", error) from error
    leaves, structure = tree_flatten(result)
    storages = [storage_of(leaf) if isinstance(leaf, torch.Tensor) else 0 for leaf in leaves]
    if len(made) == len(leaves):
        leaves = [
            _weak_ref_tensor(leaf) if own else leaf for leaf, own in zip(leaves, made, strict=True)
        ]
    added = torch.npu.memory_reserved() - before
    seconds = time.perf_counter() - begin
    return CapturedGraph(key, graph, leaves, storages, structure, trace, added, seconds)


def _is_made(leaf: Any, trace: Trace) -> bool:
    return isinstance(leaf, torch.Tensor) and storage_of(leaf) in trace.made


def failed(key: GraphKey, what: str, error: BaseException) -> CaptureError:
    """The error of a bucket, with a hint if the device's code is known."""
    text = str(error)
    hint = next((f" Hint: {hint}." for code, hint in HINTS.items() if code in text), "")
    first = text.strip().splitlines()[0] if text.strip() else type(error).__name__
    return CaptureError(
        f"the bucket of {key.num_tokens} tokens could not be captured: {what} failed with "
        f"{type(error).__name__}: {first}.{hint}"
    )


def _record(
    step: Callable[[], Any], graph: Any, pool: Any, stream: Any, auto: bool, mode: str
) -> Any:
    """Like `torch.npu.graph`, which leaves stream and dispatch mode behind when a capture fails."""
    torch.npu.synchronize()
    graph.auto_dispatch_capture = auto
    with torch.npu.stream(stream):
        graph.capture_begin(pool=pool, capture_error_mode=mode)
        try:
            if not auto:
                result = step()
            else:
                with graph.graph_dispatch_mode:
                    result = step()
        except BaseException:
            _end_quietly(graph)
            raise
        graph.capture_end()
    return result


def _end_quietly(graph: Any) -> None:
    """Ends a capture that has failed already; its own error would hide the cause."""
    with suppress(RuntimeError):
        graph.capture_end()


def _refuse_host_traffic(key: GraphKey, trace: Trace) -> None:
    if trace.host_reads:
        raise CaptureError(
            f"the bucket of {key.num_tokens} tokens can't be captured: the step reads device "
            f"values on the host ({'; '.join(trace.host_reads[:3])}). A graph can't wait for the "
            "host. Keep the value on the device, or pass it in as a HostInput"
        )
    if trace.host_copies:
        raise CaptureError(
            f"the bucket of {key.num_tokens} tokens can't be captured: the step copies host memory "
            f"({'; '.join(trace.host_copies[:3])}), which a graph would read at its old address "
            "with its old content. Declare the tensor as an Input"
        )
