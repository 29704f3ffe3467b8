"""No layer of native/ includes what belongs to a layer above it."""

import importlib.util
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SPEC = importlib.util.spec_from_file_location("check_layers", ROOT / "tools" / "check_layers.py")
assert SPEC is not None and SPEC.loader is not None
check_layers = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(check_layers)


def test_this_repository_is_clean():
    assert check_layers.violations() == []


@pytest.mark.parametrize(
    ("file", "include"),
    [
        ("engine/x.cpp", "torch/torch.h"),
        ("engine/x.h", "../abi/runtime.h"),
        ("engine/x.h", "runtime.h"),
        ("abi/x.cpp", "ATen/ATen.h"),
        ("kernel/x.h", "../engine/stream.h"),
    ],
)
def test_an_upward_include_is_found(monkeypatch, tmp_path, file, include):
    for folder in ("engine", "abi", "ops", "kernel"):
        (tmp_path / folder).mkdir()
    (tmp_path / "abi" / "runtime.h").touch()
    (tmp_path / file).write_text(f'#include "{include}"\n', encoding="utf-8")
    monkeypatch.setattr(check_layers, "_NATIVE", tmp_path)
    [line] = check_layers.violations()
    assert line.endswith(f"{file}:1: native/{file.split('/')[0]} must not include {include}")
