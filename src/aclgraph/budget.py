"""How many graphs the device has streams for.

A captured graph holds device streams until it is destroyed, and a device has 1984 of them (A2 and
A3; aclrtCreateStream's page). When they run out a capture fails with 207005 or 207008, at some size
in the middle. Here the question is asked before the first capture.
"""

import ctypes
from dataclasses import dataclass

from aclgraph.errors import BudgetError, ConfigError
from aclgraph.sizes import CaptureSizes

# vllm-ascend counted 2048 streams and kept 248 back (utils.py until commit 5f2ef5a0b2).
LEGACY_STREAMS = 1800
# What an inference process needs besides graphs: the allocator's, communication's, copy streams.
LIVE_RESERVE = 64


@dataclass(frozen=True)
class Parallelism:
    """What the legacy formula asks about a deployment (1 or False: not used)."""

    tp: int = 1
    dp: int = 1
    prefill_cp: int = 1
    decode_cp: int = 1
    expert_parallel: bool = False
    multistream_shared_expert: bool = False
    moe: bool = False
    # HCCL_OP_EXPANSION_MODE=AIV: communication runs on vector cores and takes fewer streams.
    aiv: bool = False


@dataclass(frozen=True)
class BudgetPlan:
    """Outcome of fitting a list of sizes into a number of streams.

    Attributes:
        sizes: what to capture; its `dropped` says what was left out.
        fits: how many sizes there would be room for.
        streams: streams that were counted on, None if the runtime could not say.
    """

    sizes: CaptureSizes
    fits: int
    streams: int | None

    def __str__(self) -> str:
        lost = [item.size for item in self.sizes.dropped]
        text = "unknown" if self.streams is None else str(self.streams)
        note = f"; dropped {lost}" if lost else ""
        return f"{len(self.sizes.sizes)} sizes, room for {self.fits}, streams {text}{note}"


def legacy_limit(
    num_sizes: int,
    num_layers: int,
    parallel: Parallelism,
    *,
    draft_layers: int = 0,
    full_and_piecewise: bool = False,
) -> int:
    """Sizes that vllm-ascend's formula of before June 2026 allows in PIECEWISE mode.

    Piecewise graphs take a stream per piece, and a model of n layers has n + 1 pieces. The formula
    was removed upstream (vllm-ascend #9962) because newer drivers bind streams when a graph runs;
    it is right for CANN before 8.5.

    Args:
        num_sizes: length of the list, counted off in FULL_AND_PIECEWISE mode.
        num_layers, draft_layers: hidden layers of the model and of its draft model, if any.
    """
    pieces = num_layers + 1 + (draft_layers + 1 if draft_layers else 0)
    streams = LEGACY_STREAMS - (num_sizes if full_and_piecewise else 0)
    groups = (parallel.dp > 1) + (parallel.tp > 1)
    if parallel.aiv:
        per_piece = 1 + groups + parallel.expert_parallel + parallel.multistream_shared_expert
        if parallel.moe:
            per_piece += parallel.dp > 1
        else:
            streams -= per_piece * pieces
        return max(0, streams // (pieces * per_piece))
    streams -= 100 * ((parallel.prefill_cp > 1) + (parallel.decode_cp > 1))
    return max(0, (streams - 40 * groups) // (pieces * (1 + 2 * groups)))


def thin_out(sizes: CaptureSizes, limit: int, reason: str) -> CaptureSizes:
    """At most `limit` sizes, evenly chosen, with both ends kept; one alone is the largest."""
    count = len(sizes.sizes)
    if limit >= count:
        return sizes
    if limit <= 1:
        return sizes.keep(sizes.sizes[-1:], reason)
    step = (count - 1) / (limit - 1)
    return sizes.keep((sizes.sizes[round(i * step)] for i in range(limit)), reason)


def available_streams() -> int | None:
    """Streams that the current device can still create, or None if the runtime can't say.

    Asks `aclrtGetStreamAvailableNum` of libascendcl, which torch_npu does not offer. A device must
    be in use already (`torch.npu.set_device`).
    """
    try:
        query = ctypes.CDLL("libascendcl.so").aclrtGetStreamAvailableNum
    except (OSError, AttributeError):
        return None
    count = ctypes.c_uint32()
    return count.value if query(ctypes.byref(count)) == 0 else None


def live_plan(
    sizes: CaptureSizes,
    *,
    streams_per_graph: int = 1,
    reserve: int = LIVE_RESERVE,
    streams: int | None = None,
) -> BudgetPlan:
    """Fits `sizes` into the streams that the device has left right now.

    Args:
        streams_per_graph: 1 for a full graph on one stream; plus one per side stream that the step
            forks to, plus those of communication; times the pieces for piecewise graphs.
        reserve: streams to leave for the rest of the process.
        streams: streams to count on instead of asking the runtime.

    Raises:
        BudgetError: not even one graph fits.
    """
    if streams_per_graph < 1 or reserve < 0:
        raise ConfigError(
            f"streams_per_graph {streams_per_graph} must be at least 1, "
            f"reserve {reserve} at least 0"
        )
    free = available_streams() if streams is None else streams
    if free is None:
        return BudgetPlan(sizes, len(sizes.sizes), None)
    fits = max(0, free - reserve) // streams_per_graph
    if fits < 1:
        raise BudgetError(
            f"no graph fits: the device has {free} streams left, {reserve} are kept back and a "
            f"graph takes {streams_per_graph}. Free streams (destroy graphs, stop processes on "
            "this device), lower `reserve`, or capture fewer side streams"
        )
    reason = f"the device has streams for {fits} graphs ({free} left, {reserve} kept back)"
    return BudgetPlan(thin_out(sizes, fits, reason), fits, free)
