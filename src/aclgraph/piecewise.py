"""A step as several graphs with eager parts between them.

What no graph can hold, or what handles batches of any composition (attention over prompts and
decode tokens together), runs eagerly; the rest depends on the number of tokens alone and is
replayed. The step is cut while it is captured: where an eager part is called, the graph so far is
ended, the part runs, and the next graph begins.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_unflatten

from aclgraph.capture import failed
from aclgraph.dispatch import Decision, Dispatcher, GraphKey, RuntimeMode
from aclgraph.errors import CaptureError, ConfigError, LateCaptureError
from aclgraph.guard import Guard, Watched
from aclgraph.inputs import Buffers, Input, Per
from aclgraph.update import HostValues

Split = Sequence[torch.nn.Module | str]


@dataclass
class StepContext:
    """What the eager parts of the current step may look at.

    Attributes:
        num_tokens: the batch's own tokens; rows behind them are padding.
        inputs: the inputs that the runner does not declare, unpadded (block tables, lengths).
        host: the step's host values.
    """

    num_tokens: int = 0
    inputs: Mapping[str, Any] = field(default_factory=dict)
    host: HostValues = field(default_factory=dict)


@dataclass
class EagerPart:
    """A call between two graphs. Its tensor arguments and results are static memory."""

    name: str
    call: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    results: list[Any]

    def run(self) -> None:
        """Calls again and puts the results where the next graph reads them."""
        results = tree_flatten(self.call(*self.args, **self.kwargs))[0]
        for static, result in zip(self.results, results, strict=True):
            if isinstance(static, torch.Tensor):
                static.copy_(result)


class PiecewiseRunner:
    """Runs PIECEWISE decisions; give it to `DecodeRunner` as `piecewise`, or call it alone.

    A graph and at least one stream is needed per piece and size: plan with
    `live_plan(sizes, streams_per_graph=pieces)`.

    Args:
        step: called with the declared inputs by keyword; everything of a shape that follows the
            number of tokens. Returns a tensor or a nest of tensors.
        dispatcher: whose PIECEWISE graphs are captured.
        inputs: inputs with a row per token (or `Per.STEP`). Others stay out of the graphs: eager
            parts find them in `context`.
        split: what runs eagerly: submodules of the step, or operators by name ("aten::bmm").
        capture_inputs: from a number of tokens to `context.inputs` while capturing; eager parts run
            once per size then.
        watch: as for `DecodeRunner`.

    Attributes:
        context: the current step's, for eager parts.
    """

    def __init__(
        self,
        step: Callable[..., Any],
        dispatcher: Dispatcher,
        inputs: Sequence[Input],
        split: Split,
        *,
        capture_inputs: Callable[[int], Mapping[str, Any]] | None = None,
        watch: Mapping[str, Watched] | None = None,
    ) -> None:
        wrong = [spec.name for spec in inputs if spec.per not in (Per.TOKEN, Per.STEP)]
        if wrong:
            raise ConfigError(
                f"inputs {wrong} have no row per token; a piecewise graph is made for a number of "
                "tokens, not of requests. Leave them out: eager parts find them in `context`"
            )
        if not split:
            raise ConfigError("nothing to split at: this would be one full graph")
        self.step, self.context = step, StepContext()
        self._split, self._capture_inputs = split, capture_inputs or (lambda num_tokens: {})
        self._keys = [key for key in dispatcher.graph_keys() if key.mode is RuntimeMode.PIECEWISE]
        device = torch.device("npu", torch.npu.current_device())
        self._names = {spec.name for spec in inputs}
        self.buffers = Buffers(inputs, dispatcher.sizes.largest, 1, device)
        self._watch = dict(watch or {})
        if isinstance(step, torch.nn.Module):
            self._watch.setdefault(type(step).__name__, step)
        self.guard = Guard({})
        self.pieces: dict[GraphKey, list[Any]] = {}
        self._outputs: dict[GraphKey, Any] = {}

    def capture(self) -> None:
        """Captures every size, largest first, in one memory pool.

        Raises:
            CaptureError: a size failed, or the step never came to what it should be split at.
        """
        self.guard = Guard(self._watch)
        pool, stream = torch.npu.graph_pool_handle(), torch.npu.Stream()
        with torch.no_grad():
            for key in self._keys:
                self.buffers.idle()
                self._capture_one(key, pool, stream)
        torch.npu.synchronize()

    def _capture_one(self, key: GraphKey, pool: Any, stream: Any) -> None:
        tokens = key.num_tokens
        self.context = StepContext(tokens, self._capture_inputs(tokens))
        views = self.buffers.views(tokens)
        try:
            self.step(**views)
            torch.npu.synchronize()
            cutter = _Cutter(pool)
            with torch.npu.stream(stream), cutter.cutting(self._split):
                result = self.step(**views)
            torch.npu.synchronize()
        except Exception as error:
            raise failed(key, "its piecewise capture", error) from error
        if len(cutter.pieces) == 1:
            raise CaptureError(
                f"the step of {tokens} tokens never came to what it should be split at: "
                f"{[_name_of(item) for item in self._split]}"
            )
        self.pieces[key], self._outputs[key] = cutter.pieces, result

    def __call__(
        self, decision: Decision, inputs: Mapping[str, torch.Tensor], host: HostValues | None = None
    ) -> Any:
        """One step: replays and eager parts in turn.

        Returns:
            The step's result; tensors with a row per token are cut to the batch's own rows. They
            are static memory: the next step of this size overwrites them.
        """
        pieces = self.pieces.get(decision.key) if decision.key else None
        if pieces is None:
            sizes = sorted(key.num_tokens for key in self.pieces)
            raise LateCaptureError(f"no pieces for {decision.key}; captured are {sizes} tokens")
        self.guard.check()
        rest = {name: value for name, value in inputs.items() if name not in self._names}
        self.context = StepContext(decision.num_tokens, rest, host or {})
        declared = {name: inputs[name] for name in self._names if name in inputs}
        self.buffers.load(declared, decision.num_tokens)
        with torch.no_grad():
            for piece in pieces:
                piece.run() if isinstance(piece, EagerPart) else piece.replay()
        return self._cut(decision)

    def _cut(self, decision: Decision) -> Any:
        padded = decision.padded

        def cut(leaf: Any) -> Any:
            rows = isinstance(leaf, torch.Tensor) and leaf.dim() and leaf.shape[0] == padded
            return leaf[: decision.num_tokens] if rows else leaf

        assert decision.key is not None
        return tree_map(cut, self._outputs[decision.key])


class _Cutter:
    """Ends a graph where an eager part is called, runs the part, and begins the next graph."""

    def __init__(self, pool: Any) -> None:
        self.pieces: list[Any] = []
        self._pool = pool
        self._open: Any = None

    @contextmanager
    def cutting(self, split: Split) -> Iterator[None]:
        modules = [item for item in split if isinstance(item, torch.nn.Module)]
        operators = frozenset(item for item in split if isinstance(item, str))
        before = [(module, vars(module).get("forward")) for module in modules]
        for module in modules:
            self._intercept(module)
        try:
            with _Operators(self, operators):
                self._begin()
                yield
                self._end()
        except BaseException:
            if self._open is not None:
                with suppress(RuntimeError):
                    self._open.capture_end()
            raise
        finally:
            for module, forward in before:
                del module.forward  # the instance's, which hid the class's
                if forward is not None:
                    module.forward = forward

    def eagerly(self, name: str, call: Callable[..., Any], args: Any, kwargs: Any) -> Any:
        """Runs `call` between two graphs; its result is static memory."""
        self._end()
        # The part must see real values: its index arguments would be garbage otherwise.
        self.pieces[-1].replay()
        leaves, structure = tree_flatten(call(*args, **kwargs))
        static = [leaf.clone() if isinstance(leaf, torch.Tensor) else leaf for leaf in leaves]
        self.pieces.append(EagerPart(name, call, args, kwargs, static))
        self._begin()
        return tree_unflatten(static, structure)

    def _begin(self) -> None:
        self._open = torch.npu.NPUGraph()
        self._open.capture_begin(pool=self._pool)

    def _end(self) -> None:
        graph, self._open = self._open, None
        graph.capture_end()
        self.pieces.append(graph)

    def _intercept(self, module: torch.nn.Module) -> None:
        forward = module.forward
        name = type(module).__name__
        module.forward = lambda *args, **kwargs: self.eagerly(name, forward, args, kwargs)


class _Operators(TorchDispatchMode):
    """Sends the named operators to the cutter, but not those inside an eager part."""

    def __init__(self, cutter: _Cutter, names: frozenset[str]) -> None:
        super().__init__()
        self._cutter, self._names = cutter, names

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        if func._schema.name in self._names and self._cutter._open is not None:
            return self._cutter.eagerly(func._schema.name, func, args, kwargs or {})
        return func(*args, **(kwargs or {}))


def _name_of(item: torch.nn.Module | str) -> str:
    return item if isinstance(item, str) else type(item).__name__
