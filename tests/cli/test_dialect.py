"""`--tilelang auto` tells the two dialects of `import tilelang` apart by the script's source."""

import pytest

from softnpu import dialect, layout

ADAPTER_SCRIPTS = {
    "is_npu": "import tilelang.language as T\nwith T.Kernel(4, is_npu=True) as (c, v): pass",
    "pass config": "import tilelang\nk = tilelang.PassConfigKey.TL_ASCEND_AUTO_SYNC",
    "raw pass config": 'import tilelang\nk = {"tl.ascend_auto_sync": True}',
    "tile": "from tilelang import language as L\nL.tile.mul(a, b, c)",
    "scope": 'import tilelang.language as T\nwith T.Scope("C"): pass',
    "target": 'import tilelang\n@tilelang.jit(target="pto")\ndef f(): pass',
}
MAINLINE_SCRIPTS = {
    "SimtVF": "import tilelang.language as T\nwith T.SimtVF(threads=64): pass",
    "simd": "import tilelang.language as T\nT.simd.vadd(a, b)",
    "target": 'import tilelang\n@tilelang.jit(target="ascend")\ndef f(): pass',
    "import": "from tilelang.ascend.language import alloc_l1",
}
SHOW_PATH = "\nimport os; print(os.environ.get('PYTHONPATH'))"


@pytest.mark.parametrize("name", ADAPTER_SCRIPTS)
def test_adapter(write, name):
    decision = dialect.decide(write("x.py", ADAPTER_SCRIPTS[name]))
    assert (decision.dialect, decision.uses_tilelang) == (dialect.ADAPTER, True)
    assert decision.mark is not None


@pytest.mark.parametrize("name", MAINLINE_SCRIPTS)
def test_mainline(write, name):
    decision = dialect.decide(write("x.py", MAINLINE_SCRIPTS[name]))
    assert decision.dialect == dialect.MAINLINE
    assert decision.mark is not None


def test_names_alone_prove_nothing(write):
    """Attributes of something else, and strings that only mention a mark."""
    source = "import tilelang\nimport numpy as np\nnp.tile.x\nT = np\nT.Scope\nprint('is_npu=True')"
    decision = dialect.decide(write("x.py", source))
    assert (decision.dialect, decision.mark) == (dialect.ADAPTER, None)


def test_an_adapter_mark_outweighs_mainline_ones(write):
    both = MAINLINE_SCRIPTS["target"] + "\n" + ADAPTER_SCRIPTS["is_npu"]
    assert dialect.decide(write("x.py", both)).dialect == dialect.ADAPTER


def test_the_kernel_may_lie_in_a_module_beside_the_script(write):
    write("kernels/norm.py", MAINLINE_SCRIPTS["SimtVF"])
    write("unrelated.py", ADAPTER_SCRIPTS["is_npu"])
    decision = dialect.decide(write("x.py", "from kernels import norm\n"))
    assert decision.dialect == dialect.MAINLINE
    assert str(decision.mark) == "norm.py:2 uses T.SimtVF"


@pytest.mark.parametrize("source", ["def broken(:", "\0", "import numpy"])
def test_a_script_without_tilelang_is_silent(write, softnpu, source):
    decision = dialect.decide(write("x.py", source))
    assert (decision.dialect, decision.uses_tilelang) == (dialect.ADAPTER, False)
    assert "dialect" not in softnpu("run", "x.py").stderr


def test_run_says_what_it_took_and_why(softnpu, write):
    write("x.py", "import os\nif os.environ.get('NEVER'):\n import tilelang\n f(is_npu=True)")
    done = softnpu("run", "x.py")
    assert done.stderr == (
        "softnpu: INFO: tilelang dialect: adapter (x.py:4 uses is_npu=); "
        "--tilelang chooses another\n"
    )
    assert softnpu("run", "-q", "x.py").stderr == ""


def test_mainline_says_that_its_kernels_do_not_compile(softnpu, write):
    write("x.py", "import os" + SHOW_PATH)
    done = softnpu("run", "--tilelang", "mainline", "x.py")
    assert "can't be compiled yet" in done.stderr
    assert str(layout.adapter_dir()) not in done.stdout


def test_a_command_gets_the_adapter(softnpu):
    done = softnpu("run", "--", "sh", "-c", "echo $PYTHONPATH")
    assert done.stdout.startswith(str(layout.adapter_dir()))
