"""`python -m aclgraph sizes ...`: what would be captured, without a device."""

import argparse

from aclgraph.budget import Parallelism, legacy_limit, thin_out
from aclgraph.dispatch import Batch, Dispatcher, GraphMode
from aclgraph.sizes import CaptureSizes, default_sizes
from aclgraph.workload import simulate


def main() -> None:
    args = _arguments()
    sizes = default_sizes(args.max_num_seqs, query_len=args.query_len, flavour=args.flavour)
    _print(sizes, args.max_num_seqs)
    if args.layers is None:
        return
    parallel = Parallelism(tp=args.tp, dp=args.dp)
    limit = legacy_limit(len(sizes.sizes), args.layers, parallel)
    print(f"\npiecewise, CANN before 8.5: room for {limit} sizes (1800 streams)")
    if limit < len(sizes.sizes):
        _print(thin_out(sizes, limit, "streams"), args.max_num_seqs)


def _print(sizes: CaptureSizes, max_num_seqs: int) -> None:
    dispatcher = Dispatcher(GraphMode.FULL_DECODE_ONLY, sizes, max_num_seqs)
    batches = [Batch.decode(n, sizes.query_len) for n in range(1, max_num_seqs + 1)]
    print(f"{len(sizes.sizes)} sizes: {', '.join(map(str, sizes.sizes))}")
    uncovered = sizes.uncovered(max_num_seqs)
    if uncovered:
        print(f"batches of {uncovered.start} to {uncovered.stop - 1} requests run eagerly")
    print(f"if every batch up to {max_num_seqs} were as frequent: {simulate(dispatcher, batches)}")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m aclgraph", description=__doc__)
    commands = parser.add_subparsers(required=True)
    sizes = commands.add_parser("sizes", help="capture sizes, what they cover and what they waste")
    sizes.add_argument("--max-num-seqs", type=int, required=True)
    sizes.add_argument("--query-len", type=int, default=1, help="1 + draft tokens")
    sizes.add_argument("--flavour", choices=("ascend", "vllm"), default="ascend")
    sizes.add_argument("--layers", type=int, help="also the legacy stream budget of such a model")
    sizes.add_argument("--tp", type=int, default=1)
    sizes.add_argument("--dp", type=int, default=1)
    return parser.parse_args()


if __name__ == "__main__":
    main()
