"""Does the graph compute what the step computes? Per bucket and fill level, with the cause.

For each case the step runs three ways on one batch: eagerly with the batch's own rows (what is
right), eagerly on the padded static inputs, and as a replay. Between the first two lies padding,
between the last two lies what the capture froze. What the step writes besides its outputs (KV
caches) is compared as well, and put back afterwards.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import torch
from torch.utils._pytree import tree_flatten

from aclgraph.capture import CapturedGraph
from aclgraph.causes import aliases, frozen
from aclgraph.dispatch import Decision
from aclgraph.findings import Finding, VerifyReport
from aclgraph.runner import NO_HOST, DecodeRunner
from aclgraph.trace import storage_of, traced
from aclgraph.update import HostValues

Inputs = Mapping[str, torch.Tensor]
# (requests, seed) -> the inputs of a decode batch, and its host values if there are any.
MakeBatch = Callable[[int, int], Inputs | tuple[Inputs, HostValues]]


@dataclass(frozen=True)
class _Outcome:
    """Outputs and state after one run, on the host."""

    outputs: list[Any]
    state: dict[str, torch.Tensor]


def verify(
    runner: DecodeRunner,
    make_batch: MakeBatch,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    state: Mapping[str, torch.Tensor] | None = None,
    compare_state: Mapping[str, Callable[[torch.Tensor], torch.Tensor]] | None = None,
    max_findings: int = 20,
) -> VerifyReport:
    """Compares eager runs and replays in every bucket. Slow; for tests and start-up checks.

    The step must be deterministic: no sampling, no dropout.

    Args:
        runner: a runner that has captured.
        make_batch: makes a decode batch of so many requests; different seeds must give different
            values, also for host inputs. State (caches) must be such that the batch is valid.
        rtol, atol: tolerance between different batch shapes, whose sums are taken in another
            order; default: 1e-4 (fp32 and wider) or 1e-2 of each value and of the tensor's largest.
            Replay and eager run on the same inputs must be bit-identical.
        state: what the step writes past PyTorch's dispatcher (by TileLang kernels), by name; what
            it writes through operators is found. Three copies of all this must fit in memory.
        compare_state: by name, the part of a written tensor that counts, e.g. `lambda cache:
            cache[1:]` if block 0 takes the writes of padded rows.
        max_findings: stop after so many.
    """
    report = VerifyReport()
    written = {**_written(runner), **(state or {})}
    checker = _Checker(runner, make_batch, (rtol, atol), written, dict(compare_state or {}))
    counts = dict(vars(runner.stats))
    with torch.no_grad():
        try:
            report.findings.extend(islice(checker.findings(report), max_findings))
        finally:
            checker.put_back()
    vars(runner.stats).update(counts)
    return report


class _Checker:
    def __init__(
        self,
        runner: DecodeRunner,
        make_batch: MakeBatch,
        tolerance: tuple[float | None, float | None],
        state: dict[str, torch.Tensor],
        parts: dict[str, Callable[[torch.Tensor], torch.Tensor]],
    ) -> None:
        self.runner, self.make_batch, self.parts = runner, make_batch, parts
        self.rtol, self.atol = tolerance
        self.query_len = runner.dispatcher.query_len
        self.state = state
        self.original = {name: tensor.clone() for name, tensor in self.state.items()}
        self.seed = 0

    def findings(self, report: VerifyReport) -> Iterator[Finding]:
        for captured in self.runner.graphs.values():
            yield from aliases(self.runner, captured)
            for num_tokens in self._fills(captured):
                report.cases += 1
                yield from self._case(captured, num_tokens)
            report.cases += 1
            yield from self._idle(captured)

    def _fills(self, captured: CapturedGraph) -> Sequence[int]:
        """Full, the fewest that this bucket takes, and one between, in tokens."""
        full = captured.key.num_tokens
        below = [key.num_tokens for key in self.runner.graphs if key.num_tokens < full]
        least = max(below, default=0) + self.query_len
        middle = (least + full) // 2 // self.query_len * self.query_len
        return sorted({full, least, max(middle, least)}, reverse=True)

    def _case(self, captured: CapturedGraph, num_tokens: int) -> Iterator[Finding]:
        before = self._scrambled()
        self._leave_stale_rows(captured)
        inputs, host = self._batch(num_tokens)
        decision = Decision(num_tokens, captured.key)

        # A step may write into its inputs; these are needed once more.
        own = {name: value.clone() for name, value in inputs.items()}
        right = self._outcome(self.runner.eager(own, host))
        self._restore(before)
        replay = self._outcome(self.runner.run(decision, inputs, host))
        yield from self._spoilt(captured, num_tokens)
        self._restore(before)
        self.runner.buffers.load(inputs, num_tokens)
        padded_result, trace = traced(lambda: self._step_on_static(captured, host))
        padded = self._outcome(padded_result, captured, num_tokens)
        self._restore(before)

        causes = list(frozen(captured, num_tokens, trace))
        yield from causes
        differs = list(self._compare(captured, num_tokens, replay, padded, exact=True))
        yield from (_graph_finding(item, bool(causes)) for item in differs)
        if not differs:
            for item in self._compare(captured, num_tokens, replay, right, exact=False):
                yield self._padding_finding(item)

    # -------------------------------------------------------------- running

    def _batch(self, num_tokens: int) -> tuple[Inputs, HostValues]:
        self.seed += 1
        made = self.make_batch(num_tokens // self.query_len, self.seed)
        return made if isinstance(made, tuple) else (made, NO_HOST)

    def _leave_stale_rows(self, captured: CapturedGraph) -> None:
        """Fills the bucket with another batch, as a fuller step before would have."""
        inputs, _ = self._batch(captured.key.num_tokens)
        self.runner.buffers.load(inputs, captured.key.num_tokens)

    def _step_on_static(self, captured: CapturedGraph, host: HostValues) -> Any:
        runner, key = self.runner, captured.key
        padded = {
            item.name: item.padded(host[item.name], key.num_reqs or 0, self.query_len)
            for item in runner.host_inputs
        }
        return runner.step(**runner.buffers.views(key.num_tokens), **padded)

    def _outcome(
        self, result: Any, captured: CapturedGraph | None = None, num_tokens: int = 0
    ) -> _Outcome:
        leaves = tree_flatten(result)[0]
        if captured is not None:
            kinds = self.runner.output_rows
            requests = num_tokens // self.query_len
            rows = {"token": num_tokens, "request": requests, "boundary": requests + 1}
            leaves = [
                leaf[: rows[kind]] if kind else leaf
                for leaf, kind in zip(leaves, kinds, strict=True)
            ]
        outputs = [leaf.cpu() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        whole: Callable[[torch.Tensor], torch.Tensor] = lambda tensor: tensor  # noqa: E731
        state = {
            name: self.parts.get(name, whole)(tensor).cpu().clone()
            for name, tensor in self.state.items()
        }
        return _Outcome([_own(leaf) for leaf in outputs], state)

    def _scrambled(self) -> dict[str, torch.Tensor]:
        """Puts other numbers into floating-point state, and returns the state's copies.

        The warm-up has run with padding alone, so what padded rows write is there already: writing
        it once more would not show. Integers may be indices and stay.
        """
        before = {}
        for name, tensor in self.state.items():
            kept = self.original[name]
            if tensor.is_floating_point():
                generator = torch.Generator().manual_seed(self.seed)
                factor = 0.5 + torch.rand(tensor.shape, generator=generator)
                kept = kept * factor.to(tensor) + (factor - 1).to(tensor)
            tensor.copy_(kept)
            before[name] = tensor.clone()
        return before

    def _restore(self, before: Mapping[str, torch.Tensor]) -> None:
        for name, tensor in self.state.items():
            tensor.copy_(before[name])

    def put_back(self) -> None:
        """State as it was before the verification, and no batch in the inputs."""
        self._restore(self.original)
        self.runner.buffers.idle()

    # -------------------------------------------------------------- comparing

    def _compare(
        self,
        captured: CapturedGraph,
        num_tokens: int,
        ours: _Outcome,
        theirs: _Outcome,
        exact: bool,
    ) -> Iterator[Finding]:
        pairs = [
            (f"output {i}", a, b)
            for i, (a, b) in enumerate(zip(ours.outputs, theirs.outputs, strict=True))
        ]
        pairs += [(f"state {name!r}", ours.state[name], theirs.state[name]) for name in self.state]
        for subject, a, b in pairs:
            what = self._difference(a, b, exact)
            if what:
                yield Finding("graph", captured.key.num_tokens, num_tokens, subject, what)

    def _difference(self, a: Any, b: Any, exact: bool) -> str | None:
        if not isinstance(a, torch.Tensor):
            return None if a == b else f"{a!r} instead of {b!r}, a host value frozen at capture"
        if a.shape != b.shape:
            return f"shape {tuple(a.shape)} instead of {tuple(b.shape)}"
        rtol, atol = (0.0, 0.0) if exact else self._tolerance(b)
        try:
            torch.testing.assert_close(a, b, rtol=rtol, atol=atol, equal_nan=True)
        except AssertionError:
            wrong = ~torch.isclose(a.double(), b.double(), rtol, atol, equal_nan=True)
            rows = wrong.reshape(len(a) if a.dim() else 1, -1).any(dim=1).nonzero().flatten()
            worst = (a.double() - b.double()).abs().nan_to_num(float("inf")).max().item()
            return f"{len(rows)} rows differ by up to {worst:.3g}, first {rows[:6].tolist()}"
        return None

    def _tolerance(self, right: torch.Tensor) -> tuple[float, float]:
        if not right.is_floating_point():
            return 0.0, 0.0
        narrow = right.dtype.itemsize < 4
        rtol = (1e-2 if narrow else 1e-4) if self.rtol is None else self.rtol
        if self.atol is not None:
            return rtol, self.atol
        finite = right[right.isfinite()].double().abs()
        return rtol, rtol * finite.max().item() if finite.numel() else 0.0

    def _padding_finding(self, item: Finding) -> Finding:
        unread = [buffer.name for buffer in self.runner.buffers.all if buffer.claims_unread]
        blame = (
            f"inputs {unread} are declared unread past the batch (pad=None), and were left stale: "
            "declare a padding value"
            if unread
            else "some operator does not treat the declared padding as harmless (a slot of -1 that "
            "is not skipped, a length of 0). Declare a padding value that it skips, or mask; if "
            "this part of the state exists to take such writes, leave it out with compare_state"
        )
        message = (
            f"the replay differs from the unpadded eager run ({item.message}), and so does the "
            f"step on the padded inputs: padded rows change it; {blame}"
        )
        return Finding("padding", item.bucket, item.num_tokens, item.subject, message)

    def _spoilt(self, captured: CapturedGraph, num_tokens: int) -> Iterator[Finding]:
        for buffer in self.runner.buffers.all:
            first = buffer.spec.rows(num_tokens, self.query_len)
            last = buffer.spec.rows(captured.key.num_tokens, self.query_len)
            if not buffer.written_by_step and not buffer.padding_intact(first, last):
                yield Finding(
                    "spoilt",
                    captured.key.num_tokens,
                    num_tokens,
                    f"input {buffer.name!r}",
                    "the replay wrote into its padding, and the next batch finds it there",
                )

    def _idle(self, captured: CapturedGraph) -> Iterator[Finding]:
        self._scrambled()
        idle = self._outcome(())
        self._leave_stale_rows(captured)
        self.runner.run_idle(Decision(0, captured.key))
        after = self._outcome(())
        for name in self.state:
            what = self._difference(after.state[name], idle.state[name], exact=True)
            if what:
                yield Finding(
                    "idle",
                    captured.key.num_tokens,
                    0,
                    f"state {name!r}",
                    f"a replay without any request writes to it ({what}): padded rows are not "
                    "skipped",
                )


def _graph_finding(item: Finding, explained: bool) -> Finding:
    cause = (
        "see the findings above"
        if explained
        else "the capture froze something that no operator's arguments show: a value inside a "
        "custom kernel, an update with another value than the step passes, or an uninitialised or "
        "shared buffer"
    )
    message = f"replay and eager run on the same inputs differ: {item.message}; {cause}"
    return Finding("graph", item.bucket, item.num_tokens, item.subject, message)


def _written(runner: DecodeRunner) -> dict[str, torch.Tensor]:
    """Tensors that the step writes and that are neither inputs nor its own: by name."""
    own = {storage_of(buffer.tensor) for buffer in runner.buffers.all}
    state: dict[str, torch.Tensor] = {}
    for captured in runner.graphs.values():
        for address, outside in captured.trace.outside.items():
            if outside.written and address not in own:
                state.update(runner.guard.tensors_of(address))
    return state


def _own(leaf: Any) -> Any:
    return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf
