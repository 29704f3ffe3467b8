"""A table that cannot be meant stops the build, and says which row is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from softnpu import optable
from softnpu.codegen import ops

GOOD = (
    '- {acl: "aclnnAdd(T self, T other, S alpha, T! out)",'
    ' aten: "add.out(self, other, alpha=alpha, out=out)"}'
)


def wrong(tmp_path: Path, *rows: str, kernels: tuple[str, ...] = ()) -> str:
    """What the generator says of a table of these rows; empty when it accepts them."""
    for name in ("tables", "kernels"):
        (tmp_path / name).mkdir()
    (tmp_path / "tables" / "family.yaml").write_text("\n".join(rows) + "\n")
    for kernel in kernels:
        (tmp_path / "kernels" / f"{kernel}.cpp").touch()
    found = ops.generate(tmp_path / "tables", tmp_path / "kernels", tmp_path / "out")
    assert (tmp_path / "out" / "thunks.gen.cpp").exists() == (not found)
    return "\n".join(found)


def aten(call: str, signature: str = "T self, T other, S alpha, T! out") -> str:
    return f'- {{acl: "aclnnAdd({signature})", aten: "{call}"}}'


def test_a_good_table_gives_both_functions(tmp_path: Path) -> None:
    assert wrong(tmp_path, GOOD) == ""
    text = (tmp_path / "out" / "thunks.gen.cpp").read_text()
    assert "int aclnnAddGetWorkspaceSize(const aclTensor* a0, const aclTensor* a1," in text
    assert "int aclnnAdd(void*, uint64_t, aclOpExecutor* executor, void* stream)" in text


def test_a_prepared_kernel_and_its_workspace_query(tmp_path: Path) -> None:
    row = '- {acl: "aclnnMine(T self, T! out)", prepare: mine, max_workspace: true}'
    assert wrong(tmp_path, row, kernels=("mine",)) == ""
    text = (tmp_path / "out" / "thunks.gen.cpp").read_text()
    assert "int aclnnMineGetMaxWorkspaceSize(const aclTensor* a0, aclTensor* a1," in text
    assert "&kernels::mine" in text
    assert "PreparedRun mine(" in (tmp_path / "out" / "kernels.gen.h").read_text()


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (aten("addd.out(self, other, alpha=alpha, out=out)"), "no operator aten::addd.out"),
        (aten("add.outt(self, other, alpha=alpha, out=out)"), "no operator aten::add.outt"),
        (aten("add.out(self, other, beta=alpha, out=out)"), "no further argument 'beta'"),
        (aten("add.out(self, other, alpha=alpha)"), "needs 'out'"),
        (aten("add.out(self, other, alpha=alpha, out=other)"), "nothing writes the output 'out'"),
        (aten("add.Tensor(self, other, alpha=alpha)"), "nothing writes the output 'out'"),
        (aten("add.Tensor(self, nobody, alpha=alpha) -> out"), "'nobody' is not a parameter"),
        (aten("add.Tensor(self, other, alpha=alpha) -> other"), "'other' is not an output"),
        (aten("add.Tensor(self, other, alpha=alpha) -> out, out"), "has 1 results"),
        (aten("add.out(self, other, alpha=other, out=out)"), "kind T does not fit number"),
        (aten("add_.Tensor(self, other, alpha=alpha)"), "nothing writes the output 'out'"),
        (aten("add_.Tensor(self, other, alpha=alpha) -> out"), "writes 'self', which is not an"),
        (aten("not a call"), "'aten' is not a call"),
        (aten("add.Tensor(self, other) -> out", "T self, T other"), "no output"),
        (aten("add.Tensor(self, other) -> out", "T self, X other, T! out"), "'X other' is not"),
        (aten("add.Tensor(self, other) -> out", "T self, T self, T! out"), "share a name"),
        ('- {acl: "aclnnAdd(T self, T! out)"}', "exactly one of aten, kernel, prepare,"),
        ('- {acl: "aclnnAdd(T self)", stub: "why", kernel: add}', "exactly one of"),
        ('- {acl: "aclnnAdd(T self)", stub: "why", colour: red}', "unknown column"),
        ('- {acl: "aclnnAdd T self", stub: "why"}', "not aclnnName(kind name, ...)"),
        ('- {acl: "aclnnAdd(T self, T! out)", kernel: mine}', "there is no mine.cpp"),
        ('- {acl: "aclnnAdd(T self, T! out)", prepare: mine}', "there is no mine.cpp"),
    ],
)  # fmt: skip
def test_a_wrong_row_is_refused(tmp_path: Path, row: str, reason: str) -> None:
    text = wrong(tmp_path, row)
    assert reason in text
    assert "family.yaml: aclnnAdd" in text or "family.yaml: a row" in text


def test_a_function_has_one_row(tmp_path: Path) -> None:
    assert "aclnnAdd is already in family.yaml" in wrong(tmp_path, GOOD, GOOD)


def test_a_kernel_without_row_is_refused(tmp_path: Path) -> None:
    assert "unused.cpp: no row uses this kernel" in wrong(tmp_path, GOOD, kernels=("unused",))


def test_all_wrong_rows_are_told_at_once(tmp_path: Path) -> None:
    other = '- {acl: "aclnnB(T self, T! out)", aten: "nope(self) -> out"}'
    assert len(wrong(tmp_path, aten("addd.out(self)"), other).splitlines()) == 2


def test_levels_follow_from_the_columns() -> None:
    signature = {"acl": "aclnnX(T self, T! out)"}
    level = lambda **columns: optable.parse_row(signature | columns, "f.yaml").level  # noqa: E731
    assert level(aten="neg.out(self, out=out)") == "implemented"
    assert level(aten="neg.out(self, out=out)", partial="no int4") == "partial"
    assert level(stub="no device") == "stub"


def test_reading_the_table_needs_no_torch() -> None:
    import subprocess
    import sys

    check = (
        "import sys; from softnpu import optable; assert optable.load();"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", check], check=True, env={"PYTHONPATH": _source()})


def _source() -> str:
    return str(Path(optable.__file__).parents[1])
