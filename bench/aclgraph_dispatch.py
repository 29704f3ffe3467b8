"""aclgraph's dispatch decision against vLLM 0.27.1's, both in this process.

vLLM is not a dependency. Download its wheel, without what it depends on, and say where it lies:

    pip download vllm==0.27.1 --no-deps -d DIR
    VLLM_WHEEL=DIR/vllm-0.27.1-cp38-abi3-manylinux_2_28_x86_64.whl make bench ARGS=aclgraph_dispatch

One file of it is loaded alone; the names that it imports are stood in for here.
"""

import os
import sys
import time
import types
import zipfile
from dataclasses import dataclass
from enum import Enum
from types import SimpleNamespace
from typing import Any

from timing import Row, compare

from aclgraph import Batch, Dispatcher, GraphMode, default_sizes

MAX_NUM_SEQS = 256
DECISIONS = 20000
FILE = "vllm/v1/cudagraph_dispatcher.py"


class Mode(Enum):
    """What vLLM's dispatcher asks of CUDAGraphMode (vllm/config/compilation.py)."""

    NONE = 0
    PIECEWISE = 1
    FULL = 2
    FULL_DECODE_ONLY = (2, 0)
    FULL_AND_PIECEWISE = (2, 1)

    def decode_mode(self) -> "Mode":
        return Mode(self.value[0]) if self.separate_routine() else self

    def mixed_mode(self) -> "Mode":
        return Mode(self.value[1]) if self.separate_routine() else self

    def has_mode(self, mode: "Mode") -> bool:
        return mode in (self.decode_mode(), self.mixed_mode())

    def separate_routine(self) -> bool:
        return isinstance(self.value, tuple)

    def requires_piecewise_compilation(self) -> bool:
        return self.has_mode(Mode.PIECEWISE)

    @classmethod
    def valid_runtime_modes(cls) -> set["Mode"]:
        return {cls.NONE, cls.PIECEWISE, cls.FULL}


@dataclass(frozen=True)
class Descriptor:
    num_tokens: int
    num_reqs: int | None = None
    uniform: bool = False
    has_lora: bool = False
    num_active_loras: int = 0


def load_vllm(wheel: str, mode: Mode, sizes: list[int]) -> Any:
    """vLLM's dispatcher, initialised for `mode` and `sizes`."""
    stand_ins = {
        "vllm": {},
        "vllm.config": {"CUDAGraphMode": Mode, "VllmConfig": object},
        "vllm.forward_context": {"BatchDescriptor": Descriptor},
        "vllm.logger": {"init_logger": lambda name: None},
        "vllm.lora": {},
        "vllm.lora.utils": {"get_captured_lora_counts": lambda *_: []},
        "vllm.compilation": {},
        "vllm.compilation.breakable_cudagraph": {"is_breakable_cudagraph_enabled": lambda: False},
    }
    for name, members in stand_ins.items():
        module = types.ModuleType(name)
        vars(module).update(members)
        sys.modules[name] = module
    loaded = types.ModuleType("cudagraph_dispatcher")
    source = zipfile.ZipFile(wheel).read(FILE)
    exec(compile(source, FILE, "exec"), vars(loaded))
    compilation = SimpleNamespace(
        cudagraph_mode=mode,
        is_attention_compiled_piecewise=lambda: True,
        cudagraph_capture_sizes=sizes,
        max_cudagraph_capture_size=sizes[-1],
        compile_sizes=[],
    )
    config = SimpleNamespace(
        compilation_config=compilation,
        num_speculative_tokens=0,
        lora_config=None,
        scheduler_config=SimpleNamespace(max_num_seqs=MAX_NUM_SEQS),
    )
    dispatcher = loaded.CudagraphDispatcher(config)
    dispatcher.initialize_cudagraph_keys(mode, 1)
    return dispatcher


def measure() -> list[Row]:
    ours = Dispatcher(GraphMode.FULL_DECODE_ONLY, default_sizes(MAX_NUM_SEQS), MAX_NUM_SEQS)
    batches = [Batch.decode(1 + i % MAX_NUM_SEQS) for i in range(DECISIONS)]

    def decide() -> None:
        for batch in batches:
            ours.dispatch(batch)

    wheel = os.environ.get("VLLM_WHEEL")
    if not wheel:
        print("no VLLM_WHEEL: vLLM's dispatcher is not measured, see bench/aclgraph_dispatch.py")
        return [Row("aclgraph: a dispatch decision", _alone(decide), 1.0, 1.0, against="1 us")]
    theirs = load_vllm(wheel, Mode.FULL_DECODE_ONLY, list(ours.sizes.sizes))
    for batch in batches[:MAX_NUM_SEQS]:
        mode, key = theirs.dispatch(batch.num_tokens, True)
        decision = ours.dispatch(batch)
        assert (mode.value, key.num_tokens, key.num_reqs) == decision.key[:3]

    def decide_theirs() -> None:
        for batch in batches:
            theirs.dispatch(batch.num_tokens, True)

    us, vllm = compare(decide, decide_theirs, DECISIONS, DECISIONS, rounds=7)
    what = "aclgraph: a dispatch decision"
    return [
        Row(what, us, 1.0, 1.0, against="1 us"),
        Row("the same", us, vllm, None, against="vLLM 0.27.1"),
    ]


def _alone(run: Any) -> float:
    samples = []
    for _ in range(7):
        begin = time.perf_counter()
        run()
        samples.append((time.perf_counter() - begin) * 1e6 / DECISIONS)
    return sorted(samples)[3]
