"""Side-by-side timing: every figure is a ratio taken in one process, the two sides alternating."""

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

ROUNDS = 15


@dataclass(frozen=True)
class Row:
    """One line of the table: microseconds per unit of work, ours and the baseline's."""

    what: str
    ours: float
    baseline: float
    target: float | None
    unit: str = "op"
    against: str = "CPU torch"

    @property
    def ratio(self) -> float:
        return self.ours / self.baseline


def compare(
    ours: Callable[[], None],
    baseline: Callable[[], None],
    ours_units: int,
    baseline_units: int,
    rounds: int = ROUNDS,
) -> tuple[float, float]:
    """Median microseconds per unit of each side; one call of each per round, in turn."""
    ours()
    baseline()
    samples: tuple[list[float], list[float]] = ([], [])
    for _ in range(rounds):
        for side, (run, units) in enumerate(((ours, ours_units), (baseline, baseline_units))):
            begin = time.perf_counter()
            run()
            samples[side].append((time.perf_counter() - begin) * 1e6 / units)
    return statistics.median(samples[0]), statistics.median(samples[1])
