#!/bin/sh
# Installs the CPU build of torch, alone, before anything that depends on torch is installed.
# torch_npu aborts with a CUDA build (both register the same allocator options), and PyPI's torch for
# Linux is one. $TORCH_INDEX_URL, if set, is the only place that is asked.
# Usage: install_torch.sh PYTHON VERSION
python=$1
version=$2
cpu_index=https://download.pytorch.org/whl/cpu

install() {
    "$python" -m pip install -qq --disable-pip-version-check "$@"
}

if [ -n "${TORCH_INDEX_URL:-}" ]; then
    install "torch==$version" --index-url "$TORCH_INDEX_URL"
    exit
fi
# A machine whose pip is set up for CPU builds has them under this version, PyPI has not.
install "torch==$version+cpu" 2>/dev/null || install "torch==$version+cpu" --index-url "$cpu_index" || {
    echo "softnpu: error: no CPU build of torch $version, neither where pip looks nor at $cpu_index;
  name an index that has it: make setup TORCH_INDEX_URL=..." >&2
    exit 1
}
