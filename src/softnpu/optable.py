"""The operator table: what each aclnn function takes and how it is computed.

``load()`` reads ``tables/ops/*.yaml`` (one file per family). It needs neither torch nor a build, so
the CLI can print the table anywhere. Signatures are those of op-plugin's call sites (BSD-3), the
ATen calls name PyTorch schemas.

The ``acl`` column lists C arguments by kind (see KINDS): ``T`` tensor, ``T?`` that may be null,
``T!`` output, ``T!?`` output that may be null, ``T*`` output whose size is known only after the
run, ``L`` and ``L!`` lists, ``S`` scalar, ``SL`` scalar list, ``I`` ``F`` ``B`` arrays and
``dt`` dtype.

The ``aten`` column is a call: ``add.out(self, other, alpha=alpha, out=out)`` writes its outputs,
``add_.Tensor(self, other)`` its target, and ``max.dim(self, dim) -> values, _`` has its results
copied. Besides parameters and literals an argument may be

- ``pick(mode, None, 'trunc', 'floor')``: the text that an integer parameter selects,
- ``item(x)``: the value that a device tensor holds when the operator runs,
- ``dtype(x)``: the dtype of a tensor; ``list(x)``: one tensor as a list,
- ``contiguous(x)``: for an ATen kernel that reads dense memory only,
- ``generator(seed, offset, ...)``: a generator seeded at each run, by value or from device memory.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

TABLES = Path(__file__).parent / "tables" / "ops"

# Kind of the `acl` column -> (C type of the argument, enumerator of ops::Kind).
KINDS: dict[str, tuple[str, str]] = {
    "T": ("const aclTensor*", "Tensor"),
    "T?": ("const aclTensor*", "OptTensor"),
    "T!": ("aclTensor*", "Output"),
    "T!?": ("aclTensor*", "OptOutput"),
    "T*": ("aclTensor*", "DynamicOutput"),
    "L": ("const aclTensorList*", "TensorList"),
    "L?": ("const aclTensorList*", "OptTensorList"),
    "L!": ("aclTensorList*", "OutputList"),
    "S": ("const aclScalar*", "Scalar"),
    "S?": ("const aclScalar*", "OptScalar"),
    "SL": ("const aclScalarList*", "ScalarList"),
    "I": ("const aclIntArray*", "IntArray"),
    "I?": ("const aclIntArray*", "OptIntArray"),
    "F": ("const aclFloatArray*", "FloatArray"),
    "B": ("const aclBoolArray*", "BoolArray"),
    "dt": ("int32_t", "DType"),
    "i8": ("int8_t", "Int"),
    "i32": ("int32_t", "Int"),
    "i64": ("int64_t", "Int"),
    "u64": ("uint64_t", "Int"),
    "f32": ("float", "Real"),
    "f64": ("double", "Real"),
    "bool": ("bool", "Bool"),
    "str": ("const char*", "String"),
}
OUTPUT_KINDS = frozenset({"T!", "T!?", "T*", "L!"})
_WAYS = ("aten", "kernel", "prepare", "stub")
_COLUMNS = frozenset({"acl", *_WAYS, "max_workspace", "partial", "dtypes", "test", "src"})
_SIGNATURE = re.compile(r"(aclnn[A-Za-z0-9]+)\((.*)\)")


class TableError(Exception):
    """A row that cannot be meant; the text names the file and the row."""


@dataclass(frozen=True)
class Param:
    """One C argument: its kind (a key of KINDS) and its name."""

    kind: str
    name: str

    @property
    def is_output(self) -> bool:
        return self.kind in OUTPUT_KINDS


@dataclass(frozen=True)
class OpRow:
    """One aclnn function.

    ``level`` is "implemented", "partial" or "stub"; ``note`` says what is missing. Exactly one of
    ``aten``, ``kernel``, ``prepare`` and ``stub`` is set. ``prepare`` is a kernel that checks its
    arguments when the call is recorded. ``max_workspace``: there is a GetMaxWorkspaceSize too.
    ``dtypes`` and ``test`` steer the generated tests.
    """

    acl: str
    params: tuple[Param, ...]
    level: str
    family: str
    file: str
    aten: str | None = None
    kernel: str | None = None
    prepare: str | None = None
    stub: str | None = None
    max_workspace: bool = False
    note: str = ""
    dtypes: tuple[str, ...] | None = None
    test: dict[str, Any] = field(default_factory=dict)
    src: str = ""

    @property
    def outputs(self) -> tuple[Param, ...]:
        return tuple(p for p in self.params if p.is_output)

    @property
    def signature(self) -> str:
        return f"{self.acl}({', '.join(f'{p.kind} {p.name}' for p in self.params)})"


def parse_params(text: str, where: str) -> tuple[Param, ...]:
    """``"T self, S alpha, T! out"`` -> parameters; raises TableError for an unknown kind."""
    params = []
    for item in filter(None, (part.strip() for part in text.split(","))):
        kind, _, name = item.partition(" ")
        if kind not in KINDS or not name.strip().isidentifier():
            raise TableError(
                f"{where}: '{item}' is not '<kind> <name>' with a kind of {list(KINDS)}"
            )
        params.append(Param(kind, name.strip()))
    names = [p.name for p in params]
    if len(set(names)) != len(names):
        raise TableError(f"{where}: two parameters share a name")
    return tuple(params)


def parse_row(data: object, file: str) -> OpRow:
    """One YAML entry -> OpRow; raises TableError naming what is wrong."""
    if not isinstance(data, dict) or not isinstance(data.get("acl"), str):
        raise TableError(f"{file}: a row needs an 'acl' signature: {data!r}")
    where = f"{file}: {data['acl'].split('(')[0]}"
    if unknown := set(data) - _COLUMNS:
        raise TableError(f"{where}: unknown column(s) {sorted(unknown)}")
    match = _SIGNATURE.fullmatch(data["acl"].strip())
    if match is None:
        raise TableError(f"{where}: 'acl' is not aclnnName(kind name, ...)")
    ways = [way for way in _WAYS if way in data]
    if len(ways) != 1:
        raise TableError(f"{where}: exactly one of {', '.join(_WAYS)} is needed, found {ways}")
    params = parse_params(match[2], where)
    if ways != ["stub"] and not any(p.is_output for p in params):
        raise TableError(f"{where}: no output (T!, T* or L!) in the signature")
    level = "stub" if "stub" in data else "partial" if "partial" in data else "implemented"
    return OpRow(
        acl=match[1],
        params=params,
        level=level,
        family=Path(file).stem,
        file=file,
        aten=data.get("aten"),
        kernel=data.get("kernel"),
        prepare=data.get("prepare"),
        stub=data.get("stub"),
        max_workspace=data.get("max_workspace", False),
        note=data.get("stub") or data.get("partial", ""),
        dtypes=tuple(data["dtypes"].split()) if "dtypes" in data else None,
        test=data.get("test", {}),
        src=data.get("src", ""),
    )


def load(folder: Path = TABLES) -> list[OpRow]:
    """All rows, sorted by name; raises TableError for a wrong or repeated row."""
    rows: dict[str, OpRow] = {}
    for path in sorted(folder.glob("*.yaml")):
        for data in yaml.load(path.read_text(), Loader=_LOADER) or []:
            row = parse_row(data, path.name)
            if row.acl in rows:
                raise TableError(f"{path.name}: {row.acl} is already in {rows[row.acl].file}")
            rows[row.acl] = row
    return [rows[name] for name in sorted(rows)]


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
