"""Which batch sizes get a graph.

A size is a number of tokens. A decode batch runs in the graph of the smallest size that holds it,
so the list trades padding against graphs. The rules are those of vLLM 0.27.1
(`vllm/config/vllm.py`, `vllm/config/compilation.py`) and vllm-ascend (`vllm_ascend/platform.py`).
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from aclgraph.errors import ConfigError

# Past this size the device is busy long enough to hide the host; both projects stop here.
SIZE_CAP = 512

Flavour = Literal["ascend", "vllm"]


@dataclass(frozen=True, slots=True)
class Dropped:
    """A size that was asked for and is not captured, and why."""

    size: int
    reason: str


@dataclass(frozen=True)
class CaptureSizes:
    """The sizes to capture.

    Attributes:
        sizes: tokens per graph, ascending, each a multiple of `query_len`.
        query_len: tokens per request of a decode step: 1, or 1 + draft tokens.
        dropped: what was left out on the way, with the reason of each.
    """

    sizes: tuple[int, ...]
    query_len: int = 1
    dropped: tuple[Dropped, ...] = ()

    def __post_init__(self) -> None:
        if self.query_len < 1:
            raise ConfigError(f"query_len is {self.query_len}; a request has at least one token")
        if not self.sizes:
            raise ConfigError(f"no capture size is left{_because(self.dropped)}")
        if list(self.sizes) != sorted(set(self.sizes)) or self.sizes[0] < 1:
            raise ConfigError(f"sizes must be positive, unique and ascending, not {self.sizes}")
        odd = [size for size in self.sizes if size % self.query_len]
        if odd:
            raise ConfigError(
                f"sizes {odd} are no multiple of the query length {self.query_len} (1 + draft "
                "tokens): their last request would be cut. Use for_speculation() to round them"
            )

    @property
    def largest(self) -> int:
        return self.sizes[-1]

    def fit(self, num_tokens: int) -> int | None:
        """The smallest size that holds `num_tokens`, or None if none does."""
        index = bisect_left(self.sizes, num_tokens)
        return self.sizes[index] if index < len(self.sizes) else None

    def uncovered(self, max_num_seqs: int) -> range:
        """Decode batches (in requests) up to `max_num_seqs` that are too large for any graph.

        The default lists stop at a multiple of 8 or 16: with max_num_seqs 100 the largest size is
        96, and batches of 97 to 100 requests run eagerly.
        """
        return range(self.largest // self.query_len + 1, max_num_seqs + 1)

    def for_speculation(self, query_len: int, limit: int | None = None) -> "CaptureSizes":
        """The list rounded up to multiples of `query_len`, none above `limit` tokens."""
        limit = self.largest if limit is None else limit
        rounded = {-(-size // query_len) * query_len: size for size in reversed(self.sizes)}
        kept = tuple(sorted(size for size in rounded if size <= limit))
        too_large = tuple(
            Dropped(size, f"rounded up to {up} for query length {query_len} it exceeds {limit}")
            for up, size in sorted(rounded.items())
            if up > limit
        )
        return CaptureSizes(kept, query_len, self.dropped + too_large)

    def for_sequence_parallel(self, tp: int) -> "CaptureSizes":
        """Only the multiples of the tensor parallel size: sequence parallelism splits tokens."""
        return self._filter(lambda size: size % tp == 0, f"no multiple of tensor parallel {tp}")

    def keep(self, kept: Iterable[int], reason: str) -> "CaptureSizes":
        """Only the sizes in `kept`; the others are recorded as dropped for `reason`."""
        wanted = set(kept)
        return self._filter(lambda size: size in wanted, reason)

    def _filter(self, test: Callable[[int], bool], reason: str) -> "CaptureSizes":
        dropped = tuple(Dropped(size, reason) for size in self.sizes if not test(size))
        kept = tuple(size for size in self.sizes if test(size))
        return replace(self, sizes=kept, dropped=self.dropped + dropped)


def default_sizes(
    max_num_seqs: int,
    *,
    query_len: int = 1,
    max_num_batched_tokens: int | None = None,
    sequence_parallel_tp: int = 1,
    flavour: Flavour = "ascend",
) -> CaptureSizes:
    """The list that vllm-ascend (or vLLM) captures by default.

    Args:
        max_num_seqs: most requests in one step.
        query_len: tokens per request in a decode step, 1 + draft tokens.
        max_num_batched_tokens: most tokens in one step; clips the list. None: no clip.
        sequence_parallel_tp: tensor parallel size if sequence parallelism is on.
        flavour: "ascend" goes up to max_num_seqs * query_len tokens, "vllm" to twice that; both
            stop at 512.

    Raises:
        ConfigError: no size is left.
    """
    if max_num_seqs < 1 or query_len < 1:
        raise ConfigError(
            f"max_num_seqs {max_num_seqs} and query_len {query_len} must be at least 1"
        )
    factor = 2 if flavour == "vllm" else 1
    limit = min(max_num_seqs * query_len * factor, SIZE_CAP)
    sizes = set()
    if max_num_batched_tokens is not None:
        limit = min(limit, max_num_batched_tokens)
        if max_num_batched_tokens <= limit:
            sizes.add(max_num_batched_tokens)
    sizes.update(size for size in (1, 2, 4) if size <= limit)
    sizes.update(range(8, min(limit + 1, 256), 8))
    sizes.update(range(256, limit + 1, 16))
    return _finish(CaptureSizes(tuple(sorted(sizes))), query_len, limit, sequence_parallel_tp)


def user_sizes(
    sizes: Iterable[int],
    *,
    query_len: int = 1,
    max_size: int | None = None,
    max_num_batched_tokens: int | None = None,
    sequence_parallel_tp: int = 1,
) -> CaptureSizes:
    """A list of the user's: duplicates removed, sorted, clipped and rounded like the default one.

    Args:
        sizes: tokens per graph, in any order.
        query_len, max_num_batched_tokens, sequence_parallel_tp: as in `default_sizes`.
        max_size: the largest size, if it was configured as well; must agree with the list.

    Raises:
        ConfigError: a size is not positive, `max_size` disagrees, or no size is left.
    """
    wanted = sorted(set(sizes))
    if not wanted or wanted[0] < 1:
        raise ConfigError(f"capture sizes must be positive and at least one, got {wanted}")
    kept = tuple(
        size for size in wanted if max_num_batched_tokens is None or size <= max_num_batched_tokens
    )
    reason = f"more than max_num_batched_tokens {max_num_batched_tokens}"
    dropped = tuple(Dropped(size, reason) for size in wanted if size not in kept)
    result = CaptureSizes(kept, dropped=dropped)
    if max_size is not None and max_size != result.largest:
        raise ConfigError(
            f"the largest capture size is {result.largest}, but max_size says {max_size}: "
            "give one of the two, or make them agree"
        )
    return _finish(result, query_len, result.largest, sequence_parallel_tp)


def _finish(sizes: CaptureSizes, query_len: int, limit: int, tp: int) -> CaptureSizes:
    if query_len > 1:
        sizes = sizes.for_speculation(query_len, limit)
    return sizes.for_sequence_parallel(tp) if tp > 1 else sizes


def _because(dropped: tuple[Dropped, ...]) -> str:
    return "".join(f"; {item.size}: {item.reason}" for item in dropped)
