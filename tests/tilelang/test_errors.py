"""What a user's mistake looks like: one message, with file, line, column and a caret."""

import builtins
import subprocess
import sys
import textwrap

import pytest
import torch
from softnpu.tilelang_ascend import language as T
from softnpu.tilelang_ascend.errors import KernelError, KernelWarning, LaunchError
from softnpu.tilelang_ascend.intrinsics import UNSUPPORTED
from softnpu.tilelang_ascend.jit import PassConfigKey, compile, jit
from tests.tilelang.harness import host_kernel

BODY = """
import softnpu.tilelang_ascend.language as T

@T.prim_func
def kernel(a: T.Tensor((4, 16), "float32"), n: T.int32):
    with T.Kernel(2, is_npu=True) as (cid, vid):
        t = T.alloc_ub((4, 16), "float32")
        v = T.alloc_var("int32")
        {statement}
"""


def trace(tmp_path, statement):
    """Traces a kernel with that statement at line 9, column 9; returns the error."""
    file = tmp_path / "user_kernel.py"
    file.write_text(BODY.format(statement=statement))
    with pytest.raises(KernelError) as caught:
        exec(compile_builtin(file.read_text(), str(file), "exec"), {"__name__": "user_kernel"})
    return caught.value


compile_builtin = builtins.compile


@pytest.mark.parametrize(
    ("statement", "column", "message"),
    [
        ("T.copy(a[0, 0], t, tranpose=True)", 9, "unexpected keyword argument 'tranpose'"),
        ("x = 1 + T.exp(undefined_name)", 23, "NameError: name 'undefined_name'"),
        ("t[0, 0] = t[1, 3] / t[4, 0] if False else t[0, 16] + 1.0", 51, "outside t"),
        ("T.tile.add(t, t, t[9, :])", 26, "is outside t[4, 16]: index 9 in dimension 0"),
        ("x = n / 2", 13, "'/' on int32 operands is ambiguous"),
        ("x = n // 0", 13, "integer division by zero"),
        ("x = max(n, 3)", 13, "T.max"),
        ("for i in [1, 2]: pass", 9, "'for' needs range, T.serial"),
        ("for i in range(0, 8, 2): pass", 9, "range with a step"),
        ("for i in T.serial(4):\n            break", 13, "T.loop_break"),
        ("del t", 9, "Delete statement is not part of the kernel language"),
        ("t[0:2, :] = 1.0", 9, "only single elements can be assigned"),
        ("t[0] = 1.0", 9, "t has 2 dimensions, got 1 indices"),
        ("with T.Then(): pass", 9, "T.Then belongs inside a T.If"),
        ("with T.If(n > 0): T.tile.clear(t)", 9, "one T.Then and at most one T.Else"),
        ("while True: pass", 9, "must depend on device values"),
        ("T.alloc_L1((16, 16), 'float16')", 9, "T.alloc_L1 is not supported: the cube core"),
        ("with T.Scope('C'): pass", 14, "the cube core is not emulated yet"),
        ("T.no_such_thing(t)", 9, "T.no_such_thing is not part of"),
        ("t.fill(0)", 9, "no attribute 'fill'"),
        ("T.set_flag('v', 'mte9', 0)", 9, "a pipe is one of"),
        ("T.set_flag('v', 's', 8)", 9, "the event id is 0 to 7"),
        ("T.printf('%f', n)", 9, "%f does not fit a value of int32"),
        ("T.reinterpretcast(t, t, 'uint32')", 9, "unknown C type 'uint32'"),
        ("T.alloc_ub((n, 16), 'float32')", 9, "must be positive constants"),
        ("T.alloc_ub((4,), 'float99')", 9, "unknown dtype 'float99'"),
        ("T.Kernel(3, is_npu=True).enter_kernel(None)", 9, ""),
        ("return", 9, "Return statement"),
        ("assert 1 == 2, 'sizes differ'", 9, "sizes differ"),
    ],
)
def test_mistakes_name_their_place(tmp_path, statement, column, message):
    error = trace(tmp_path, statement)
    if error.loc is None:  # found by the emitter
        pytest.fail(str(error))
    line = 10 if "\n" in statement else 9
    assert message in error.message
    assert (error.loc.file, error.loc.line) == (str(tmp_path / "user_kernel.py"), line)
    assert error.loc.col == column, str(error)
    text, source, caret = str(error).splitlines()[-3:]
    assert text.startswith(f"{tmp_path}/user_kernel.py:{line}:{column}: ")
    assert caret.index("^") == 4 + column - 1 and source.strip()


@pytest.mark.parametrize("name", sorted(UNSUPPORTED))
def test_unsupported_names_say_so(tmp_path, name):
    error = trace(tmp_path, f"T.{name}(t)")
    assert f"T.{name} is not supported: {UNSUPPORTED[name]}" in error.message
    assert error.loc.line == 9


def test_an_uncaught_error_shows_no_internals(tmp_path):
    file = tmp_path / "script.py"
    file.write_text(
        "import softnpu.tilelang_ascend.errors as e\ne.install_hook()\n"
        + BODY.format(statement="T.tile.add(t, t)")
    )
    done = subprocess.run([sys.executable, file], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines() == [
        f'  File "{file}", line 6, in <module>',
        f"KernelError: {file}:11:9: T.tile.add takes 3 operands, got 2",
        "            T.tile.add(t, t)",
        "            ^",
    ]


def test_kernel_frame():
    def grid(*args, **kwargs):
        @T.prim_func
        def kernel():
            with T.Kernel(*args, **kwargs) as (cid, vid):
                pass

    for args, kwargs, message in [
        ((1, 2), {"is_npu": True}, "exactly one block dimension"),
        ((1,), {}, "needs is_npu=True"),
        ((1,), {"is_npu": True, "threads": 3}, "threads must be 1 or 2"),
        ((70000,), {"is_npu": True}, "1 to 65535 blocks, got 70000"),
        ((0,), {"is_npu": True}, "1 to 65535 blocks, got 0"),
    ]:
        with pytest.raises(KernelError, match=message):
            grid(*args, **kwargs)


@T.prim_func
def doubles(x: T.Tensor((4, 16), "float32"), out: T.Tensor((4, 16), "float32"), by: T.int32):
    with T.Kernel(1, is_npu=True) as (cid, vid):
        t = T.alloc_ub((4, 16), "float32")
        T.copy(x, t)
        T.tile.mul(t, t, by)
        T.copy(t, out)


def test_calls_are_checked():
    kernel = host_kernel(doubles, out_idx=[1])
    good = torch.randn(4, 16)
    assert torch.equal(kernel(good, 3), good * 3)
    with pytest.warns(UserWarning, match=r"\(x, by\), got 4: the last 2 are ignored"):
        assert torch.equal(kernel(good, 2, good, None), good * 2)
    for args, message in [
        ((good,), r"takes 2 arguments \(x, by\), got 1"),
        (
            (good.half(), 1),
            "dtype mismatch for parameter x: expected torch.float32, got torch.float16",
        ),
        ((good.t(), 1), "must be contiguous"),
        ((good[:3], 1), r"shape mismatch for parameter x: expected \(4, 16\), got \(3, 16\)"),
        ((torch.randn(65), 1), r"expected \(4, 16\), got \(65,\)"),
        ((3, 1), "unsupported tensor type: int"),
        ((good, 1.5), "1.5 is not a int32"),
        ((good, 2**31), "outside int32"),
        ((good, "1"), "expected a int32 number, got str"),
        ((good.to("meta"), 1), "device mismatch for parameter x: expected cpu, got meta"),
    ]:
        with pytest.raises(LaunchError, match=message):
            kernel(*args)


def test_shapes_that_do_not_match(monkeypatch):
    kernel = host_kernel(doubles, out_idx=[1])
    flat = torch.randn(64)
    with pytest.warns(KernelWarning, match=r"got \(64,\); taken as a view of it"):
        assert torch.equal(kernel(flat, 2), flat.reshape(4, 16) * 2)
    monkeypatch.setenv("SOFTNPU_ALLOW_SHAPE_MISMATCH", "1")
    with pytest.warns(KernelWarning, match=r"expected \(4, 16\), got \(8, 16\)"):
        assert torch.equal(kernel(torch.ones(8, 16), 2), torch.full((4, 16), 2.0))


def test_symbolic_dimensions_are_bound_and_compared():
    n = T.symbolic("n")

    @T.prim_func
    def sums(
        a: T.Tensor((n, 16), "float32"), b: T.Tensor((n * 2, 16), "float32"),
        out: T.Tensor((n + 1, 16), "float32"),
    ):  # fmt: skip
        rows = n // 1 + 0 * n
        with T.Kernel(rows * 1, is_npu=True) as (cid, vid):
            t = T.alloc_ub((16,), "float32")
            T.copy(b[cid * 2 + vid, :], t)
            T.copy(t, out[cid + vid, :])

    kernel = host_kernel(sums, out_idx=[-1])
    a, b = torch.randn(3, 16), torch.randn(6, 16)
    out = kernel(a, b)
    assert out.shape == (4, 16) and torch.equal(out[3], b[5])
    with pytest.raises(LaunchError, match=r"parameter b: expected \(6, 16\), got \(5, 16\)"):
        kernel(a, b[:5])
    with pytest.raises(LaunchError, match="1 to 65535 blocks, got 0"):
        kernel(a[:0], b[:0])

    @T.prim_func
    def lost(out: T.Tensor((n, 16), "float32")):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            pass

    with pytest.raises(Exception, match="n"):
        host_kernel(lost, out_idx=[0])()


def test_options():
    with pytest.raises(KernelError, match="unknown pass config 'tl.ascend_magic'"):
        jit(pass_configs={"tl.ascend_magic": True})
    with pytest.raises(KernelError, match="must be True or False"):
        jit(pass_configs={PassConfigKey.TL_ASCEND_AUTO_SYNC: 1})
    with pytest.raises(KernelError, match="target 'cuda' is not supported"):
        jit(target="cuda")
    with pytest.raises(KernelError, match="platform 'A5' is not supported"):
        jit(platform="A5")
    with pytest.raises(KernelError, match="execution_backend 'dlpack'"):
        jit(execution_backend="dlpack")
    with pytest.raises(KernelError, match="decorate prim_func is not supported"):
        jit(doubles)
    with pytest.raises(KernelError, match="between -3 and 2"):
        compile(doubles, out_idx=[3])
    with pytest.raises(KernelError, match="by of kernel doubles is a scalar"):
        compile(doubles, out_idx=[-1])
    with pytest.raises(KernelError, match="expected a function decorated"):
        compile(lambda: 0)


def test_one_kernel_per_arguments():
    @jit(out_idx=[1], pass_configs=dict.fromkeys(PassConfigKey, True))
    def factory(rows, dtype="float32"):
        @T.prim_func
        def copies(x: T.Tensor((rows, 16), dtype), out: T.Tensor((rows, 16), dtype)):
            with T.Kernel(1, is_npu=True) as (cid, vid):
                t = T.alloc_shared((rows, 16), dtype)
                T.copy(x, t)
                T.copy(t, out)

        return copies

    assert factory(4) is factory(4)
    assert factory(4) is not factory(5)
    assert factory(4) is not factory(4, dtype="float16")
    with pytest.raises(KernelError, match="hashable"):
        factory([4])
    assert "softnpu_kernel_copies" in factory(4).get_kernel_source()
    with pytest.raises(AttributeError, match="get_profiler is not supported"):
        factory(4).get_profiler()


def test_source_is_needed():
    with pytest.raises(KernelError, match="must be defined in a file"):
        exec(textwrap.dedent(BODY.format(statement="pass")), {"__name__": "nowhere"})
