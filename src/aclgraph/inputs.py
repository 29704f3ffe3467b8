"""Static inputs: the tensors whose addresses a graph holds, and what their unused rows contain.

A replay runs at the size of its bucket whatever the batch's own size, so every row past the batch
must hold something harmless. Which value is harmless is a property of the input, declared once
here. Values follow vllm-ascend (`model_runner_v1.py`): slot -1 is "write nowhere", block 0 exists
in every cache, length 0 is "no tokens".
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

import torch

from aclgraph.errors import ConfigError, InputError


class Per(Enum):
    """What one row of an input belongs to."""

    TOKEN = "token"
    REQUEST = "request"
    # One more row than requests; row i is where request i's tokens start. Padding goes on with the
    # stride of the query length, so that padded requests own the padded tokens.
    BOUNDARY = "boundary"
    # No rows: the whole tensor is copied each step.
    STEP = "step"


@dataclass(frozen=True)
class Input:
    """A tensor that changes from step to step.

    Attributes:
        name: the step's keyword argument.
        shape: dimensions after the rows; () for one number per row. With `Per.STEP` all of
            them.
        dtype: exactly this; a cast would be one more kernel per step.
        per: what a row is.
        pad: value of unused rows. Ignored for `Per.BOUNDARY` and `Per.STEP`. None claims that the
            step never looks at them: they are left as they are, and `verify()` checks the claim.
    """

    name: str
    shape: tuple[int, ...] = ()
    dtype: torch.dtype = torch.int64
    per: Per = Per.TOKEN
    pad: float | None = 0

    def rows(self, num_tokens: int, query_len: int) -> int:
        """Rows of a batch of `num_tokens` tokens, `query_len` per request."""
        if self.per is Per.TOKEN:
            return num_tokens
        if self.per is Per.STEP:
            return self.shape[0] if self.shape else 1
        requests = num_tokens // query_len
        return requests + 1 if self.per is Per.BOUNDARY else requests


@dataclass(frozen=True)
class HostInput:
    """A list of integers that an operator takes from the host, such as KV lengths.

    Such values are baked into a graph at capture. They follow the batch only if the operator is
    captured in a task group and updated before each replay (`NPUGraph.update`), which torch_npu
    does for the operators that have a graph handler.

    Attributes:
        name: the step's keyword argument; the step gets a list of ints, one per request.
        updates: the operators' keyword that it goes to, as `NPUGraph.update` names it, e.g.
            "actual_seq_lengths_kv" or "context_lens".
        pad: value for the unused requests; with `cumulative` they go on in steps of query_len.
        capture_value: value per request while capturing. Workspaces are sized by it, so give the
            length that needs the largest one (not always the longest).
        minimum: smaller values are refused. A negative length is a kernel's slow path at best.
        cumulative: entry i is the end of request i's tokens, as in the TND layout.
    """

    name: str
    updates: str
    pad: int = 0
    capture_value: int = 1
    minimum: int = 0
    cumulative: bool = False

    def padded(self, values: Sequence[int], requests: int, query_len: int) -> list[int]:
        """`values` filled up to `requests` entries.

        Raises:
            InputError: there are more values than requests, or one is below the minimum.
        """
        missing = requests - len(values)
        if missing < 0:
            raise InputError(
                f"host input {self.name!r} has {len(values)} values; the bucket has room for "
                f"{requests} requests"
            )
        if values and min(values) < self.minimum:
            raise InputError(
                f"host input {self.name!r} has the value {min(values)} for request "
                f"{list(values).index(min(values))}; the minimum is {self.minimum}. Clamp it, or "
                "declare another minimum"
            )
        if not self.cumulative:
            return [*values, *[self.pad] * missing]
        last = values[-1] if values else 0
        return [*values, *(last + query_len * (i + 1) for i in range(missing))]

    def at_capture(self, requests: int, query_len: int) -> list[int]:
        """What the step gets while it is warmed up and captured."""
        if self.cumulative:
            return [query_len * (i + 1) for i in range(requests)]
        return [self.capture_value] * requests


# The inputs of a paged decode step, with the padding that its kernels expect.


def tokens(name: str = "tokens") -> Input:
    return Input(name, dtype=torch.int64)


def positions(name: str = "positions") -> Input:
    return Input(name, dtype=torch.int64)


def slot_mapping(name: str = "slot_mapping", dtype: torch.dtype = torch.int32) -> Input:
    """Cache slot that each token is written to; padding -1 is written nowhere."""
    return Input(name, dtype=dtype, pad=-1)


def block_table(blocks: int, name: str = "block_table", dtype: torch.dtype = torch.int32) -> Input:
    """Cache blocks of each request, `blocks` columns; padding is block 0, which exists."""
    return Input(name, (blocks,), dtype, Per.REQUEST)


def seq_lens(name: str = "seq_lens", dtype: torch.dtype = torch.int32) -> Input:
    return Input(name, (), dtype, Per.REQUEST)


def query_start_loc(name: str = "query_start_loc", dtype: torch.dtype = torch.int32) -> Input:
    return Input(name, (), dtype, Per.BOUNDARY)


class Buffer:
    """One static tensor, large enough for the largest bucket.

    All buckets share it: a bucket's view is its first rows. Rows from `dirty` on hold padding, so
    a step pads only what the step before left behind.
    """

    def __init__(self, spec: Input, num_tokens: int, query_len: int, device: torch.device) -> None:
        self.spec, self.name, self.query_len = spec, spec.name, query_len
        self.capacity = spec.rows(num_tokens, query_len)
        shape = spec.shape if spec.per is Per.STEP else (self.capacity, *spec.shape)
        self._padding = torch.full(shape, spec.pad or 0, dtype=spec.dtype)
        if spec.per is Per.BOUNDARY:
            self._padding.copy_(torch.arange(self.capacity) * query_len)
        self._padding = self._padding.to(device)
        self.tensor = self._padding.clone()
        self._keep_rest = spec.per is Per.STEP or (
            spec.pad is None and spec.per is not Per.BOUNDARY
        )
        # A step that writes into its input spoils the padding at every replay.
        self.written_by_step = False
        self.dirty = 0
        self._views: dict[int, torch.Tensor] = {}
        self._tails: dict[tuple[int, int], tuple[torch.Tensor, torch.Tensor]] = {}

    def view(self, rows: int) -> torch.Tensor:
        """The first `rows` rows; the same tensor object every time."""
        view = self._views.get(rows)
        if view is None:
            whole = self.spec.per is Per.STEP
            view = self._views[rows] = self.tensor if whole else self.tensor[:rows]
        return view

    def settle(self, rows: int) -> None:
        """Pads what lies behind the `rows` rows that were just copied in."""
        if self.dirty > rows:
            self.pad(rows, self.dirty)
        self.dirty = self.capacity if self.written_by_step else rows

    def pad(self, first: int, last: int) -> None:
        """Puts padding into rows first to last - 1."""
        if self._keep_rest:
            return
        pair = self._tails.get((first, last))
        if pair is None:
            pair = self.tensor[first:last], self._padding[first:last]
            self._tails[first, last] = pair
        pair[0].copy_(pair[1])

    def idle(self) -> None:
        """Padding in every row: the input of a rank or a warm-up that has no requests."""
        self.pad(0, self.capacity)
        self.dirty = self.capacity if self.written_by_step else 0

    @property
    def claims_unread(self) -> bool:
        """The padding rows are declared to be never read (`pad=None`)."""
        return self._keep_rest and self.spec.per is not Per.STEP

    def poison(self, first: int, last: int, value: float) -> None:
        """Fills rows first to last - 1 with `value`, as a batch before may have left them."""
        if self.spec.per is not Per.STEP:
            self.tensor[first:last].fill_(value)
            self.dirty = max(self.dirty, last)

    def padding_intact(self, first: int, rows: int) -> bool:
        """Whether rows first to rows - 1 hold the declared padding. Synchronises."""
        if self._keep_rest:
            return True
        return torch.equal(self.tensor[first:rows].cpu(), self._padding[first:rows].cpu())

    def mismatch(self, value: torch.Tensor, view: torch.Tensor) -> InputError:
        return InputError(
            f"input {self.name!r} is {tuple(value.shape)} {value.dtype}; this batch needs "
            f"{tuple(view.shape)} {view.dtype} (rows: {self.spec.per.value}s). Pass the "
            "batch's own rows, unpadded; the runner pads"
        )


# All that one input of a batch needs: buffer, name, rows, their view, its shape and dtype.
_Copy: TypeAlias = tuple[Buffer, str, int, torch.Tensor, torch.Size, torch.dtype]


class Buffers:
    """All static inputs of a step."""

    def __init__(
        self, specs: Sequence[Input], num_tokens: int, query_len: int, device: torch.device
    ) -> None:
        names = [spec.name for spec in specs]
        double = sorted({name for name in names if names.count(name) > 1})
        if double:
            raise ConfigError(f"inputs declared twice: {double}")
        self.query_len = query_len
        self.all = [Buffer(spec, num_tokens, query_len, device) for spec in specs]
        self._plans: dict[int, list[_Copy]] = {}

    def views(self, num_tokens: int) -> dict[str, torch.Tensor]:
        """What a graph of `num_tokens` tokens is captured with, by input name."""
        return {
            buffer.name: buffer.view(buffer.spec.rows(num_tokens, self.query_len))
            for buffer in self.all
        }

    def load(self, inputs: Mapping[str, torch.Tensor], num_tokens: int) -> None:
        """Copies a batch of `num_tokens` tokens in, and pads behind it.

        Raises:
            InputError: an input is missing, unknown, or has another shape or dtype than declared.
        """
        plan = self._plans.get(num_tokens)
        if plan is None:
            plan = self._plans[num_tokens] = [self._copy(buffer, num_tokens) for buffer in self.all]
        if len(inputs) != len(plan):
            raise self.wrong_names(inputs)
        for buffer, name, rows, view, shape, dtype in plan:
            value = inputs.get(name)
            if value is None:
                raise self.wrong_names(inputs)
            if value.shape != shape or value.dtype is not dtype:
                raise buffer.mismatch(value, view)
            # From pageable memory this is synchronous.
            view.copy_(value, True)
            if buffer.dirty != rows:
                buffer.settle(rows)

    def _copy(self, buffer: Buffer, num_tokens: int) -> "_Copy":
        rows = buffer.spec.rows(num_tokens, self.query_len)
        view = buffer.view(rows)
        return buffer, buffer.name, rows, view, view.shape, view.dtype

    def idle(self) -> None:
        for buffer in self.all:
            buffer.idle()

    def wrong_names(self, inputs: Mapping[str, torch.Tensor]) -> InputError:
        declared = {buffer.name for buffer in self.all}
        return InputError(
            f"inputs missing: {sorted(declared - set(inputs))}; "
            f"not declared: {sorted(set(inputs) - declared)}"
        )
