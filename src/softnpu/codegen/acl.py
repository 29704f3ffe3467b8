"""Writes the C side of the ACL table: `python -m softnpu.codegen.acl --out DIR`.

- acl_functions.h: prototypes of everything that libsoftnpu_runtime.so exports, so that a definition
  which differs from the table does not compile;
- acl_refusing.cpp: the definitions of the refusing functions;
- acl_implemented.cpp: refers to every implemented function, so that a missing one does not link;
- acl_numbers.cpp: ACL's number for each of the engine's codes;
- acl_exports.map: the version script.
"""

import argparse
import re
from pathlib import Path

from softnpu import acltable
from softnpu.acltable import Function

# What a refusing function returns, by its C result and the beginning of its name. Not 207000 for
# acl*: torch_npu's check macro takes that number for a warning and goes on as if the call had
# succeeded.
_NOT_SUPPORTED = (
    ("aclError", "acl", 200001),
    ("HcclResult", "Hccl", 5),
    ("rtError_t", "rt", 207000),
    ("int", "dcmi", -8255),
    ("int32_t", "hal", 65534),  # the driver's "not supported"
    ("int", "L", 1),
)


def refusal_value(function: Function) -> str:
    """The C expression that a refusing function returns; "" for void."""
    if function.code is not None:
        return str(function.code)
    if function.result == "void":
        return ""
    if function.result.endswith("*"):
        return "nullptr"
    for result, prefix, code in _NOT_SUPPORTED:
        if function.result == result and function.name.startswith(prefix):
            return str(code)
    raise acltable.TableError(f"{function.name}: no not-supported value for {function.result}")


def _quote(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def render_header(functions: list[Function]) -> str:
    """The prototypes."""
    prototypes = [f'__attribute__((visibility("default"))) {f.signature};' for f in functions]
    return "\n".join(
        [
            "// Generated from src/softnpu/tables/acl_functions.yaml.",
            "#pragma once",
            '#include "acl_types.h"',
            'extern "C" {',
            *prototypes,
            "}",
            "",
        ]
    )


def _refusing_body(function: Function) -> str:
    call = (
        f"softnpu::abi::refuse({_quote(function.name)}, {_quote(function.note)}, "
        f"{'true' if function.stderr else 'false'})"
    )
    value = refusal_value(function)
    return f"  {call};" + (f"\n  return {value};" if value else "")


def render_refusing(functions: list[Function]) -> str:
    """The definitions of the refusing functions."""
    lines = [
        "// Generated from src/softnpu/tables/acl_functions.yaml.",
        '#include "acl_functions.h"',
        '#include "errors.h"',
        '#pragma GCC diagnostic ignored "-Wunused-parameter"',
        'extern "C" {',
    ]
    for function in functions:
        if function.level == "refuses":
            lines += [function.signature + " {", _refusing_body(function), "}"]
    return "\n".join([*lines, "}", ""])


def render_implemented(functions: list[Function]) -> str:
    """A table of addresses that does not link where a definition is missing."""
    names = [f.name for f in functions if f.level == "implemented"]
    return "\n".join(
        [
            "// Generated from src/softnpu/tables/acl_functions.yaml.",
            '#include "acl_functions.h"',
            "namespace softnpu::abi {",
            "extern const void* const kImplemented[];",
            "const void* const kImplemented[] = {",
            *(f"    reinterpret_cast<const void*>(&{name})," for name in names),
            "};",
            "}  // namespace softnpu::abi",
            "",
        ]
    )


def render_numbers(numbers: dict[str, int]) -> str:
    """The mapping; without a default, so that a code without a row does not compile."""
    return "\n".join(
        [
            "// Generated from src/softnpu/tables/acl_errors.yaml.",
            '#include "errors.h"',
            "namespace softnpu::abi {",
            "aclError number_of(Code code) {",
            "  switch (code) {",
            "    case Code::Ok: return 0;",
            *(f"    case Code::{code}: return {number};" for code, number in numbers.items()),
            "  }",
            "  return kRtInternal;",
            "}",
            "}  // namespace softnpu::abi",
            "",
        ]
    )


def render_exports(functions: list[Function]) -> str:
    """The version script: the table, softnpu_*, and the engine's C++ interface."""
    names = sorted(f.name for f in functions)
    engine = ["softnpu::*", "typeinfo*for?softnpu::*", "vtable?for?softnpu::*"]
    return "\n".join(
        [
            "# Generated from src/softnpu/tables/acl_functions.yaml.",
            "{",
            "  global:",
            "    softnpu_*;",
            *(f"    {name};" for name in names),
            '    extern "C++" {',
            *(f"      {pattern};" for pattern in engine),
            "    };",
            "  local: *;",
            "};",
            "",
        ]
    )


def write_if_changed(path: Path, text: str) -> None:
    """Leaves an equal file alone, so that nothing is compiled again for nothing."""
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=re.split(r"\n\n", __doc__ or "")[0])
    parser.add_argument("--out", type=Path, required=True)
    out: Path = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    functions = [f for f in acltable.load() if f.exported and not f.in_ops]
    write_if_changed(out / "acl_functions.h", render_header(functions))
    write_if_changed(out / "acl_refusing.cpp", render_refusing(functions))
    write_if_changed(out / "acl_implemented.cpp", render_implemented(functions))
    write_if_changed(out / "acl_numbers.cpp", render_numbers(acltable.load_errors()))
    write_if_changed(out / "acl_exports.map", render_exports(functions))


if __name__ == "__main__":
    main()
