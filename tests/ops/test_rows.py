"""Every row of the operator table against CPU PyTorch, through the C functions.

The protected promise: an aclnn function gives exactly what CPU PyTorch gives for the same
arguments, for each dtype it claims, for strided, broadcast, empty and zero-dimensional tensors,
and writes nothing but its outputs.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import torch

from softnpu import optable
from tests.ops import aclnn, references
from tests.ops.cases import AtenReference, Case, Skip, cases, copied, strided

HERE = Path(__file__).parent
ROWS = [row for row in optable.load() if row.level != "stub"]


def poisoned(expected: torch.Tensor, case: Case) -> torch.Tensor:
    """Memory for an output, of the right shape and full of a value that must disappear."""
    out = torch.full_like(expected, True if expected.dtype == torch.bool else 77)
    return strided(out) if "strided" in case.label else out.contiguous()


def prepare(case: Case, expected: dict[str, Any]) -> dict[str, Any]:
    values = {name: copied(value) for name, value in case.values.items()}
    for param in case.row.params:
        if not param.is_output or values[param.name] is not None:
            continue
        result = expected[param.name]
        if isinstance(result, (list, tuple)):
            values[param.name] = [poisoned(t, case) for t in result]
        elif param.kind == "T*":
            shape = case.row.test["shapes"][param.name][0]
            values[param.name] = torch.full(shape, 1, dtype=result.dtype)
        else:
            values[param.name] = poisoned(result, case)
    return values


def check(name: str, actual: torch.Tensor, expected: torch.Tensor, exact: bool) -> None:
    tolerance = {"rtol": 0, "atol": 0} if exact else {}
    torch.testing.assert_close(
        actual, expected, equal_nan=True, check_stride=False, msg=lambda m: f"{name}: {m}",
        **tolerance,
    )  # fmt: skip


def run_case(case: Case, expected: dict[str, Any]) -> None:
    values = prepare(case, expected)
    before = {name: copied(value) for name, value in values.items()}
    shapes = aclnn.call(case.row.acl, values)
    # Dense and strided operands take different BLAS paths, which add up in different orders.
    exact = case.row.kernel is None and case.row.family != "matmul"
    for param in case.row.params:
        actual, want = values[param.name], expected.get(param.name, before[param.name])
        if param.kind == "T*":
            want = expected[param.name]
            assert shapes[param.name] == list(want.shape)
            actual = actual.reshape(-1)[: want.numel()].reshape(want.shape)
        pairs = zip(actual, want, strict=True) if isinstance(actual, list) else [(actual, want)]
        for got, wanted in pairs:
            if isinstance(got, torch.Tensor):
                check(param.name, got, wanted, exact)


def reference(row: optable.OpRow) -> Any:
    return AtenReference(row).run if row.aten else references.of_kernel(row)


@pytest.mark.parametrize(
    "row", [row for row in ROWS if "skip" not in row.test], ids=lambda row: row.acl
)
def test_row(row: optable.OpRow) -> None:
    compute, ran, reasons = reference(row), 0, []
    for case in cases(row):
        try:
            expected = compute(case.values)
        except Skip as why:
            reasons.append(f"{case.label}: {why}")
            continue
        try:
            run_case(case, expected)
        except (AssertionError, aclnn.AclnnError) as error:
            pytest.fail(f"{case.label}: {error}\nvalues: {case.values}")
        ran += 1
    assert ran > 0, f"no case ran: {reasons[:5]}"


def names_in(test_file: str) -> list[re.Pattern[str]]:
    """The aclnn names that a test file spells, where an f-string stands for each of its values.

    A file that goes through torch_npu spells PyTorch's names instead and stands for its rows.
    """
    text = (HERE / test_file).read_text()
    if "import torch_npu" in text:
        return [re.compile(r"aclnn\w+")]
    spelled = re.findall(r'"(aclnn[^"]*)"', text)
    return [re.compile(re.sub(r"\{[^}]*\}", r"\\w*", name)) for name in spelled]


def test_the_whole_table_is_tried() -> None:
    """A row that opts out of the generated cases names the file that checks it."""
    for row in ROWS:
        if (reason := row.test.get("skip")) is None:
            continue
        found = re.fullmatch(r"checked in (test_\w+\.py)", reason)
        assert found, f"{row.acl}: {reason}"
        assert any(p.fullmatch(row.acl) for p in names_in(found[1])), (
            f"{row.acl} is not in {found[1]}"
        )
