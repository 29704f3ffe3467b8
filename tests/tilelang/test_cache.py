"""The compiled kernels on disk: when one is taken, and whom the folder must belong to."""

import os

import pytest
import torch
from softnpu.tilelang_ascend import cache, compiler
from softnpu.tilelang_ascend import language as T
from softnpu.tilelang_ascend.errors import CompileError
from tests.tilelang.harness import host_kernel


def kernel(value):
    @T.prim_func
    def fills(out: T.Tensor((8,), "float32")):
        with T.Kernel(1, is_npu=True) as (cid, vid):
            t = T.alloc_ub((8,), "float32")
            T.tile.fill(t, value)
            T.copy(t, out)

    return host_kernel(fills, out_idx=[0])


@pytest.fixture
def folder(tmp_path, monkeypatch):
    place = tmp_path / "kernels"
    monkeypatch.setenv("SOFTNPU_CACHE_DIR", str(place))
    return place


def test_a_kernel_is_compiled_once(folder, monkeypatch):
    assert kernel(1.0)()[0] == 1
    (file,) = folder.iterdir()
    assert file.suffix == ".so" and folder.stat().st_mode & 0o777 == 0o700

    def no_compiler(*args):
        raise AssertionError("compiled again")

    monkeypatch.setattr(compiler, "_run", no_compiler)
    assert kernel(1.0)()[0] == 1
    with pytest.raises(AssertionError, match="compiled again"):
        kernel(2.0)
    cache.clear()
    assert not list(folder.iterdir())
    with pytest.raises(AssertionError, match="compiled again"):
        kernel(1.0)


@pytest.mark.parametrize("damage", [b"", b"noise" * 5000])
def test_a_damaged_file_is_compiled_again(folder, damage):
    assert kernel(1.0)()[0] == 1
    (file,) = folder.iterdir()
    file.write_bytes(damage)
    assert kernel(1.0)()[0] == 1
    assert file.read_bytes() != damage


@pytest.mark.parametrize("place", ["/dev/null/x", "/proc/nowhere"])
def test_a_folder_that_cannot_be_made(monkeypatch, place):
    monkeypatch.setenv("SOFTNPU_CACHE_DIR", place)
    with pytest.raises(CompileError, match="SOFTNPU_CACHE_DIR"):
        kernel(1.0)


def test_disabled(folder):
    cache.disable()
    try:
        assert not cache.is_enabled()
        assert kernel(1.0)()[0] == 1
        assert not folder.exists()
    finally:
        cache.enable()


def test_key_depends_on_everything(monkeypatch):
    plain = cache.key("source", "g++ 12", ["-O3"])
    assert plain == cache.key("source", "g++ 12", ["-O3"])
    monkeypatch.setattr(cache, "_headers", lambda: b"changed")
    other_headers = cache.key("source", "g++ 12", ["-O3"])
    monkeypatch.setattr(cache, "_machine", lambda: b"changed")
    keys = {plain, other_headers, cache.key("source", "g++ 12", ["-O3"]),
            cache.key("other", "g++ 12", ["-O3"]), cache.key("source", "g++ 13", ["-O3"]),
            cache.key("source", "g++ 12", ["-O2"])}  # fmt: skip
    assert len(keys) == 6


def test_a_folder_that_others_can_write_to_is_refused(folder):
    folder.mkdir()
    os.chmod(folder, 0o777)
    with pytest.raises(CompileError, match="can be written by other users"):
        kernel(3.0)


def test_no_compiler(folder, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    with pytest.raises(
        CompileError, match="no C.. compiler: no-such-compiler is not on PATH; install"
    ):
        kernel(1.0)


def test_generated_code_has_no_warnings(folder, monkeypatch):
    monkeypatch.setattr(compiler, "FLAGS", [*compiler.FLAGS, "-Wall", "-Wextra", "-Werror"])
    assert torch.equal(kernel(4.0)(), torch.full((8,), 4.0))
