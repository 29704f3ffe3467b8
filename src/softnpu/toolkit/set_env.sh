# Makes this shell, and what it starts, find softnpu where CANN is expected:
#     source set_env.sh
# For bash and zsh. `softnpu env` prints the same variables (src/softnpu/env.py); keep both alike.

if [ -n "${BASH_SOURCE:-}" ]; then
    _softnpu_file=${BASH_SOURCE[0]}
elif [ -n "${ZSH_VERSION:-}" ]; then
    eval '_softnpu_file=${(%):-%x}'
else
    # A plain sh does not tell which file it reads.
    _softnpu_file=${SOFTNPU_SET_ENV:-./set_env.sh}
fi
_softnpu_toolkit=$(CDPATH= cd -- "$(dirname -- "$_softnpu_file")" && pwd -P)

# _softnpu_first ENTRY LIST: the colon-separated list with ENTRY in front, and nowhere else.
_softnpu_first() {
    printf '%s' "$1"
    printf '%s:' "$2" | tr ':' '\n' | while IFS= read -r _softnpu_part; do
        if [ -n "$_softnpu_part" ] && [ "$_softnpu_part" != "$1" ]; then
            printf ':%s' "$_softnpu_part"
        fi
    done
}

if [ -f "$_softnpu_toolkit/lib64/libascendcl.so" ]; then
    export ASCEND_HOME_PATH="$_softnpu_toolkit"
    export ASCEND_TOOLKIT_HOME="$_softnpu_toolkit"
    export ASCEND_OPP_PATH="$_softnpu_toolkit/opp"
    LD_LIBRARY_PATH=$(_softnpu_first "$_softnpu_toolkit/lib64" "${LD_LIBRARY_PATH:-}")
    # The virtual environment of a checkout, or the one that the wheel is installed in, unless it is
    # active: python3 has to be the interpreter that has torch_npu.
    for _softnpu_venv in "${_softnpu_toolkit%/src/softnpu/toolkit}/.venv" \
        "${_softnpu_toolkit%/lib/python*/site-packages/softnpu/toolkit}"; do
        if [ -f "$_softnpu_venv/pyvenv.cfg" ]; then
            case ":$PATH:" in
                *":$_softnpu_venv/bin:"*) ;;
                *) PATH="$_softnpu_venv/bin:$PATH" ;;
            esac
        fi
    done
    PATH=$(_softnpu_first "$_softnpu_toolkit/bin" "$PATH")
    PYTHONPATH=$(_softnpu_first "$_softnpu_toolkit/python/adapter" "${PYTHONPATH:-}")
    export LD_LIBRARY_PATH PATH PYTHONPATH
    unset -f _softnpu_first
    unset _softnpu_file _softnpu_toolkit _softnpu_venv
else
    echo "softnpu: error: no libraries in ${_softnpu_toolkit:-$_softnpu_file}/lib64: run make build," \
        "or source this file by its full path from bash or zsh" >&2
    unset -f _softnpu_first
    unset _softnpu_file _softnpu_toolkit
    false
fi
