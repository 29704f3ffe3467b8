"""Graphs on a device with few streams left: planned before, explained if they run out."""

import os
import subprocess
import sys

SCRIPT = """
import torch
from aclgraph import CaptureError, DecodeRunner, Dispatcher, GraphMode, default_sizes, inputs
from aclgraph import available_streams, live_plan

torch.npu.set_device(0)
wanted = default_sizes(64)
def runner_of(sizes):
    dispatcher = Dispatcher(GraphMode.FULL_DECODE_ONLY, sizes, 64)
    return DecodeRunner(lambda tokens: tokens + 1, dispatcher, [inputs.tokens()])

x = torch.ones(2, device="npu")
others = []
while available_streams() > 8:  # somebody else's graphs
    others.append(torch.npu.NPUGraph())
    with torch.npu.graph(others[-1]):
        x + 1
planned = live_plan(wanted, reserve=3)
print(planned)
runner = runner_of(planned.sizes)
runner.capture()
print("captured", len(planned.sizes.sizes))
try:
    runner_of(wanted).capture()
except CaptureError as error:
    print("refused:", error)
"""


def test_sizes_fit_the_streams(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "-m", "softnpu", "run", str(script)],
        capture_output=True,
        text=True,
        timeout=300,
        env={**os.environ, "SOFTNPU_STREAM_LIMIT": "48"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    plan, captured, refused = done.stdout.strip().splitlines()
    assert "5 sizes, room for 5, streams 8; dropped [" in plan
    assert captured == "captured 5"
    assert "refused: the bucket of" in refused
    assert "the device has no streams left; plan with aclgraph.live_plan()" in refused
    assert "captured before it: [64" in refused
