"""A row's ``aten`` column against PyTorch's operator schemas.

``add.out(self, other, alpha=alpha, out=out)`` is read as a call; every argument of the schema gets
a source: a parameter (converted by its kind), a constant, or the schema's default.
"""

from __future__ import annotations

import ast
import os
import re
from dataclasses import dataclass
from typing import Any

from softnpu.optable import OpRow, TableError

# Generating must not need the device whose library it generates; children keep the user's choice.
_AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
_before = os.environ.get(_AUTOLOAD)
os.environ[_AUTOLOAD] = "0"
import torch  # noqa: E402

if _before is None:
    del os.environ[_AUTOLOAD]
else:
    os.environ[_AUTOLOAD] = _before

# ATen uses some names that Python reserves.
_RESERVED = re.compile(r"\b(from|lambda|in|is)\b")
_CONVERSIONS: dict[tuple[str, str], str] = {
    **{(k, t): "Value" for k in ("T", "T!", "T!?", "T*") for t in ("Tensor", "Optional[Tensor]")},
    **{(k, "List[Tensor]"): "First" for k in ("T", "T!")},
    ("T?", "Optional[Tensor]"): "Value",
    ("T?", "Tensor"): "Undefined",
    **{(k, t): "Value" for k in ("S", "S?") for t in ("number", "Optional[number]")},
    **{(k, t): "Real" for k in ("S", "S?") for t in ("float", "Optional[float]")},
    **{(k, t): "Int" for k in ("S", "S?") for t in ("int", "Optional[int]")},
    **{(k, "Tensor"): "WrappedNumber" for k in ("S", "S?")},
    ("S?", "Optional[Tensor]"): "WrappedNumber",
    **{
        (k, t): "Value"
        for k in ("i8", "i32", "i64", "u64")
        for t in ("int", "Optional[int]", "number", "Optional[number]")
    },
    **{(k, t): "Real" for k in ("i8", "i32", "i64", "u64") for t in ("float", "Optional[float]")},
    **{
        (k, t): "Value"
        for k in ("f32", "f64")
        for t in ("float", "Optional[float]", "number", "Optional[number]")
    },
    **{("bool", t): "Value" for t in ("bool", "Optional[bool]")},
    **{("I", t): "Value" for t in ("List[int]", "Optional[List[int]]")},
    ("I?", "Optional[List[int]]"): "Value",
    **{(k, "List[Tensor]"): "Value" for k in ("L", "L!")},
    **{(k, "List[Optional[Tensor]]"): "OptTensorList" for k in ("L", "L?")},
    ("SL", "List[number]"): "Value",
    ("B", "List[bool]"): "Value",
    ("F", "List[float]"): "Value",
    **{("dt", t): "Value" for t in ("int", "Optional[int]")},
    **{("str", t): "Value" for t in ("str", "Optional[str]")},
}


@dataclass(frozen=True)
class Source:
    """Mirror of ops::Source: how one schema argument is made."""

    how: str
    param: int = -1
    value: Any = None


@dataclass(frozen=True)
class AtenCall:
    """A checked ``aten`` column. ``copies[i]``: the parameter that takes result i, or -1."""

    name: str
    overload: str
    sources: tuple[Source, ...]
    copies: tuple[int, ...]


def constant(value: object, where: str) -> Source:
    """A literal of the table or a schema's default."""
    if value is None:
        return Source("None")
    if isinstance(value, bool):
        return Source("ConstBool", value=value)
    if isinstance(value, int):
        return Source("ConstInt", value=value)
    if isinstance(value, float):
        return Source("ConstReal", value=value)
    if isinstance(value, str):
        return Source("ConstString", value=value)
    if isinstance(value, (list, tuple)) and all(type(v) is int for v in value):
        return Source("ConstIntList", value=tuple(value))
    raise TableError(f"{where}: constant {value!r} has no representation")


class _Reader:
    def __init__(self, row: OpRow) -> None:
        self.row = row
        self.where = f"{row.file}: {row.acl}"
        self.index = {p.name: i for i, p in enumerate(row.params)}

    def param(self, node: ast.expr) -> int:
        name = node.id.removesuffix("_kw") if isinstance(node, ast.Name) else ast.unparse(node)
        if name not in self.index:
            raise TableError(f"{self.where}: '{name}' is not a parameter of the acl signature")
        return self.index[name]

    def source(self, node: ast.expr, schema_type: str) -> Source:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            return self.special(node.func.id, node.args)
        if not isinstance(node, ast.Name):
            try:
                return constant(ast.literal_eval(node), self.where)
            except ValueError:
                raise TableError(f"{self.where}: cannot read '{ast.unparse(node)}'") from None
        index = self.param(node)
        how = _CONVERSIONS.get((self.row.params[index].kind, schema_type))
        if how is None:
            kind = self.row.params[index].kind
            raise TableError(f"{self.where}: {node.id} of kind {kind} does not fit {schema_type}")
        return Source(how, index)

    def special(self, name: str, args: list[ast.expr]) -> Source:
        if name == "pick" and args:
            texts = tuple(ast.literal_eval(arg) for arg in args[1:])
            if not all(text is None or isinstance(text, str) for text in texts):
                raise TableError(f"{self.where}: pick() chooses among texts and None")
            return Source("Pick", self.param(args[0]), texts)
        indices = tuple(self.param(arg) for arg in args)
        if name == "generator":
            return Source("Generator", indices[0], indices)
        simple = {"item": "Item", "dtype": "DTypeOf", "list": "First", "contiguous": "Contiguous"}
        if name not in simple or len(indices) != 1:
            raise TableError(f"{self.where}: unknown form '{name}'")
        return Source(simple[name], indices[0])


def _schema(row: OpRow, name: str, overload: str) -> Any:
    where = f"{row.file}: {row.acl}"
    full = f"aten::{name}" + (f".{overload}" if overload else "")
    try:
        torch._C._dispatch_find_schema_or_throw(f"aten::{name}", overload)
        schema = torch._C._get_schema(f"aten::{name}", overload)
    except RuntimeError:
        raise TableError(f"{where}: PyTorch has no operator {full}") from None
    if not torch._C._dispatch_has_computed_kernel_for_dispatch_key(full, "CPU"):
        raise TableError(f"{where}: {full} has no CPU kernel")
    return schema


def _bind(row: OpRow, call: ast.Call, schema: Any) -> dict[str, ast.expr]:
    """The given expression per schema argument; raises for one that the schema does not have."""
    where = f"{row.file}: {row.acl}"
    names = [a.name for a in schema.arguments]
    positional = [a.name for a in schema.arguments if not a.kwarg_only]
    if len(call.args) > len(positional):
        raise TableError(f"{where}: {schema.name} takes {len(positional)} positional arguments")
    given = dict(zip(positional, call.args, strict=False))
    for keyword in call.keywords:
        key = (keyword.arg or "").removesuffix("_kw")
        if key not in names or key in given:
            raise TableError(f"{where}: {schema.name} has no further argument '{key}'")
        given[key] = keyword.value
    return given


def _results(row: OpRow, text: str, schema: Any) -> tuple[int, ...]:
    where = f"{row.file}: {row.acl}"
    names = [part.strip() for part in text.split(",")]
    if len(names) > len(schema.returns):
        raise TableError(f"{where}: {schema.name} has {len(schema.returns)} results")
    index = {p.name: i for i, p in enumerate(row.params) if p.is_output}
    for name in names:
        if name != "_" and name not in index:
            raise TableError(f"{where}: '{name}' is not an output of the acl signature")
    return tuple(index.get(name, -1) for name in names)


def check(row: OpRow) -> AtenCall:
    """Looks the row's call up; raises TableError for whatever does not fit the schema."""
    where = f"{row.file}: {row.acl}"
    text, arrow, results = (row.aten or "").partition("->")
    try:
        call = ast.parse(_RESERVED.sub(r"\1_kw", text.strip()), mode="eval").body
    except SyntaxError:
        call = None
    if not isinstance(call, ast.Call) or not isinstance(call.func, (ast.Name, ast.Attribute)):
        raise TableError(f"{where}: 'aten' is not a call: {text!r}")
    name, _, overload = ast.unparse(call.func).replace("_kw", "").partition(".")
    schema = _schema(row, name, overload)
    given = _bind(row, call, schema)
    reader = _Reader(row)
    sources, written = [], set()
    for argument in schema.arguments:
        if argument.name in given:
            source = reader.source(given[argument.name], str(argument.type))
            if argument.is_out and source.how == "Value" and str(argument.type) == "Tensor":
                source = Source("Out", source.param)
            alias = argument.alias_info
            if alias is not None and alias.is_write and source.param >= 0:
                written.add(source.param)
        elif argument.has_default_value():
            source = constant(argument.default_value, where)
        else:
            raise TableError(f"{where}: {schema.name} needs '{argument.name}'")
        sources.append(source)
    copies = _results(row, results, schema) if arrow else ()
    _check_outputs(row, written, set(copies) - {-1})
    return AtenCall(f"aten::{name}", overload, tuple(sources), copies)


def _check_outputs(row: OpRow, written: set[int], copied: set[int]) -> None:
    where = f"{row.file}: {row.acl}"
    for i, param in enumerate(row.params):
        if param.is_output and i not in written | copied:
            raise TableError(f"{where}: nothing writes the output '{param.name}'")
    for i in written:
        name, kind = row.params[i].name, row.params[i].kind
        if not row.params[i].is_output:
            raise TableError(f"{where}: the call writes '{name}', which is not an output")
        if kind == "T*":
            raise TableError(f"{where}: '{name}' is T*, so it needs '-> {name}'")
