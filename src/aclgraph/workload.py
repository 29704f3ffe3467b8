"""What a sequence of batches would do with a list of capture sizes, without running anything."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from aclgraph.dispatch import Batch, Decision, Dispatcher, RuntimeMode


@dataclass
class Workload:
    """Outcome of a sequence of batches.

    Attributes:
        steps: batches, and of them `decode`: every request past its prompt.
        replays: batches that take a graph.
        real_tokens, padded_tokens: of the replayed batches, before and after padding.
        buckets: replays per graph size.
        too_large: decode batches that run eagerly because no graph is large enough.
    """

    steps: int = 0
    decode: int = 0
    replays: int = 0
    real_tokens: int = 0
    padded_tokens: int = 0
    too_large: int = 0
    buckets: Counter[int] = field(default_factory=Counter)

    @property
    def hit_rate(self) -> float:
        """Share of all batches that take a graph."""
        return self.replays / self.steps if self.steps else 0.0

    @property
    def decode_hit_rate(self) -> float:
        """Share of decode batches that take a graph; less than 1 asks for larger sizes."""
        return 1 - self.too_large / self.decode if self.decode else 0.0

    @property
    def padding_waste(self) -> float:
        """Share of replayed tokens that are padding; high asks for more sizes."""
        return 1 - self.real_tokens / self.padded_tokens if self.padded_tokens else 0.0

    def add(self, batch: Batch, decision: Decision) -> None:
        """Counts one batch."""
        self.steps += 1
        self.decode += not batch.prefilling
        if decision.mode is RuntimeMode.NONE:
            self.too_large += not batch.prefilling
            return
        self.replays += 1
        self.real_tokens += batch.num_tokens
        self.padded_tokens += decision.padded
        self.buckets[decision.padded] += 1

    def as_dict(self) -> dict[str, Any]:
        return {
            "steps": self.steps,
            "decode_steps": self.decode,
            "replays": self.replays,
            "hit_rate": self.hit_rate,
            "decode_hit_rate": self.decode_hit_rate,
            "padding_waste": self.padding_waste,
            "buckets": dict(sorted(self.buckets.items())),
        }

    def __str__(self) -> str:
        return (
            f"{self.steps} steps, {self.decode} decode, {self.replays} replayed: hit rate "
            f"{self.hit_rate:.1%}, of decode {self.decode_hit_rate:.1%}, padding "
            f"{self.padding_waste:.1%}"
        )


def simulate(dispatcher: Dispatcher, batches: Iterable[Batch]) -> Workload:
    """The workload that `batches` are for `dispatcher`."""
    workload = Workload()
    for batch in batches:
        workload.add(batch, dispatcher.dispatch(batch))
    return workload
