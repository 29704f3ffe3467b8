"""Three figures of a decode step, kept apart: kernel time eager, kernel time in replay, end to end.

A graph does not make kernels faster. What it saves is the host's dispatch, which shows end to end
only, and only if the host was the bottleneck. A single figure hides which of the two it was.
"""

import json
import os
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from aclgraph.dispatch import Batch
from aclgraph.errors import ConfigError
from aclgraph.runner import NO_HOST, DecodeRunner
from aclgraph.update import HostValues
from aclgraph.workload import Workload, simulate

# Work that keeps the device busy while the host enqueues what is measured, and how much longer than
# the host it should last.
_BLOCKER_SIZE = 512
_BLOCKER_MARGIN = 1.5


@dataclass(frozen=True)
class Figure:
    """Samples of one quantity, in microseconds per step."""

    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return statistics.median(self.samples)

    @property
    def spread(self) -> tuple[float, float]:
        """Smallest and largest sample."""
        return min(self.samples), max(self.samples)

    def __str__(self) -> str:
        low, high = self.spread
        return f"{self.median:.1f} us ({low:.1f} - {high:.1f})"

    def as_dict(self) -> dict[str, Any]:
        low, high = self.spread
        return {"median_us": self.median, "min_us": low, "max_us": high, "samples": self.samples}


@dataclass(frozen=True)
class BenchReport:
    """The figures of one batch size.

    Attributes:
        figures: "kernel, eager", "kernel, replay", "end to end, eager", "end to end, replay", and
            the host's part "host, eager" and "host, replay": time until it has issued a step.
        update_us: host time per replay for updating host inputs, part of "host, replay".
        variables: everything that a figure is meaningless without.
    """

    figures: dict[str, Figure]
    update_us: float
    variables: dict[str, Any] = field(default_factory=dict)

    @property
    def speedup(self) -> float:
        """End to end, eager over replay."""
        figures = self.figures
        return figures["end to end, eager"].median / figures["end to end, replay"].median

    def as_dict(self) -> dict[str, Any]:
        return {
            "variables": self.variables,
            "figures": {name: figure.as_dict() for name, figure in self.figures.items()},
            "update_us": self.update_us,
            "speedup": self.speedup,
        }

    def to_json(self) -> str:
        return json.dumps(self.as_dict(), indent=2)

    def __str__(self) -> str:
        lines = [f"{name:<22}{value}" for name, value in self.variables.items()]
        lines += ["", f"{'per step':<22}{'graph':<8}median (min - max)"]
        for name, figure in self.figures.items():
            what, how = name.split(", ")
            lines.append(f"{what:<22}{'on' if how == 'replay' else 'off':<8}{figure}")
        lines.append(f"{'update, part of host':<22}{'on':<8}{self.update_us:.1f} us")
        lines.append(f"end to end, eager over replay: {self.speedup:.2f}")
        if self.variables.get("emulated"):
            lines.append(
                "The device is emulated: kernel times are those of this machine's CPU, and say "
                "nothing about a chip."
            )
        return "\n".join(lines)


def bench(
    runner: DecodeRunner,
    num_reqs: int,
    inputs: Mapping[str, torch.Tensor],
    host: HostValues = NO_HOST,
    *,
    steps: int = 20,
    rounds: int = 7,
    variables: Mapping[str, Any] | None = None,
) -> BenchReport:
    """Measures one batch eagerly and as a replay, the two in turn.

    Args:
        num_reqs: requests of the batch; must be of a size that has a graph.
        inputs, host: the batch, as for `runner.run()`; device tensors, so that copies of the data
            loader are not part of the figures.
        steps: steps per sample of the end-to-end figures.
        rounds: samples per figure.
        variables: what else belongs to the figures: batch, heads, hidden, compiler switches.

    Raises:
        ConfigError: the batch has no graph.
    """
    batch = Batch.decode(num_reqs, runner.dispatcher.query_len)
    decision = runner.dispatcher.dispatch(batch)
    if decision.key not in runner.graphs:
        raise ConfigError(f"nothing to compare: {runner.dispatcher.explain(batch)}")
    ways: dict[str, Callable[[], Any]] = {
        "eager": lambda: runner.eager(inputs, host),
        "replay": lambda: runner.run(decision, inputs, host),
    }
    before, counts = runner.stats.update_seconds, dict(vars(runner.stats))
    samples = _samples(ways, steps, rounds)
    replays = runner.stats.replays - counts["replays"]
    update_us = (runner.stats.update_seconds - before) * 1e6 / replays
    vars(runner.stats).update(counts)
    order = [f"{what}, {way}" for what in ("kernel", "host", "end to end") for way in ways]
    figures = {name: Figure(tuple(samples[name])) for name in order}
    about = {
        **environment(),
        "batch": num_reqs,
        "query length": batch.query_len,
        "bucket": decision.padded,
        "padding": decision.padded - decision.num_tokens,
        "steps x rounds": f"{steps} x {rounds}",
        **(variables or {}),
    }
    return BenchReport(figures, update_us, about)


@dataclass(frozen=True)
class TraceReport:
    """A sequence of decode batches, run for real.

    Attributes:
        workload: hit rate and padding.
        step_us: wall clock per step, host and device, microseconds.
        update_us: host time per replay for updating host inputs.
    """

    workload: Workload
    step_us: float
    update_us: float

    def as_dict(self) -> dict[str, Any]:
        return {**self.workload.as_dict(), "step_us": self.step_us, "update_us": self.update_us}

    def __str__(self) -> str:
        return f"{self.workload}; {self.step_us:.1f} us per step, updates {self.update_us:.1f} us"


def bench_trace(
    runner: DecodeRunner,
    requests: Sequence[int],
    make_batch: Callable[[int], tuple[Mapping[str, torch.Tensor], HostValues]],
) -> TraceReport:
    """Runs decode batches of so many requests each, one after the other, without waiting between.

    Args:
        requests: the batch sizes, in order; the larger ones may be without a graph.
        make_batch: inputs and host values of a batch of so many requests; called before the clock
            starts, once per size.
    """
    dispatcher = runner.dispatcher
    batches = [Batch.decode(count, dispatcher.query_len) for count in requests]
    made = {count: make_batch(count) for count in set(requests)}
    counts = dict(vars(runner.stats))
    for count in made:
        runner.run(dispatcher.dispatch(Batch.decode(count, dispatcher.query_len)), *made[count])
    runner.stats.reset()
    torch.npu.synchronize()
    begin = time.perf_counter()
    for count, batch in zip(requests, batches, strict=True):
        runner.run(dispatcher.dispatch(batch), *made[count])
    torch.npu.synchronize()
    step_us = (time.perf_counter() - begin) * 1e6 / len(requests)
    report = TraceReport(simulate(dispatcher, batches), step_us, runner.stats.update_us)
    vars(runner.stats).update(counts)
    return report


def time_step(step: Callable[[], Any], *, steps: int = 8, rounds: int = 5) -> dict[str, Figure]:
    """ "kernel", "host" and "end to end" of any step, e.g. of a prompt.

    A step whose kernels take longer than the host needs to issue it gains nothing from a graph.
    """
    samples = _samples({"step": step}, steps, rounds)
    return {name.partition(",")[0]: Figure(tuple(values)) for name, values in samples.items()}


def environment() -> dict[str, Any]:
    """Device, versions and switches that belong to every figure."""
    import torch_npu

    return {
        "NPU model": torch.npu.get_device_name(torch.npu.current_device()),
        "CANN": _cann_version(),
        "torch": torch.__version__,
        "torch_npu": torch_npu.__version__,
        "TASK_QUEUE_ENABLE": os.environ.get("TASK_QUEUE_ENABLE", "default"),
        "emulated": _emulated(),
    }


def _samples(
    ways: Mapping[str, Callable[[], Any]], steps: int, rounds: int
) -> dict[str, list[float]]:
    blocker = _Blocker()
    samples: dict[str, list[float]] = {}
    for way in ways.values():
        way()
    for _ in range(rounds):
        for name, way in ways.items():
            host, total = _timed(way, steps)
            samples.setdefault(f"host, {name}", []).append(host)
            samples.setdefault(f"end to end, {name}", []).append(total)
            kernel = blocker.kernel_time(way, max(1, steps // 4), host)
            samples.setdefault(f"kernel, {name}", []).append(kernel)
    return samples


def _timed(way: Callable[[], Any], steps: int) -> tuple[float, float]:
    """Microseconds per step until the host has issued it, and until the device is through."""
    torch.npu.synchronize()
    begin = time.perf_counter()
    for _ in range(steps):
        way()
    issued = time.perf_counter()
    torch.npu.synchronize()
    done = time.perf_counter()
    return (issued - begin) * 1e6 / steps, (done - begin) * 1e6 / steps


class _Blocker:
    """Keeps the device busy until everything measured is in its queue.

    Events around an eager step would measure the host's pace: the device waits between kernels.
    Queued behind other work, the kernels run back to back.
    """

    def __init__(self) -> None:
        size = (_BLOCKER_SIZE, _BLOCKER_SIZE)
        self._a, self._out = (torch.zeros(size, device="npu") for _ in range(2))
        self._one = min(self._run(8) / 8 for _ in range(3))

    def kernel_time(self, way: Callable[[], Any], steps: int, host_us: float) -> float:
        """Device microseconds per step of `way`, whose host part takes about `host_us`."""
        count = int(_BLOCKER_MARGIN * host_us * steps / self._one) + 1
        return self._run(count, lambda: [way() for _ in range(steps)]) / steps

    def _run(self, count: int, measured: Callable[[], Any] | None = None) -> float:
        """Device microseconds of `measured` behind `count` blockers, or of the blockers alone."""
        begin, end = (torch.npu.Event(enable_timing=True) for _ in range(2))
        torch.npu.synchronize()
        if measured is None:
            begin.record()
        for _ in range(count):
            torch.mm(self._a, self._a, out=self._out)
        if measured is not None:
            begin.record()
            measured()
        end.record()
        end.synchronize()
        return float(begin.elapsed_time(end)) * 1e3


def _cann_version() -> str:
    try:
        from torch_npu.npu.utils import get_cann_version

        return str(get_cann_version("CANN"))
    except Exception:  # an NPU's software may lack the version files; the figures are valid without
        return "unknown"


def _emulated() -> bool:
    """Whether the ACL runtime in this process is softnpu's."""
    try:
        return "libsoftnpu_runtime" in Path("/proc/self/maps").read_text()
    except OSError:
        return False
