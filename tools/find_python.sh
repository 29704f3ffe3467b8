#!/bin/sh
# Prints the CPython 3.11 to build with, and fails when the machine lacks it or a C++ compiler.
# Usage: find_python.sh [PREFERRED]

fail() {
    echo "softnpu: error: $1" >&2
    exit 1
}

for candidate in "$1" python3.11 python3; do
    if [ -n "$candidate" ] && "$candidate" -c '
import sys
sys.exit(sys.implementation.name != "cpython" or sys.version_info[:2] != (3, 11))' 2>/dev/null; then
        python=$(command -v "$candidate")
        break
    fi
    if [ -n "$1" ] && [ "$candidate" = "$1" ]; then
        fail "PYTHON=$1 is not a CPython 3.11"
    fi
done
[ -n "$python" ] || fail "CPython 3.11 is needed and neither python3.11 nor python3 is one;
  install it (Debian 12: apt install python3.11 python3.11-venv) or say make PYTHON=/path/to/python3.11"
"$python" -c 'import ensurepip, venv' 2>/dev/null ||
    fail "$python can't make virtual environments; Debian, Ubuntu: apt install python3.11-venv"

cxx=${CXX:-g++}
command -v "$cxx" >/dev/null 2>&1 ||
    fail "no C++ compiler: $cxx is not on PATH; install g++ 12 or newer (Debian, Ubuntu: apt install g++)"
version=$("$cxx" -dumpversion 2>/dev/null)
[ "${version%%.*}" -ge 12 ] 2>/dev/null ||
    fail "$cxx is version ${version:-unknown}; g++ 12 or newer is needed"
echo "$python"
