"""aclgraph runs where there is no softnpu: it imports the standard library, torch and torch_npu."""

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "src/aclgraph"
ALLOWED = {*sys.stdlib_module_names, "aclgraph", "torch", "torch_npu"}


def imported(path):
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0 and node.module
            yield node.module.partition(".")[0]


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_what_is_imported(path):
    assert set(imported(path)) <= ALLOWED


def test_every_exported_name_is_there():
    import aclgraph

    assert all(getattr(aclgraph, name) is not None for name in aclgraph.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        aclgraph.nothing  # noqa: B018
