"""aclgraph: decode graphs for Ascend NPUs, from the capture sizes to the measured step.

Needs torch and torch_npu. `aclgraph.sizes`, `aclgraph.budget` and `aclgraph.dispatch` load neither,
and what else is exported here is loaded when it is first used.
"""

from importlib import import_module
from typing import Any

_HOME = {
    "sizes": ("CaptureSizes", "default_sizes", "user_sizes"),
    "budget": ("BudgetPlan", "Parallelism", "available_streams", "legacy_limit", "live_plan"),
    "dispatch": ("Batch", "Decision", "Dispatcher", "GraphKey", "GraphMode", "RuntimeMode"),
    "inputs": ("HostInput", "Input", "Per"),
    "runner": ("DecodeRunner", "Progress", "print_progress"),
    "piecewise": ("PiecewiseRunner", "StepContext"),
    "stats": ("Stats",),
    "benchmark": (
        "BenchReport",
        "TraceReport",
        "bench",
        "bench_trace",
        "environment",
        "time_step",
    ),
    "workload": ("Workload", "simulate"),
    "findings": ("Finding", "VerifyReport"),
    "verifier": ("verify",),
    "errors": (
        "AclGraphError",
        "AddressError",
        "BudgetError",
        "CaptureError",
        "ConfigError",
        "InputError",
        "LateCaptureError",
        "UpdateError",
        "VerifyError",
    ),
}
_MODULE_OF = {name: module for module, names in _HOME.items() for name in names}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULE_OF[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
