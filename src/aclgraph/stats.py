"""What a run of many steps did with the graphs."""

from dataclasses import asdict, dataclass


@dataclass
class Stats:
    """Counts since the runner was made or `reset()`.

    Attributes:
        replays: steps that took a graph.
        eager: steps that ran without one.
        real_tokens, padded_tokens: tokens of the replayed steps, before and after padding.
        updates: operators that were updated with host values.
        update_seconds: host time of those updates.
    """

    replays: int = 0
    eager: int = 0
    real_tokens: int = 0
    padded_tokens: int = 0
    updates: int = 0
    update_seconds: float = 0.0

    @property
    def steps(self) -> int:
        return self.replays + self.eager

    @property
    def hit_rate(self) -> float:
        """Share of steps that took a graph, 0 to 1."""
        return self.replays / self.steps if self.steps else 0.0

    @property
    def padding_waste(self) -> float:
        """Share of replayed tokens that were padding, 0 to 1."""
        return 1 - self.real_tokens / self.padded_tokens if self.padded_tokens else 0.0

    @property
    def update_us(self) -> float:
        """Host microseconds of updates per replay."""
        return self.update_seconds * 1e6 / self.replays if self.replays else 0.0

    def reset(self) -> None:
        self.__init__()  # type: ignore[misc]

    def as_dict(self) -> dict[str, float]:
        derived = {
            "hit_rate": self.hit_rate,
            "padding_waste": self.padding_waste,
            "update_us": self.update_us,
        }
        return {**asdict(self), **derived}

    def __str__(self) -> str:
        return (
            f"{self.steps} steps: {self.replays} replayed, {self.eager} eager, hit rate "
            f"{self.hit_rate:.1%}, padding {self.padding_waste:.1%}, "
            f"updates {self.update_us:.1f} us per replay"
        )
