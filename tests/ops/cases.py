"""Arguments for a row of the operator table, and what CPU PyTorch makes of them.

The `test` column steers: ``shapes``, ``domain``, ``ranges``, ``dtypes`` (of a parameter), ``ints``,
``reals``, ``bools``, ``scalars``, ``texts``, ``int_lists``, ``bool_lists`` (choices per parameter),
``nonzero``, ``sorted``, ``distinct``, ``permutation``, ``none`` (parameters), ``out_dtype``,
``out_dtypes``. Without ``shapes``, tensors get the shapes of the layouts below.
"""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

from softnpu.optable import OpRow, Param

DTYPES = (torch.float32, torch.float16, torch.bfloat16, torch.int64, torch.int32, torch.bool)
LAYOUTS = ("plain", "strided", "broadcast", "empty", "zero_dim")
_DOMAINS = {
    "any": (-3.0, 3.0), "positive": (0.1, 3.0), "unit": (-0.9, 0.9), "above_one": (1.1, 4.0),
    "probability": (0.05, 0.95),
}  # fmt: skip


@dataclass
class Case:
    """One call: values by parameter name, outputs still empty where PyTorch decides their shape."""

    row: OpRow
    label: str
    values: dict[str, Any] = field(default_factory=dict)


def row_dtypes(row: OpRow) -> tuple[torch.dtype, ...]:
    return tuple(getattr(torch, name) for name in row.dtypes) if row.dtypes else DTYPES


def make_values(shape: list[int], dtype: torch.dtype, low: float, high: float) -> torch.Tensor:
    if dtype == torch.bool:
        return torch.rand(shape) < 0.5
    if dtype.is_floating_point:
        return (torch.rand(shape) * (high - low) + low).to(dtype)
    first, last = round(low), max(round(high), round(low) + 1)
    return torch.randint(first, last, shape, dtype=dtype)


def strided(tensor: torch.Tensor) -> torch.Tensor:
    """The same values, with gaps and another order in memory."""
    if tensor.dim() == 0 or tensor.numel() == 0:
        return tensor
    wide = torch.zeros([*tensor.shape, 2], dtype=tensor.dtype).transpose(0, -2)[..., 1]
    wide = wide.transpose(0, -1)
    return wide.copy_(tensor)


class Builder:
    """Makes the values of one row for one dtype and one layout."""

    def __init__(self, row: OpRow, dtype: torch.dtype, layout: str) -> None:
        self.row, self.dtype, self.layout = row, dtype, layout
        self.test = row.test
        self.inplace = any(p.is_output and self.is_read(p) for p in row.params)
        self.placed = 0

    def is_read(self, param: Param) -> bool:
        """An output that also is an input: the target of an in-place function."""
        return param.kind in ("T!", "L!") and param.name in (
            "self", "query", "key", "x1", "x2", "scaled_grads", "found_inf", "noise", "key_cache",
        )  # fmt: skip

    def shape(self, param: Param, variant: int) -> list[int]:
        if (given := self.test.get("shapes", {}).get(param.name)) is not None:
            return given[variant % len(given)]
        number, self.placed = self.placed, self.placed + 1
        if self.layout == "zero_dim":
            return []
        if self.layout == "empty":
            return [0, 5]
        return [5] if self.layout == "broadcast" and number > 0 else [4, 5]

    def tensor(self, param: Param, shape: list[int]) -> torch.Tensor:
        low, high = _DOMAINS[self.test.get("domain", "any")]
        low, high = self.test.get("ranges", {}).get(param.name, (low, high))
        dtype = self.dtype
        if name := self.test.get("dtypes", {}).get(param.name):
            dtype = getattr(torch, name)
        value = make_values(shape, dtype, low, high)
        if param.name in self.test.get("nonzero", ()) and dtype != torch.bool:
            value = torch.where(value.abs() < 0.5, torch.ones_like(value), value)
        if param.name in self.test.get("sorted", ()):
            value = value.sort()[0]
        if param.name in self.test.get("distinct", ()):
            value = torch.randperm(value.numel()).reshape(shape).to(dtype)
        if param.name in self.test.get("permutation", ()):
            value = torch.randperm(value.numel()).reshape(shape)
        return strided(value) if self.layout == "strided" else value

    def scalar(self) -> bool | int | float:
        if self.dtype.is_floating_point:
            return 1.25
        return True if self.dtype == torch.bool else 2

    def choices(self, param: Param) -> list[Any]:
        """The values of a parameter that is not a tensor; each is tried."""
        column = {
            "S": "scalars", "I": "int_lists", "B": "bool_lists", "bool": "bools", "str": "texts",
            "f32": "reals", "f64": "reals",
        }.get(param.kind.rstrip("?"), "ints")  # fmt: skip
        if (given := self.test.get(column, {}).get(param.name)) is not None:
            return list(given)
        kind = param.kind.rstrip("?")
        if kind == "S":
            return [0 if param.name == "dim" else self.scalar()]
        if kind == "SL":
            return [[self.scalar(), self.scalar()]]
        if kind == "bool":
            return [False, True]
        if kind in ("f32", "f64"):
            return [0.5]
        if kind == "I":
            return [[0], [0, 1], [-1]] if param.name == "dim" else [[1]]
        if kind == "dt":
            names = self.test.get("out_dtypes")
            return [getattr(torch, name) for name in names] if names else [None]
        if param.name == "dim":
            return [0, -1]
        return [1] if param.name == "correction" else [0]

    def values_of(self, param: Param, variant: int) -> list[Any]:
        kind = param.kind.rstrip("?!*")
        if param.name in self.test.get("none", ()):
            return [None]
        if param.is_output and not self.is_read(param):
            return [None]
        if kind == "T":
            return [self.tensor(param, self.shape(param, variant))]
        if kind == "L":
            shapes = self.test.get("shapes", {}).get(param.name, [[[4, 5], [3, 2]]])
            return [[self.tensor(param, s) for s in shapes[variant % len(shapes)]]]
        return self.choices(param)

    def cases(self) -> Iterator[Case]:
        given = self.test.get("shapes", {}).values()
        for variant in range(max((len(v) for v in given), default=1)):
            self.placed = 0
            options = [self.values_of(p, variant) for p in self.row.params]
            for number, picked in enumerate(itertools.product(*options)):
                label = f"{str(self.dtype)[6:]}-{self.layout}-{variant}-{number}"
                names = [p.name for p in self.row.params]
                yield Case(self.row, label, dict(zip(names, map(copied, picked), strict=True)))


def copied(value: Any) -> Any:
    """The same values and strides in memory of their own."""
    if isinstance(value, list):
        return [copied(item) for item in value]
    if not isinstance(value, torch.Tensor):
        return value
    return torch.empty_strided(value.shape, value.stride(), dtype=value.dtype).copy_(value)


def layouts(row: OpRow) -> tuple[str, ...]:
    """Rows with fixed shapes can't be tried empty or broadcast."""
    return (
        LAYOUTS[:2] if row.test.get("shapes") or any("L" in p.kind for p in row.params) else LAYOUTS
    )


def cases(row: OpRow) -> Iterator[Case]:
    """All cases of a row, the same at every run."""
    torch.manual_seed(sum(map(ord, row.acl)))
    for dtype in row_dtypes(row):
        for layout in layouts(row):
            yield from Builder(row, dtype, layout).cases()


class Skip(Exception):
    """CPU PyTorch does not take these arguments either."""


class AtenReference:
    """Evaluates a row's ``aten`` column in Python."""

    def __init__(self, row: OpRow) -> None:
        text, _, results = (row.aten or "").partition("->")
        for word in ("from", "lambda", "in", "is"):
            text = _reserve(text, word)
        self.row = row
        self.call: ast.Call = ast.parse(text.strip(), mode="eval").body  # type: ignore[assignment]
        self.results = [name.strip() for name in results.split(",")] if results else []
        name, _, overload = ast.unparse(self.call.func).replace("_kw", "").partition(".")
        self.packet = getattr(torch.ops.aten, name)
        self.op = getattr(self.packet, overload or "default")

    def value(self, node: ast.expr, values: dict[str, Any]) -> Any:
        if isinstance(node, ast.Name):
            return values[node.id.removesuffix("_kw")]
        if not isinstance(node, ast.Call):
            return ast.literal_eval(node)
        form = node.func.id  # type: ignore[attr-defined]
        first = self.value(node.args[0], values)
        if form == "pick":
            return ast.literal_eval(node.args[1 + first])
        if form == "item":
            return first.item()
        if form == "contiguous":
            return None if first is None else first.contiguous()
        if form == "dtype":
            return values.get(":dtype") if first is None else first.dtype
        raise NotImplementedError(form)

    def arguments(self, values: dict[str, Any]) -> dict[str, Any]:
        names = [a.name for a in self.op._schema.arguments]
        nodes = dict(zip(names, self.call.args, strict=False))
        nodes |= {k.arg.removesuffix("_kw"): k.value for k in self.call.keywords if k.arg}
        return {name: self.value(node, values) for name, node in nodes.items()}

    def written(self) -> list[str]:
        """The parameters that the call itself writes, by schema order."""
        names = [a.name for a in self.op._schema.arguments]
        nodes = dict(zip(names, self.call.args, strict=False))
        nodes |= {k.arg.removesuffix("_kw"): k.value for k in self.call.keywords if k.arg}
        return [
            ast.unparse(nodes[a.name]).removesuffix("_kw")
            for a in self.op._schema.arguments
            if a.name in nodes and a.alias_info is not None and a.alias_info.is_write
        ]

    def functional(self) -> Any:
        """The overload without output arguments, which alone knows the results' dtypes."""
        wanted = [(a.name, str(a.type)) for a in self.op._schema.arguments if not a.is_out]
        for name in self.packet.overloads():
            candidate = getattr(self.packet, name)
            if [(a.name, str(a.type)) for a in candidate._schema.arguments] == wanted:
                return self.number_taking(candidate)
        return None

    def number_taking(self, overload: Any) -> Any:
        """Calls the overload, or its sibling that takes a Python number in a tensor's place."""

        def invoke(**arguments: Any) -> Any:
            schema = overload._schema.arguments
            if not any(
                isinstance(arguments.get(a.name), (int, float)) and str(a.type) == "Tensor"
                for a in schema
            ):
                return overload(**arguments)
            positional = [arguments[a.name] for a in schema if not a.kwarg_only]
            keywords = {
                a.name: arguments[a.name] for a in schema if a.kwarg_only and a.name in arguments
            }
            return self.packet(*positional, **keywords)

        return invoke

    def run(self, values: dict[str, Any]) -> dict[str, Any]:
        """Results by output parameter; in-place targets are replaced, not changed."""
        values = {name: copied(value) for name, value in values.items()}
        written = self.written()
        try:
            if self.results:
                return self._copy_out(values, written)
            for argument in self.op._schema.arguments:
                self._make_target(argument, values)
            if all(values[name] is not None for name in written):
                self.number_taking(self.op)(**self.arguments(values))
                return {name: values[name] for name in written}
            return self._functional_out(values, written)
        except (RuntimeError, NotImplementedError, IndexError, ValueError) as error:
            raise Skip(str(error).splitlines()[0]) from error

    def _make_target(self, argument: Any, values: dict[str, Any]) -> None:
        """A target that the call reads the shape of (copy_), of the shape of its source."""
        if argument.is_out or argument.alias_info is None or not argument.alias_info.is_write:
            return
        names = [a.name for a in self.op._schema.arguments]
        if argument.name not in names[: len(self.call.args)]:
            return
        target = ast.unparse(self.call.args[names.index(argument.name)])
        if target in values and values[target] is None:
            source = next(v for v in values.values() if isinstance(v, (torch.Tensor, list)))
            dtype = values.get("dtype")
            like = [torch.empty_like(t) for t in source] if isinstance(source, list) else None
            values[target] = like or torch.empty(source.shape, dtype=dtype or source.dtype)

    def _copy_out(self, values: dict[str, Any], written: list[str]) -> dict[str, Any]:
        results = self.op(**self.arguments(values))
        results = results if isinstance(results, (tuple, list)) else [results]
        if len(self.results) == 1 and len(results) > 1 and self.row.outputs[0].kind == "L!":
            results = [list(results)]
        found = dict(zip(self.results, results, strict=False))
        return {n: r for n, r in found.items() if n != "_"} | {n: values[n] for n in written}

    def _functional_out(self, values: dict[str, Any], written: list[str]) -> dict[str, Any]:
        function = self.functional()
        outputs = {a.name for a in self.op._schema.arguments if a.is_out}
        if function is None:
            return self._resized_out(values, written)
        values[":dtype"] = _first_tensor(values).dtype
        given = {k: v for k, v in self.arguments(values).items() if k not in outputs}
        results = function(**given)
        single = len(written) == 1
        return dict(zip(written, [results] if single else results, strict=True))

    def _resized_out(self, values: dict[str, Any], written: list[str]) -> dict[str, Any]:
        dtype = values.get(":dtype", torch.float32)
        shapes = self.row.test.get("shapes", {})
        for name in written:
            values[name] = torch.empty(shapes.get(name, [[0]])[0], dtype=dtype)
        self.op(**self.arguments(values))
        return {name: values[name] for name in written}


def _first_tensor(values: dict[str, Any]) -> torch.Tensor:
    for value in values.values():
        if isinstance(value, list) and value and isinstance(value[0], torch.Tensor):
            return value[0]
        if isinstance(value, torch.Tensor):
            return value
    return torch.empty(0)


def _reserve(text: str, word: str) -> str:
    import re

    return re.sub(rf"\b{word}\b", f"{word}_kw", text)
