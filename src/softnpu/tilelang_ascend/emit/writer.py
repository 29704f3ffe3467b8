"""Lines of C++ with indentation, and what statements share: regions as pointers, checks."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..affine import key, product
from ..errors import Loc
from ..ir import Dim, Expr, Load, Region, Store
from ..regions import shape_text
from .expr import ExprEmitter
from .literals import Names, Places, quoted


class Writer(ExprEmitter):
    """Collects the text of one kernel body."""

    def __init__(self, names: Names, places: Places) -> None:
        super().__init__(names, places)
        self.lines: list[str] = []
        self.depth = 1

    def line(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    @contextmanager
    def braces(self, head: str = "") -> Iterator[None]:
        self.line(f"{head} {{" if head else "{")
        self.depth += 1
        yield
        self.depth -= 1
        self.line("}")

    def settle(self) -> None:
        """Leaves the kernel if what was just emitted has reported a fault."""
        if self.can_fail:
            self.line("if (SN_UNLIKELY(task.failed)) return 1;")
        self.can_fail = False

    def require(self, condition: str) -> None:
        """Leaves the kernel unless `condition`, which reports its own fault, holds."""
        self.line(f"if (SN_UNLIKELY(!{condition})) return 1;")

    def store_text(self, stmt: Store, target: Load) -> tuple[str, bool]:
        """One element store, and whether it can report a fault."""
        self.can_fail = False
        flat = self.offset(stmt.buffer, self.element(target))
        value = self.value(stmt.value)
        if stmt.buffer.scope == "gm":
            gm, place = self.names.of("g_", stmt.buffer), self.places.of(stmt.loc)
            self.can_fail = True
            text = f"{gm}.store(task, {flat}, {value}, {place});"
        else:
            name, cpp = self.names.of("b_", stmt.buffer), stmt.buffer.dtype.cpp
            text = f"{name}[{flat}] = sn::store<{cpp}>({value});"
        failed, self.can_fail = self.can_fail, False
        return text, failed

    # -- regions of the unified buffer -------------------------------------------------------

    def pointer(self, region: Region) -> str:
        """The first element of a region, after checks that the region is inside its buffer."""
        buffer = region.buffer
        texts = []
        for axis, (low, extent, dim) in enumerate(
            zip(region.mins, region.extents, buffer.shape, strict=True)
        ):
            text = self.index(low)
            if not self.is_inside(low, extent, dim):
                name = quoted(buffer.name + shape_text(buffer))
                place = self.places.of(region.loc)
                self.settle()
                self.require(
                    f"task.inside({text}, {self.index(extent)}, {self.index(dim)}, {name}, "
                    f"{axis}, {place})"
                )
            texts.append(text)
        self.settle()
        flat = self.offset(buffer, texts)
        name = self.names.of("b_", buffer)
        return name if flat == "INT64_C(0)" else f"{name} + ({flat})"

    def size(self, region: Region) -> str:
        return self.index(product(region.extents))

    def declare(self, name: str, region: Region, constant: bool = False) -> None:
        text = self.pointer(region)
        qualifier = "const " if constant else ""
        self.line(f"{qualifier}{region.buffer.dtype.cpp}* const {name} = {text};")

    def apart(self, dst: Region, src: Region, src_name: str, loc: Loc | None) -> None:
        """Refuses, when running, a destination that begins inside the source."""
        if dst.buffer.root is not src.buffer.root or same_run(dst, src):
            return
        bytes_ = f"{self.size(src)} * INT64_C({src.buffer.dtype.bytes})"
        self.require(f"task.disjoint(d, {src_name}, {bytes_}, {self.places.of(loc)})")

    def count(self, limit: Dim | None, regions: list[Region], loc: Loc | None) -> str:
        """The number of elements of an instruction; a given limit is checked."""
        if limit is None:
            return self.size(regions[0])
        text = self.index(limit)
        if not isinstance(limit, Expr):
            return text
        for region in regions:
            if not self.is_inside(0, limit, product(region.extents)):
                self.require(f"task.fits({text}, {self.size(region)}, {self.places.of(loc)})")
        self.settle()
        return text


def same_run(a: Region, b: Region) -> bool:
    """Whether both regions are the same elements, as far as their indices are written the same."""
    return a.buffer is b.buffer and [key(x) for x in a.mins] == [key(x) for x in b.mins]
