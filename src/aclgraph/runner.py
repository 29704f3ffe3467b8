"""Captures a decode step per bucket and replays what the dispatcher decided."""

import gc
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from aclgraph.capture import CapturedGraph, capture, failed
from aclgraph.dispatch import Decision, Dispatcher, GraphKey, RuntimeMode
from aclgraph.errors import CaptureError, ConfigError, LateCaptureError
from aclgraph.guard import Guard, Watched
from aclgraph.inputs import Buffers, HostInput, Input
from aclgraph.stats import Stats
from aclgraph.trace import storage_of
from aclgraph.update import HostUpdater, HostValues, UpdateOrder, check_reached

NO_HOST: HostValues = {}


@dataclass(frozen=True)
class Progress:
    """One captured bucket, as reported while capturing.

    Attributes:
        done, total: buckets captured so far, and altogether.
        key: the bucket.
        bytes: device memory that it added.
        seconds: time of its warm-up and capture.
    """

    done: int
    total: int
    key: GraphKey
    bytes: int
    seconds: float

    def __str__(self) -> str:
        bar = "#" * (20 * self.done // self.total)
        return (
            f"capture [{bar:<20}] {self.done}/{self.total}  {self.key.num_tokens:>4} tokens  "
            f"{self.bytes / 2**20:+8.1f} MiB  {self.seconds * 1e3:7.1f} ms"
        )


def print_progress(progress: Progress) -> None:
    """A line per bucket on stderr."""
    print(progress, file=sys.stderr, flush=True)


class DecodeRunner:
    """A decode step as graphs.

    `step` is called with the inputs by keyword, tensors on the device and lists of ints for host
    inputs, and returns a tensor or any nest of tuples, lists and dicts of tensors. It runs eagerly
    with a batch's own rows, or is captured at each bucket's size.

    Args:
        step: the decode step. A `torch.nn.Module` is watched by itself.
        dispatcher: whose decisions `run()` follows; its sizes are captured.
        inputs: what changes per step, on the device. Everything else that `step` uses stays where
            it is; it may be written in place.
        host_inputs: what changes per step and is passed to operators as host integers.
        watch: tensors, modules, or functions that return a tensor, by name: their addresses are
            checked before each replay. Include the weights and the KV caches.
        piecewise: runs PIECEWISE decisions (`aclgraph.PiecewiseRunner`).
        eager: what to run for eager decisions; default: `step`.
        copy_outputs: return clones, which later replays do not overwrite.
        check_every: check the watched addresses every so many steps; 0: only `check_addresses()`.
        update_order: see `aclgraph.update`.
        capture_error_mode: as for `torch.npu.graph`. "thread_local" lets other threads copy
            synchronously while this one captures.

    The outputs of a replay are views of static memory: the next replay, of any size, overwrites
    them. All steps of a runner belong on one stream: they share their inputs' memory.
    """

    def __init__(
        self,
        step: Callable[..., Any],
        dispatcher: Dispatcher,
        inputs: Sequence[Input],
        *,
        host_inputs: Sequence[HostInput] = (),
        watch: Mapping[str, Watched] | None = None,
        piecewise: Callable[..., Any] | None = None,
        eager: Callable[..., Any] | None = None,
        copy_outputs: bool = False,
        check_every: int = 1,
        update_order: UpdateOrder = "update_first",
        capture_error_mode: str = "global",
        device: torch.device | None = None,
    ) -> None:
        keys = dispatcher.graph_keys()
        _check_supported(keys, piecewise is not None)
        self.step, self.dispatcher, self.host_inputs = step, dispatcher, tuple(host_inputs)
        self.inputs = tuple(inputs)
        self.stats = Stats()
        self._keys = [key for key in keys if key.mode is RuntimeMode.FULL]
        self._eager, self._piecewise = eager or step, piecewise
        self._copy_outputs, self._check_every = copy_outputs, check_every
        self._update_order, self._error_mode = update_order, capture_error_mode
        self._device = device or torch.device("npu", torch.npu.current_device())
        self._watch = dict(watch or {})
        owner = step if isinstance(step, torch.nn.Module) else getattr(step, "__self__", None)
        if isinstance(owner, torch.nn.Module):
            self._watch.setdefault(type(owner).__name__, owner)
        query_len = dispatcher.query_len
        self.buffers = Buffers(inputs, dispatcher.sizes.largest, query_len, self._device)
        self._updater = HostUpdater(self.host_inputs, query_len, update_order, self.stats)
        self.graphs: dict[GraphKey, CapturedGraph] = {}
        self.guard = Guard({})
        # Per output: what its rows are, a value of `Per`; None if it has none.
        self.output_rows: list[str | None] = []
        self._sealed = False
        self._countdown = 1
        self._last_key: GraphKey | None = None
        self._last_captured: CapturedGraph | None = None

    # ------------------------------------------------------------------ capture

    def capture(self, progress: Callable[[Progress], None] | None = None) -> list[Progress]:
        """Captures every bucket, largest first, in one memory pool.

        Args:
            progress: called after each bucket, e.g. `print_progress`.

        Raises:
            CaptureError: a bucket failed; it is named, the cause is chained, and nothing is kept.
            LateCaptureError: the runner has captured before; see `recapture()`.
        """
        if self._sealed:
            raise LateCaptureError("this runner has captured already; use recapture()")
        reports: list[Progress] = []
        try:
            with torch.no_grad(), _quiet_gc():
                self._capture_all(progress, reports)
        except Exception:
            self.close()
            raise
        self._sealed = True
        return reports

    def recapture(self, progress: Callable[[Progress], None] | None = None) -> list[Progress]:
        """Drops all graphs and captures again, e.g. after weights were replaced."""
        self.close()
        return self.capture(progress)

    def close(self) -> None:
        """Drops the graphs and every reference to weights and caches."""
        if self.graphs:
            torch.npu.synchronize()
        self.graphs.clear()
        self._last_key = self._last_captured = None
        self.guard = Guard({})
        query_len = self.dispatcher.query_len
        self._updater = HostUpdater(self.host_inputs, query_len, self._update_order, self.stats)
        self._sealed = False

    def _capture_all(
        self, progress: Callable[[Progress], None] | None, reports: list[Progress]
    ) -> None:
        self.guard = Guard(self._watch)
        pool, stream = torch.npu.graph_pool_handle(), torch.npu.Stream()
        for key in self._keys:
            self.buffers.idle()
            try:
                captured = self._capture_one(key, pool, stream)
            except CaptureError as error:
                done = [report.key.num_tokens for report in reports]
                raise CaptureError(f"{error} (captured before it: {done or 'none'})") from error
            self.graphs[key] = captured
            report = Progress(
                len(reports) + 1, len(self._keys), key, captured.bytes, captured.seconds
            )
            reports.append(report)
            if progress:
                progress(report)
        torch.npu.synchronize()
        self.output_rows = _output_rows(list(self.graphs.values()))
        self._adopt_outside()
        self.buffers.idle()

    def _capture_one(self, key: GraphKey, pool: Any, stream: Any) -> CapturedGraph:
        views = self.buffers.views(key.num_tokens)
        host = self._host_at_capture(key)
        captured = capture(
            lambda: self.step(**views, **host),
            key,
            pool=pool,
            stream=stream,
            auto_dispatch=bool(self.host_inputs),
            error_mode=self._error_mode,
        )
        try:
            check_reached(captured.graph, self.host_inputs)
        except CaptureError as error:
            raise failed(key, "the check of its host inputs", error) from error
        return captured

    def _host_at_capture(self, key: GraphKey) -> dict[str, list[int]]:
        requests = key.num_reqs or 0
        return {
            item.name: item.at_capture(requests, self.dispatcher.query_len)
            for item in self.host_inputs
        }

    def _adopt_outside(self) -> None:
        """Finds what the step uses beyond its inputs, and inputs that it writes into."""
        own = {storage_of(buffer.tensor): buffer for buffer in self.buffers.all}
        for captured in self.graphs.values():
            for address, outside in captured.trace.outside.items():
                if address in own:
                    own[address].written_by_step |= outside.written
                elif self.guard.name_of(address) is None:
                    self.guard.adopt(outside)

    # ------------------------------------------------------------------ run

    def run(
        self,
        decision: Decision,
        inputs: Mapping[str, torch.Tensor],
        host: HostValues = NO_HOST,
    ) -> Any:
        """One step.

        Args:
            decision: the dispatcher's, for this batch.
            inputs: every declared input with the batch's own rows, unpadded; on the device, or in
                host memory. Pinned memory is copied asynchronously: leave it as it is until the
                step has run.
            host: every declared host input, one value per request.

        Returns:
            The step's result for the real rows. After a replay these are views of static memory.

        Raises:
            InputError: an input does not fit its declaration.
            AddressError: a watched tensor moved since the capture.
            LateCaptureError: the decision names a graph that was not captured.
            UpdateError: host values could not be written into the graph.
        """
        captured = self._captured_for(decision)
        if captured is None:
            return self._run_without(decision, inputs, host)
        if self._check_every:
            self._countdown -= 1
            if not self._countdown:
                self._countdown = self._check_every
                self.guard.check()
        self.buffers.load(inputs, decision.num_tokens)
        return self._replay(captured, decision.num_tokens, host)

    def run_idle(self, decision: Decision) -> Any:
        """A replay with nothing but padding: the step of a data-parallel rank without requests."""
        captured = self.graphs.get(decision.key) if decision.key else None
        if captured is None:
            raise self._late(decision.key)
        self.guard.check()
        self.buffers.idle()
        return self._replay(captured, 0, {item.name: [] for item in self.host_inputs})

    def check_addresses(self) -> None:
        """Checks every watched tensor now, e.g. after a reload of weights.

        Raises:
            AddressError: a tensor moved or was replaced since the capture.
        """
        self.guard.check_modules()
        self.guard.check()

    def eager(self, inputs: Mapping[str, torch.Tensor], host: HostValues = NO_HOST) -> Any:
        """`step` without a graph, unpadded: what a replay must be equal to."""
        with torch.no_grad():
            return self._eager(**self._on_device(inputs), **host)

    def _captured_for(self, decision: Decision) -> CapturedGraph | None:
        """The graph of a decision; None if it is for no full graph."""
        key = decision.key
        # Decisions come from a table, so the same key is the same object; hashing it takes longer.
        if key is not None and key is self._last_key:
            return self._last_captured
        if key is None or key.mode is not RuntimeMode.FULL:
            return None
        captured = self.graphs.get(key)
        if captured is None:
            raise self._late(key)
        self._last_key, self._last_captured = key, captured
        return captured

    def _replay(self, captured: CapturedGraph, num_tokens: int, host: HostValues) -> Any:
        if self.host_inputs:
            self._updater.replay(captured.graph, host, captured.key.num_reqs or 0)
        else:
            captured.graph.replay()
        stats = self.stats
        stats.replays += 1
        stats.real_tokens += num_tokens
        stats.padded_tokens += captured.key.num_tokens
        result = captured.views.get(num_tokens)
        if result is None:
            result = captured.views[num_tokens] = self._cut(captured, num_tokens)
        return _cloned(result) if self._copy_outputs else result

    def _cut(self, captured: CapturedGraph, num_tokens: int) -> Any:
        requests = num_tokens // self.dispatcher.query_len
        count = {"token": num_tokens, "request": requests, "boundary": requests + 1}

        def rows(index: int) -> int | None:
            kind = self.output_rows[index]
            return None if kind is None else count[kind]

        return captured.result(rows)

    def _run_without(
        self, decision: Decision, inputs: Mapping[str, torch.Tensor], host: HostValues
    ) -> Any:
        if decision.mode is RuntimeMode.PIECEWISE:
            assert self._piecewise is not None  # checked at construction
            self.stats.replays += 1
            self.stats.real_tokens += decision.num_tokens
            self.stats.padded_tokens += decision.padded
            with torch.no_grad():
                return self._piecewise(decision, self._on_device(inputs), host)
        self.stats.eager += 1
        return self.eager(inputs, host)

    def _on_device(self, inputs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        if set(inputs) != {spec.name for spec in self.inputs}:
            raise self.buffers.wrong_names(inputs)
        return {name: value.to(self._device) for name, value in inputs.items()}

    def _late(self, key: GraphKey | None) -> LateCaptureError:
        if not self._sealed:
            return LateCaptureError(
                "no graph has been captured: capture() was not called, or it failed"
            )
        sizes = sorted(known.num_tokens for known in self.graphs)
        return LateCaptureError(
            f"there is no graph for {key}; captured are {sizes} tokens. Graphs are captured at "
            "start-up only. Decide with the runner's own dispatcher, and do not change a decision"
        )


def _check_supported(keys: Sequence[GraphKey], piecewise: bool) -> None:
    if any(key.mode is RuntimeMode.FULL and not key.uniform for key in keys):
        raise ConfigError(
            "mode FULL captures full graphs of mixed batches, whose attention metadata a decode "
            "step does not have; use FULL_DECODE_ONLY or FULL_AND_PIECEWISE"
        )
    if any(key.mode is RuntimeMode.PIECEWISE for key in keys) and not piecewise:
        raise ConfigError(
            "this mode sends batches to piecewise graphs, but no `piecewise` runner was given; "
            "they would run eagerly without anybody noticing. Use FULL_DECODE_ONLY, or give one"
        )


@contextmanager
def _quiet_gc() -> Iterator[None]:
    """No garbage collection inside a capture: it may free device memory or destroy a graph."""
    gc.collect()
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _output_rows(captured: Sequence[CapturedGraph]) -> list[str | None]:
    """Per output, what its rows are: "token", "request", "boundary", or None (kept whole).

    An output has rows if its first dimension follows the bucket in every graph.
    """
    kinds: list[str | None] = []
    for index, leaf in enumerate(captured[0].outputs if captured else ()):
        kind = None
        if isinstance(leaf, torch.Tensor) and leaf.dim():
            first = [graph.outputs[index].shape[0] for graph in captured]
            if first == [graph.key.num_tokens for graph in captured]:
                kind = "token"
            elif first == [graph.key.num_reqs for graph in captured]:
                kind = "request"
            elif first == [(graph.key.num_reqs or 0) + 1 for graph in captured]:
                kind = "boundary"
            elif len(set(first)) > 1:
                raise CaptureError(
                    f"output {index} has {first} rows in buckets of "
                    f"{[graph.key.num_tokens for graph in captured]} tokens: neither one per token "
                    "nor one per request, so its real rows can't be told from padding"
                )
        kinds.append(kind)
    return kinds


def _cloned(result: Any) -> Any:
    clone = lambda leaf: leaf.clone() if isinstance(leaf, torch.Tensor) else leaf  # noqa: E731
    return torch.utils._pytree.tree_map(clone, result)
