"""A whole kernel as one C++ file: argument decoding, tiles, body, and the exported function."""

from __future__ import annotations

from dataclasses import dataclass

from ..ir import Buffer, PrimFunc, TileOp
from ..ub_plan import Plan
from ..walk import walk
from . import sort
from .literals import Names, Places, quoted
from .stmt import BodyEmitter


@dataclass(frozen=True)
class Module:
    """The generated source; `symbol` is what it exports, as the engine looks it up by `name`."""

    name: str
    source: str

    @property
    def symbol(self) -> str:
        return f"softnpu_kernel_{self.name}"


_HEAD = """\
// Generated from the kernel {name} by softnpu.
#include "softnpu_kernel.h"
{includes}
static constexpr uint64_t kUbBytes = {ub_bytes};
static constexpr uint32_t kArgs = {args};
static const char* const kPlaces[] = {{{places}}};

static int32_t run_core(const SnLaunch* launch, uint32_t block, int vid, unsigned char* ub) {{
  sn::Task task{{launch, block, vid, kPlaces}};
  const uint64_t* args = static_cast<const uint64_t*>(launch->args);
  (void)args;
  (void)ub;
"""
_TAIL = """\
  return task.failed ? 1 : 0;
}}

extern "C" __attribute__((visibility("default"))) int32_t {symbol}(const SnLaunch* launch,
                                                                   uint32_t block) {{
  sn::Task task{{launch, block, 0, kPlaces}};
  if (launch->abi != SN_LAUNCH_ABI || launch->args_size < kArgs * sizeof(uint64_t)) {{
    task.fail(SN_FAULT_OTHER, 0, 0, "the launch does not fit the kernel's parameters");
    return 1;
  }}
  if (kUbBytes > launch->ub_bytes * {shares}) {{
    task.fail(SN_FAULT_UB_RANGE, kUbBytes, 0, "the kernel needs %llu bytes of unified buffer, a "
              "vector core of this SoC has %llu", static_cast<unsigned long long>(kUbBytes),
              static_cast<unsigned long long>(launch->ub_bytes));
    return 1;
  }}
  alignas(64) unsigned char storage[kUbBytes + 64];
  unsigned char* ub = storage;
  // The tiles' contents are undefined on the device, but not for the compiler.
  asm volatile("" : "+r"(ub) : : "memory");
  for (int vid = 0; vid < {cores}; ++vid) {{
#ifdef SN_POISON_UB
    memset(ub, 0xff, kUbBytes);
#endif
    if (run_core(launch, block, vid, ub) != 0) return 1;
  }}
  return 0;
}}
"""


def emit_module(func: PrimFunc, plan: Plan) -> Module:
    """The C++ source of `func` with its tiles placed as `plan` says."""
    out = BodyEmitter(Names(), Places())
    _parameters(out, func)
    _tiles(out, plan)
    out.line(f"[[maybe_unused]] const int64_t {out.names.of('v_', func.cid)} = block;")
    out.line(f"[[maybe_unused]] const int64_t {out.names.of('v_', func.vid)} = vid;")
    out.loop_vars.update((id(func.cid), id(func.vid)))
    out.body(func.body)
    name = "".join(c if c.isascii() and c.isalnum() else "_" for c in func.name)
    sorts = any(isinstance(s, TileOp) and s.op in sort.OPS for s in walk(func.body))
    head = _HEAD.format(
        name=name,
        includes=f'#include "{sort.HEADER}"\n' if sorts else "",
        ub_bytes=plan.total,
        args=len(func.params) + len(func.symbols),
        places=", ".join(quoted(text) for text in out.places.texts),
    )
    module = Module(name, "")
    tail = _TAIL.format(
        symbol=module.symbol, shares=2 if func.threads == 2 else 1,
        cores=2 if func.threads is None else 1,
    )  # fmt: skip
    return Module(name, head + "\n".join(out.lines) + "\n" + tail)


def _parameters(out: BodyEmitter, func: PrimFunc) -> None:
    for i, param in enumerate(func.params):
        if param.buffer is not None:
            _tensor(out, param.buffer, i)
        elif param.var is not None:
            dtype = param.var.dtype
            name = out.names.of("v_", param.var)
            word = f"sn::bits_to<double>(args[{i}])" if dtype.is_float else f"args[{i}]"
            text = out.rounded(f"static_cast<{dtype.value}>({word})", dtype)
            out.line(f"[[maybe_unused]] const {dtype.value} {name} = {text};")
    for i, var in enumerate(func.symbols, len(func.params)):
        name = out.names.of("v_", var)
        out.line(f"[[maybe_unused]] const {var.dtype.value} {name} = "
                 f"static_cast<{var.dtype.value}>(args[{i}]);")  # fmt: skip


def _tensor(out: BodyEmitter, buffer: Buffer, index: int) -> None:
    name = out.names.of("g_", buffer)
    out.line(f"[[maybe_unused]] const sn::Gm<{buffer.dtype.cpp}> {name}(launch, args[{index}], "
             f"{quoted(buffer.name)});")  # fmt: skip


def _tiles(out: BodyEmitter, plan: Plan) -> None:
    for buffer, offset in plan.offsets.items():
        name, cpp = out.names.of("b_", buffer), buffer.dtype.cpp
        out.line(f"[[maybe_unused]] {cpp}* const {name} = reinterpret_cast<{cpp}*>(ub + {offset});")
