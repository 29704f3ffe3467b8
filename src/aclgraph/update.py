"""Host values into captured operators, ordered against the replays without a host synchronise.

torch_npu captures an operator that takes host values as a task group behind a binary semaphore
(`torch.npu.ExternalEvent`): a replay waits at the operator until an update has released it, and
takes the release back. Two releases before one wait are one, and the replay after hangs
(vllm-ascend #4233). So exactly one update belongs to each replay, and the update of a step must not
start before the replay of the step before has ended: the update stream waits for an event on the
stream of the replays. All updates of a process are on one stream, which torch_npu owns.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

import torch

from aclgraph.errors import CaptureError, InputError, UpdateError
from aclgraph.inputs import HostInput
from aclgraph.stats import Stats

# "update_first": nothing of the replay runs until the host has issued all updates, and a failing
# update leaves no replay waiting. "replay_first": the device works on what comes before the first
# updated operator meanwhile.
UpdateOrder = Literal["update_first", "replay_first"]
HostValues = Mapping[str, Sequence[int]]


def records_of(graph: Any) -> list[Any]:
    """The operators of a captured graph that take updates, in order."""
    return graph.graph_dispatch_mode.graph_dispatch_records


def update_keys(graph: Any) -> set[str]:
    """Every keyword that an update of `graph` would reach."""
    from torch_npu.npu._npugraph_handlers import npugraph_handler

    keys: set[str] = set()
    for record in records_of(graph):
        keys.update(record.kwargs)
        name = record.op_cache_entry.__name__
        handler = npugraph_handler._NPU_GRAPH_OP_HANDLERS.get(name)
        if handler is not None:
            keys.update(key for _, _, key in handler.get_update_specs(name))
    return keys


def check_reached(graph: Any, host_inputs: Sequence[HostInput]) -> None:
    """Refuses a graph in which a host input would stay what it was at capture.

    Raises:
        CaptureError: no captured operator takes the input's key.
    """
    keys = update_keys(graph)
    for host in host_inputs:
        if host.updates not in keys:
            reached = sorted({record.op_cache_entry.__name__ for record in records_of(graph)})
            raise CaptureError(
                f"host input {host.name!r} is baked into the graph: no captured operator takes "
                f"updates of {host.updates!r} (operators with updates: {reached or 'none'}). Every "
                "replay would use the values of the capture. Pass it as a device tensor (Input), "
                "or use an operator with a graph handler (torch.npu.register_npu_graph_handler)"
            )


class HostUpdater:
    """Issues the updates of one step at the right place between the replays."""

    def __init__(
        self, host_inputs: Sequence[HostInput], query_len: int, order: UpdateOrder, stats: Stats
    ) -> None:
        self._host_inputs, self._query_len = host_inputs, query_len
        self._order, self._stats = order, stats
        self._done = torch.npu.Event()
        self._failed: str | None = None

    def arguments(self, host: HostValues, requests: int) -> dict[str, list[int]]:
        """The update of one step: operator keyword -> one value per request of the bucket.

        Raises:
            InputError: values missing, too many, or below their minimum.
        """
        wrong = {item.name for item in self._host_inputs} ^ set(host)
        if wrong:
            raise InputError(f"host inputs missing or not declared: {sorted(wrong)}")
        return {
            item.updates: item.padded(host[item.name], requests, self._query_len)
            for item in self._host_inputs
        }

    def replay(self, graph: Any, host: HostValues, requests: int) -> None:
        """One replay with the host values of its step.

        Raises:
            UpdateError: torch_npu refused the update. The graph's semaphores are then in an unknown
                state: the runner must be captured again.
        """
        if self._failed:
            raise UpdateError(
                f"an earlier update failed ({self._failed}); its graph waits for updates that will "
                "not come. Capture again (`runner.recapture()`)"
            )
        arguments = self.arguments(host, requests)
        self._done.record()
        graph.graph_dispatch_mode.update_stream.wait_event(self._done)
        if self._order == "replay_first":
            graph.replay()
        begin = time.perf_counter()
        try:
            graph.update(cpu_update_input=[arguments])
        except Exception as error:
            self._failed = f"{type(error).__name__}: {error}"
            # The stream is the whole process's: an open update would refuse every later one.
            with suppress(RuntimeError):
                torch.npu.graph_task_update_end(graph.graph_dispatch_mode.update_stream)
            raise UpdateError(f"the update of {sorted(arguments)} was refused: {error}") from error
        self._stats.update_seconds += time.perf_counter() - begin
        self._stats.updates += len(records_of(graph))
        if self._order == "update_first":
            graph.replay()
