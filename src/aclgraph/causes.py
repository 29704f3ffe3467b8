"""Why a graph and its step differ, concluded from two traces rather than from numbers."""

from collections.abc import Iterator
from typing import Any

from aclgraph.capture import CapturedGraph
from aclgraph.findings import Finding
from aclgraph.runner import DecodeRunner
from aclgraph.trace import Call, Trace, storage_of
from aclgraph.update import records_of

# Kind, subject and message of a finding.
_Cause = tuple[str, str, str]


def frozen(captured: CapturedGraph, num_tokens: int, now: Trace) -> Iterator[Finding]:
    """What the capture holds and the step has since left, operator by operator.

    Args:
        now: a trace of the step on the same static inputs, after the capture.
    """
    updated = {
        record.op_cache_entry.__name__.split(".")[0] for record in records_of(captured.graph)
    }
    for cause in _causes(captured.trace.calls, now.calls, updated):
        yield Finding(cause[0], captured.key.num_tokens, num_tokens, *cause[1:])


def aliases(runner: DecodeRunner, captured: CapturedGraph) -> Iterator[Finding]:
    """Outputs in memory that the step or its caller writes to."""
    tokens = captured.key.num_tokens
    owners = {storage_of(buffer.tensor): f"input {buffer.name!r}" for buffer in runner.buffers.all}
    for address, outside in captured.trace.outside.items():
        owners.setdefault(address, runner.guard.name_of(address) or f"a tensor of {outside.op}")
    for index, address in enumerate(captured.storages):
        if not address:
            continue
        if address in owners:
            message = (
                f"shares its memory with {owners[address]}: the next step overwrites it while it "
                "may still be in use. Return a clone"
            )
            yield Finding("alias", tokens, tokens, f"output {index}", message)
        owners[address] = f"output {index}"


def _causes(then: list[Call], now: list[Call], updated: set[str]) -> Iterator[_Cause]:
    for old, new in zip(then, now, strict=False):
        if old.op != new.op:
            yield (
                "path",
                _place(new),
                f"was {old.op} at {old.where} when captured: a Python branch depends on something "
                "that changes; the graph keeps the old path",
            )
            return
        cause = _baked(old, new, updated) or _rebound(old, new)
        if cause:
            yield cause
    if len(then) != len(now):
        yield (
            "path",
            "the step",
            f"runs {len(now)} operators, {len(then)} at capture: a Python branch or loop depends "
            "on something that changes",
        )


def _baked(old: Call, new: Call, updated: set[str]) -> _Cause | None:
    if new.op.split("::")[-1] not in updated and not _same(old.scalars, new.scalars):
        return (
            "baked",
            _place(new),
            f"host arguments {new.scalars} were {old.scalars} at capture, and stay so in the "
            "graph; pass the value as a device tensor, or as a HostInput to an operator with a "
            "graph handler",
        )
    if old.shapes != new.shapes:
        return ("baked", _place(new), f"shapes {new.shapes} were {old.shapes} at capture")
    return None


def _rebound(old: Call, new: Call) -> _Cause | None:
    pairs = zip(old.outside, new.outside, strict=False)
    moved = [argument for (then, _), (now, argument) in pairs if then != now]
    if not moved and len(old.outside) == len(new.outside):
        return None
    return (
        "rebound",
        _place(new),
        f"its argument {', '.join(moved) or 'list'} is another tensor than at capture: the step "
        "assigns tensors to Python names (self.x = ..., +=) that a replay does not assign. Write "
        "into one tensor in place",
    )


def _place(call: Call) -> str:
    return f"{call.op} at {call.where}"


def _same(old: tuple[Any, ...], new: tuple[Any, ...]) -> bool:
    return len(old) == len(new) and all(a is b or a == b for a, b in zip(old, new, strict=True))
