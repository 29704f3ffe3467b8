"""Which way a batch runs: in a full graph, in piecewise graphs, or eagerly.

Pure Python and free of side effects: the runner trusts what is decided here, and this file is
tested without a device. Decisions equal vLLM 0.27.1's dispatcher
(`vllm/v1/cudagraph_dispatcher.py`) for the same token count and `uniform_decode` flag. What differs
on purpose is where the flag comes from. vLLM and vllm-ascend conclude it from the batch's *shape*
(every request has q tokens), so that a prompt of length q passes for a decode step and gets
garbage (vLLM #53051). Here every request must in fact be past its prompt.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import Enum, IntEnum
from functools import lru_cache
from typing import NamedTuple

from aclgraph.errors import ConfigError
from aclgraph.sizes import CaptureSizes


class RuntimeMode(IntEnum):
    """How one batch runs. The order matters: ranks agree on the smallest."""

    NONE = 0
    PIECEWISE = 1
    FULL = 2


class GraphMode(Enum):
    """What is captured: (mode of decode batches, mode of all other batches)."""

    NONE = (RuntimeMode.NONE, RuntimeMode.NONE)
    PIECEWISE = (RuntimeMode.PIECEWISE, RuntimeMode.PIECEWISE)
    FULL = (RuntimeMode.FULL, RuntimeMode.FULL)
    FULL_DECODE_ONLY = (RuntimeMode.FULL, RuntimeMode.NONE)
    FULL_AND_PIECEWISE = (RuntimeMode.FULL, RuntimeMode.PIECEWISE)

    @property
    def decode(self) -> RuntimeMode:
        return self.value[0]

    @property
    def mixed(self) -> RuntimeMode:
        return self.value[1]

    @property
    def separate(self) -> bool:
        """Decode batches have graphs of their own."""
        return self.decode is not self.mixed


class GraphKey(NamedTuple):
    """What a graph is captured for; two batches with one key may share it.

    `num_reqs` is None for piecewise graphs, whose pieces do not depend on it.
    """

    mode: RuntimeMode
    num_tokens: int
    num_reqs: int | None
    uniform: bool


# From a capture size to the graph that a batch of that size takes.
_KeyOf = Callable[[int], GraphKey | None]


@dataclass(frozen=True, slots=True)
class Batch:
    """What the dispatcher needs to know of one step's batch.

    Attributes:
        num_tokens: scheduled tokens, all requests together.
        num_reqs: requests.
        query_len: tokens of every request, or 0 if they differ.
        prefilling: requests that have not computed their whole prompt yet.
    """

    num_tokens: int
    num_reqs: int
    query_len: int
    prefilling: int = 0

    @classmethod
    def of(
        cls, scheduled: Sequence[int], computed: Sequence[int], prompt: Sequence[int]
    ) -> "Batch":
        """From per-request lists: tokens scheduled now, tokens computed before, prompt tokens."""
        same = len(set(scheduled)) == 1
        behind = sum(done < length for done, length in zip(computed, prompt, strict=True))
        return cls(sum(scheduled), len(scheduled), scheduled[0] if same else 0, behind)

    @classmethod
    def decode(cls, num_reqs: int, query_len: int = 1) -> "Batch":
        """`num_reqs` requests past their prompts, `query_len` tokens each."""
        return cls(num_reqs * query_len, num_reqs, query_len)


@dataclass(frozen=True, slots=True)
class Decision:
    """How a batch runs.

    Attributes:
        num_tokens: the batch's own tokens.
        key: the graph to take; None to run eagerly, unpadded.
    """

    num_tokens: int
    key: GraphKey | None

    @property
    def mode(self) -> RuntimeMode:
        return self.key.mode if self.key else RuntimeMode.NONE

    @property
    def padded(self) -> int:
        """Tokens after padding."""
        return self.key.num_tokens if self.key else self.num_tokens


@lru_cache(maxsize=4096)
def _eager(num_tokens: int) -> Decision:
    return Decision(num_tokens, None)


class Dispatcher:
    """Decides by table: a decision is one index into a tuple that was filled at construction.

    Args:
        mode: what is captured.
        sizes: the capture sizes; their `query_len` is the q of a decode step.
        max_num_seqs: most requests in one step.
    """

    def __init__(self, mode: GraphMode, sizes: CaptureSizes, max_num_seqs: int) -> None:
        if max_num_seqs < 1:
            raise ConfigError(f"max_num_seqs is {max_num_seqs}, must be at least 1")
        self.mode, self.sizes, self.max_num_seqs = mode, sizes, max_num_seqs
        self.query_len = sizes.query_len
        self._mixed = self._table(self._mixed_key(mode.mixed))
        self._decode = self._table(self._decode_key()) if mode.separate else self._mixed
        piecewise = mode.mixed is RuntimeMode.PIECEWISE
        self._no_full = self._mixed if piecewise else (_eager(0),)

    def dispatch(self, batch: Batch, *, allow_full: bool = True) -> Decision:
        """The decision for a batch.

        Args:
            allow_full: False if something of this step can't be in a full graph (cascade attention,
                encoder outputs); a piecewise graph is taken then, or none.
        """
        query_len = self.query_len
        uniform = (
            not batch.prefilling
            and batch.query_len == query_len
            and batch.num_tokens == query_len * batch.num_reqs
        )
        return self.lookup(batch.num_tokens, uniform, allow_full=allow_full)

    def lookup(self, num_tokens: int, uniform_decode: bool, *, allow_full: bool = True) -> Decision:
        """The decision for a token count and the flag, which the caller vouches for."""
        table = self._decode if uniform_decode else self._mixed
        if not allow_full:
            table = self._no_full
        if num_tokens < len(table):
            return table[num_tokens]
        return _eager(num_tokens)

    def agree(self, decisions: Sequence[Decision]) -> list[Decision]:
        """The decisions of all data-parallel ranks, made equal: their collectives must line up.

        The weakest mode and the most tokens win (vllm-ascend `model_runner_v1.py`). Every rank gets
        the same key with its own token count, so that each pads its own tail. A rank without work
        passes `lookup(0, True)` and then replays padding alone (`DecodeRunner.run_idle`).
        """
        working = [decision for decision in decisions if decision.num_tokens]
        mode = min((decision.mode for decision in working), default=RuntimeMode.NONE)
        key = None
        if mode is not RuntimeMode.NONE:
            tokens = max(decision.num_tokens for decision in working)
            uniform = all(decision.key.uniform for decision in working if decision.key)
            key = self.lookup(tokens, uniform, allow_full=mode is RuntimeMode.FULL).key
        return [Decision(decision.num_tokens, key) for decision in decisions]

    def graph_keys(self) -> tuple[GraphKey, ...]:
        """Every graph that a batch can be sent to, in capture order.

        Largest first, so that smaller graphs reuse the pool's memory.
        """
        found = {decision.key for table in (self._mixed, self._decode) for decision in table}
        kept = [key for key in found if key is not None]
        return tuple(sorted(kept, key=lambda key: (key.mode, -key.num_tokens, key.uniform)))

    def explain(self, batch: Batch, *, allow_full: bool = True) -> str:
        """The decision and its reason, in one line."""
        decision = self.dispatch(batch, allow_full=allow_full)
        head = f"{batch.num_tokens} tokens of {batch.num_reqs} requests: "
        if decision.key:
            kind = "full decode graph" if decision.key.uniform else f"{decision.mode.name} graph"
            padding = decision.padded - batch.num_tokens
            head += f"{kind} of {decision.padded} tokens ({padding} padding)"
        else:
            head += "eager"
        return f"{head}; {self._why(batch, decision, allow_full)}"

    def _why(self, batch: Batch, decision: Decision, allow_full: bool) -> str:
        if self.mode is GraphMode.NONE:
            return "graphs are off (mode NONE)"
        if decision.key and decision.key.uniform:
            return "every request is past its prompt and has the same query length"
        too_large = batch.num_tokens > self.sizes.largest
        # Without graphs for other batches, being no decode batch is reason enough.
        if too_large and not (batch.prefilling and self.mode is GraphMode.FULL_DECODE_ONLY):
            return f"larger than the largest capture size {self.sizes.largest}"
        if not self.mode.separate:
            return f"mode {self.mode.name} makes no difference between decode and other batches"
        if not allow_full:
            return "the caller excluded full graphs for this step"
        return self._why_no_decode(batch)

    def _why_no_decode(self, batch: Batch) -> str:
        if batch.prefilling:
            return (
                f"{batch.prefilling} of {batch.num_reqs} requests are still in their prompt, "
                "so this is no decode batch, whatever its shape"
            )
        if batch.query_len == 0:
            return "the requests' query lengths differ"
        if batch.query_len != self.query_len:
            return f"query length {batch.query_len}; decode graphs have {self.query_len}"
        return (
            f"padded it would hold more requests than max_num_seqs {self.max_num_seqs}, "
            "and no decode graph is captured for that"
        )

    def _mixed_key(self, mode: RuntimeMode) -> _KeyOf:
        def key(size: int) -> GraphKey | None:
            if mode is RuntimeMode.NONE:
                return None
            reqs = min(size, self.max_num_seqs) if mode is RuntimeMode.FULL else None
            return GraphKey(mode, size, reqs, False)

        return key

    def _decode_key(self) -> _KeyOf:
        mixed = self._mixed_key(self.mode.mixed)

        def key(size: int) -> GraphKey | None:
            reqs = size // self.query_len
            if reqs > self.max_num_seqs:
                return mixed(size)
            return GraphKey(RuntimeMode.FULL, size, reqs, True)

        return key

    def _table(self, key: _KeyOf) -> tuple[Decision, ...]:
        """Index: number of tokens. Entry 0 is an idle data-parallel rank's: the smallest graph."""
        entries = []
        for num_tokens in range(self.sizes.largest + 1):
            size = self.sizes.fit(max(num_tokens, 1))
            assert size is not None
            entries.append(Decision(num_tokens, key(size)))
        return tuple(entries)
