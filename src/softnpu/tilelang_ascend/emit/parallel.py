"""`T.Parallel` in C++: every store statement becomes a loop nest of its own.

Index checks of accesses that every iteration makes are done once before the loops, so that the
inner loop has nothing but arithmetic and the compiler can vectorise it.
"""

from __future__ import annotations

from ..affine import is_pure, key, linear, operands
from ..arith import binary
from ..ir import Binary, Dim, Expr, For, Load, Select, Store, Var
from ..regions import shape_text
from ..walk import loads
from .literals import quoted
from .writer import Writer


def can_split(loop: For) -> bool:
    """Whether the body is nothing but stores, which then run one after the other."""
    return all(isinstance(stmt, Store) for stmt in loop.body)


def emit_split(out: Writer, loop: For) -> None:
    """Writes one loop nest per store of the body."""
    for store in loop.body:
        assert isinstance(store, Store)
        target = Load(store.buffer, store.indices, store.loc)
        with out.braces():
            _hoist(out, loop, target, store)
            _nest(out, loop, store, target)


def _hoist(out: Writer, loop: For, target: Load, store: Store) -> None:
    for access in [target, *_always(store.value), *_inner(store)]:
        if access.buffer.scope == "ub" and all(_affine(index, loop) for index in access.indices):
            for axis in range(len(access.indices)):
                _check(out, loop, access, axis)
            out.proven.add(id(access))
    out.settle()


def _inner(store: Store) -> list[Load]:
    return [load for index in store.indices for load in loads(index)]


def _always(expr: Expr) -> list[Load]:
    """The accesses that are made whatever the conditions in `expr` say."""
    if isinstance(expr, Select):
        return _always(expr.cond)
    if isinstance(expr, Binary) and expr.op in ("land", "lor"):
        return _always(expr.a)
    found = [expr] if isinstance(expr, Load) else []
    return found + [load for part in operands(expr) for load in _always(part)]


def _affine(index: Expr, loop: For) -> bool:
    """Whether the loop's indices enter `index` only as terms of a sum."""
    for atom, _ in linear(index)[0].values():
        if any(atom is var for var in loop.indices):
            continue
        if not is_pure(atom) or _mentions(atom, loop.indices):
            return False
    return True


def _mentions(expr: Expr, variables: tuple[Var, ...]) -> bool:
    if isinstance(expr, Var) and expr.let is not None:
        return _mentions(expr.let, variables)
    return any(expr is var for var in variables) or any(
        _mentions(part, variables) for part in operands(expr)
    )


def _check(out: Writer, loop: For, access: Load, axis: int) -> None:
    index, dim = access.indices[axis], access.buffer.shape[axis]
    if out.is_inside(index, 1, dim):
        return
    terms, rest = linear(index)
    low, high = [f"INT64_C({rest})"], [f"INT64_C({rest})"]
    nonempty = []
    for atom, factor in terms.values():
        ends: tuple[Dim, Dim] = (atom, atom)
        for var, start, stop in zip(loop.indices, loop.starts, loop.stops, strict=True):
            if atom is var:
                nonempty.append(f"{out.index(start)} < {out.index(stop)}")
                ends = (start, binary("sub", stop, 1))
        first, last = ends if factor > 0 else ends[::-1]
        low.append(f"{out.index(first)} * {factor}")
        high.append(f"{out.index(last)} * {factor}")
    name = quoted(access.buffer.name + shape_text(access.buffer))
    begin, end = " + ".join(low), " + ".join(high)
    call = (
        f"task.inside({begin}, ({end}) - ({begin}) + 1, {out.index(dim)}, {name}, {axis}, "
        f"{out.places.of(access.loc)})"
    )
    guard = " && ".join([*nonempty, f"!{call}"])
    out.line(f"if ({guard}) return 1;")


def _nest(out: Writer, loop: For, store: Store, target: Load) -> None:
    heads = []
    for var, start, stop in zip(loop.indices, loop.starts, loop.stops, strict=True):
        name = out.names.of("v_", var)
        heads.append(
            f"for (int64_t {name} = {out.index(start)}; {name} < {out.index(stop)}; ++{name})"
        )
    for head in heads[:-1]:
        out.line(head + " {")
        out.depth += 1
    body, can_fail = out.store_text(store, target)
    pragma = "SN_IVDEP " if not can_fail and _independent(store, loop.indices[-1]) else ""
    with out.braces(pragma + heads[-1]):
        out.line(body)
    for _ in heads[:-1]:
        out.depth -= 1
        out.line("}")
    out.can_fail = can_fail
    out.settle()


def _independent(store: Store, inner: Var) -> bool:
    """Whether neighbouring iterations of the inner loop cannot meet in one element."""
    if store.buffer.scope != "ub":
        return False
    factors = [
        factor for index in store.indices
        for atom, factor in linear(index)[0].values() if atom is inner
    ]  # fmt: skip
    if not factors:
        return False
    wanted = [key(index) for index in store.indices]
    reads = [*loads(store.value), *_inner(store)]
    return all(
        load.buffer.root is not store.buffer.root
        or load.buffer is store.buffer
        and [key(index) for index in load.indices] == wanted
        for load in reads
    )
