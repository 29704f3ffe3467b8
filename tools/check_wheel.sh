#!/usr/bin/env bash
# Installs the wheel into an empty virtual environment and uses it there.
# Usage: check_wheel.sh WHEEL CONSTRAINTS   (from the repository)
set -euo pipefail

wheel=$(realpath "$1")
constraints=$(realpath "$2")
venv=$PWD/.venv-wheel
scripts=$PWD/tests/packaging
unset PYTHONPATH LD_LIBRARY_PATH ASCEND_HOME_PATH ASCEND_TOOLKIT_HOME ASCEND_OPP_PATH

rm -rf "$venv"
.venv/bin/python -m venv "$venv"
# The build of torch that this checkout uses, so that no other is pulled in.
torch=$(sed -n 's/^torch==\([0-9.]*\).*/\1/p' "$constraints")
tools/install_torch.sh "$venv/bin/python" "$torch"
"$venv/bin/python" -m pip install -qq -c "$constraints" "$wheel"

# From a folder that is not the checkout, lest its sources be found.
cd "$(mktemp -d)"
"$venv/bin/softnpu" doctor
"$venv/bin/softnpu" run "$scripts/six_ops.py"
SOFTNPU_CACHE_DIR=$PWD/cache "$venv/bin/softnpu" run "$scripts/tilelang_kernel.py"
if "$venv/bin/python" -c 'import torch' 2>message; then
    echo "check_wheel: import torch without the environment should have failed" >&2
    exit 1
fi
grep -q 'softnpu run script.py' message
echo "check_wheel: $(basename "$wheel") works in an empty environment"
