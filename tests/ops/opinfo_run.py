"""Runs PyTorch's operator database on the device through the unmodified torch_npu wheel.

    softnpu run -m tests.ops.opinfo_run [--write]

Each operator gets up to three sample inputs in float32; results must equal CPU PyTorch's. Outcomes
are committed in opinfo_outcomes.txt, the aclnn functions that were launched on the way in
opinfo_reached.txt; ``--write`` replaces both. A device error ends the working process, since it
sticks to the device as on hardware; the next operator then starts in a fresh one.
"""

from __future__ import annotations

import argparse
import ctypes
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
OUTCOMES, REACHED = HERE / "opinfo_outcomes.txt", HERE / "opinfo_reached.txt"
SAMPLES = 3
# Not of PyTorch's operator set proper, or dominated by CPU decompositions.
LEFT_OUT = (
    "linalg.", "fft.", "sparse", "special.", "masked.", "signal.", "torch.ops", "_refs", "_segment",
    "jiterator", "stft", "istft", "nn.functional.ctc", "nn.functional.multi_head", "to_sparse",
    "nn.functional.scaled_dot", "svd", "eig", "lu", "ormqr", "geqrf", "cholesky", "qr", "pca",
    "polygamma", "corrcoef", "cov", "nn.functional.embedding_bag", "nn.functional.gaussian",
    "nn.functional.multi_margin", "nn.functional.fractional", "_upsample", "empty", "new_empty",
)  # fmt: skip
# Other numbers than the CPU's are right; shape and dtype must agree.
RANDOM = re.compile(
    r"(^|_|\.)(rand|normal|uniform|exponential|bernoulli|multinomial|cauchy|geometric|"
    r"log_normal|dropout|alpha_dropout|rrelu)"
)


def to_device(value: Any) -> Any:
    import torch

    if isinstance(value, torch.Tensor):
        return value.detach().npu()
    if isinstance(value, (list, tuple)):
        return type(value)(to_device(item) for item in value)
    if isinstance(value, dict):
        return {key: to_device(item) for key, item in value.items()}
    return value


def tensors(value: Any) -> list[Any]:
    import torch

    if isinstance(value, torch.Tensor):
        return [value]
    return [t for item in value for t in tensors(item)] if isinstance(value, (list, tuple)) else []


def reason_of(error: Exception) -> str:
    """One stable word for the outcome file."""
    text = " ".join(str(error).split())
    if found := re.search(r"OPS function error: (\w+)", text):
        return f"aclop:{found[1]}"
    if found := re.search(r"(aclnn\w+):", text):
        return f"failed:{found[1]}"
    if isinstance(error, AssertionError):
        found = re.search(r"attribute '(\w+)' do not match", text)
        return f"mismatch:{found[1] if found else 'values'}"
    return re.sub(r"[^A-Za-z]+", "-", text)[:40].strip("-")


def compare(op: Any, sample: Any) -> bool:
    """False when CPU PyTorch itself refuses the sample."""
    import torch

    try:
        expected = op(sample.input, *sample.args, **sample.kwargs)
    except Exception:
        return False
    actual = op(to_device(sample.input), *to_device(sample.args), **to_device(sample.kwargs))
    torch.npu.synchronize()
    for got, want in zip(tensors(actual), tensors(expected), strict=True):
        if RANDOM.search(op.name):
            assert got.shape == want.shape and got.dtype == want.dtype
        else:
            torch.testing.assert_close(
                got.cpu(), want, equal_nan=True, check_stride=False, rtol=1e-4, atol=1e-4
            )
    return True


def outcome(op: Any) -> str:
    import torch

    done = 0
    signal.alarm(40)
    for sample in op.sample_inputs("cpu", torch.float32, requires_grad=False):
        if done == SAMPLES:
            break
        if "device" in sample.kwargs:
            continue
        done += compare(op, sample)
    signal.alarm(0)
    return "pass" if done else "no-sample"


def full_name(op: Any) -> str:
    return op.name + (f".{op.variant_test_name}" if op.variant_test_name else "")


def work(start: int) -> None:
    """Prints one line per operator from number `start` on, until a device error."""
    os.environ["TASK_QUEUE_ENABLE"] = "0"
    import torch
    import torch_npu  # noqa: F401
    from torch.testing._internal.common_methods_invocations import op_db

    for number, op in enumerate(op_db):
        if number < start or op.name.startswith(LEFT_OUT) or torch.float32 not in op.dtypes:
            continue
        print(json.dumps({"begin": number, "op": full_name(op)}), flush=True)
        torch.manual_seed(0)
        try:
            result, error = outcome(op), None
        except Exception as caught:
            signal.alarm(0)
            result, error = reason_of(caught), caught
        print(json.dumps({"op": full_name(op), "outcome": result}), flush=True)
        if error is not None and not isinstance(error, AssertionError):
            try:
                torch.npu.synchronize()
            except RuntimeError:
                break
    print(json.dumps({"reached": reached()}), flush=True)


def reached() -> list[str]:
    from softnpu import optable

    library = ctypes.CDLL("libsoftnpu_ops.so")
    library.softnpu_operator_launches.restype = ctypes.c_uint64
    names = (row.acl for row in optable.load())
    return [name for name in names if library.softnpu_operator_launches(name.encode())]


def run() -> tuple[dict[str, str], set[str]]:
    """Outcome per operator, and the aclnn functions that were launched."""
    outcomes: dict[str, str] = {}
    names: set[str] = set()
    start, finished = 0, False
    while not finished:
        command = [sys.executable, "-m", "tests.ops.opinfo_run", "--work", str(start)]
        process = subprocess.run(
            command, cwd=HERE.parents[1], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        last: dict[str, Any] = {}
        for line in process.stdout.decode().splitlines():
            if not line.startswith("{"):
                continue
            record = json.loads(line)
            names |= set(record.get("reached", ()))
            if "begin" in record:
                last = record
            elif "op" in record:
                outcomes[record["op"]] = record["outcome"]
        if not last:
            finished = True
        else:
            outcomes.setdefault(last["op"], f"died:{-process.returncode}")
            start = last["begin"] + 1
    return outcomes, names


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--work", type=int)
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    if args.work is not None:
        work(args.work)
        return
    outcomes, names = run()
    if args.write:
        lines = [f"{op} {outcomes[op]}\n" for op in sorted(outcomes)]
        OUTCOMES.write_text("# Operator database, float32, through torch_npu.\n" + "".join(lines))
        REACHED.write_text(
            "# aclnn functions launched on the way.\n" + "\n".join(sorted(names)) + "\n"
        )
    passed = sum(result == "pass" for result in outcomes.values())
    print(f"{passed} of {len(outcomes)} operators pass, {len(names)} aclnn functions launched")


if __name__ == "__main__":
    main()
