"""Prints the table of speed ratios: `make bench`, or `softnpu run bench/run.py [NAME ...]`.

Each row is measured against CPU PyTorch, or against what its last column names, in the same
process, the two sides in turn (timing.py), so that a shared or noisy machine disturbs both. A ratio
below 1 means faster than that.
"""

import importlib
import sys

import torch

BENCHES = (
    "elementwise",
    "decode_block",
    "rms_norm",
    "aclgraph_dispatch",
    "aclgraph_run",
    "aclgraph_update",
)


def main() -> None:
    names = sys.argv[1:] or BENCHES
    for name in names:
        if name not in BENCHES:
            raise SystemExit(f"no benchmark named {name}; there are {', '.join(BENCHES)}")
    print(f"torch {torch.__version__}, {torch.get_num_threads()} threads on the CPU side")
    print(f"{'':<52}{'ours':>11}{'against':>12}{'ratio':>8}{'target':>8}")
    for name in names:
        for row in importlib.import_module(name).measure():
            target = f"{row.target:.2f}" if row.target else "-"
            print(
                f"{row.what:<52}{row.ours:>8.2f} us{row.baseline:>9.2f} us"
                f"{row.ratio:>8.2f}{target:>8}  per {row.unit}, against {row.against}",
                flush=True,
            )


if __name__ == "__main__":
    main()
