"""Which of the two dialects named `tilelang` a script is written for, from its source.

The adapter dialect (tilelang-ascend) and the mainline wheel share the import name, so one of them
has to be chosen before the interpreter starts. Nothing is imported or run to find out.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ADAPTER = "adapter"
MAINLINE = "mainline"

# Members of the language module that only one of the two has.
_ADAPTER_MEMBERS = {"tile", "Scope", "alloc_ub", "alloc_L1", "alloc_L0A", "alloc_L0B", "alloc_L0C"}
_MAINLINE_MEMBERS = {"SimtVF", "SimdVF", "simd", "MixedKernel", "Cube", "Vector"}


@dataclass(frozen=True)
class Mark:
    """One place in a source file that only makes sense in one dialect."""

    dialect: str
    file: Path
    line: int
    what: str

    def __str__(self) -> str:
        return f"{self.file.name}:{self.line} uses {self.what}"


@dataclass(frozen=True)
class Decision:
    """`dialect` is what to run with; `uses_tilelang` whether the script imports tilelang at all.

    `mark` is the evidence, None when there was none and the adapter was taken for want of it.
    """

    dialect: str
    uses_tilelang: bool
    mark: Mark | None


def decide(script: Path) -> Decision:
    """The dialect of a script and of the modules beside it that it imports.

    A mark of the adapter outweighs those of mainline: mainline has nothing of its kind, while
    scripts that run under both name both. A file that does not parse counts as empty; the
    interpreter will say what is wrong with it.
    """
    sources = [script, *_local_imports(script)]
    trees = {path: tree for path in sources if (tree := _parse(path)) is not None}
    uses_tilelang = any("tilelang" in _imported_roots(tree) for tree in trees.values())
    marks = [mark for path, tree in trees.items() for mark in _marks(path, tree)]
    marks.sort(key=lambda mark: mark.dialect != ADAPTER)
    if not uses_tilelang or not marks:
        return Decision(ADAPTER, uses_tilelang, None)
    return Decision(marks[0].dialect, uses_tilelang, marks[0])


def _parse(path: Path) -> ast.Module | None:
    try:
        return ast.parse(path.read_bytes(), filename=str(path))
    except (OSError, SyntaxError, ValueError):
        return None


def _imports(tree: ast.Module) -> Iterator[str]:
    """The dotted names that the file imports, submodules of a `from` import included."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module is not None:
            yield node.module
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _imported_roots(tree: ast.Module) -> set[str]:
    return {name.partition(".")[0] for name in _imports(tree)}


def _local_imports(script: Path) -> list[Path]:
    """The files beside the script that it imports itself; their own imports are not followed."""
    tree = _parse(script)
    found: dict[Path, None] = {}
    for name in _imports(tree) if tree is not None else ():
        stem = script.parent.joinpath(*name.split("."))
        for path in (stem.with_name(stem.name + ".py"), stem / "__init__.py"):
            if path.is_file():
                found[path] = None
    return list(found)


def _marks(path: Path, tree: ast.Module) -> Iterator[Mark]:
    languages = _language_names(tree)
    for node in ast.walk(tree):
        found = _mark_of(node, languages)
        if found is not None:
            yield Mark(found[0], path, getattr(node, "lineno", 1), found[1])


def _language_names(tree: ast.Module) -> set[str]:
    """What the file calls the language module: T, as a rule."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {a.asname for a in node.names if a.name.endswith(".language") and a.asname}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tilelang"):
            names |= {a.asname or a.name for a in node.names if a.name == "language"}
    return names


def _mark_of(node: ast.AST, languages: set[str]) -> tuple[str, str] | None:
    """The dialect that one syntax node speaks for, and how to name it to the user."""
    match node:
        case ast.keyword(arg="is_npu"):
            return ADAPTER, "is_npu="
        case ast.keyword(arg="target", value=ast.Constant(value="ascend")):
            return MAINLINE, 'target="ascend"'
        case ast.keyword(arg="target", value=ast.Constant(value=("ascendc" | "pto") as target)):
            return ADAPTER, f'target="{target}"'
        case ast.Attribute(attr=name) if name.startswith("TL_ASCEND_"):
            return ADAPTER, name
        case ast.Constant(value=str(text)) if text.startswith("tl.ascend_"):
            return ADAPTER, f'"{text}"'
        case ast.ImportFrom(module=str(module)) if module.startswith("tilelang.ascend"):
            return MAINLINE, module
        case ast.Attribute(value=ast.Name(id=owner), attr=name) if owner in languages:
            if name in _ADAPTER_MEMBERS:
                return ADAPTER, f"{owner}.{name}"
            if name in _MAINLINE_MEMBERS:
                return MAINLINE, f"{owner}.{name}"
    return None
