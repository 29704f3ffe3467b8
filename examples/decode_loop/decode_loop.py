"""A decode loop with graphs, to copy: continuous batching, prompts eager, decode steps replayed.

Runs the same requests eagerly and with graphs, compares every token, and reports tokens per second,
hit rate, padding, and the three figures of a decode step. Needs torch and torch_npu, and an Ascend
NPU or softnpu: `softnpu run examples/decode_loop/decode_loop.py`.
"""

import argparse
import copy
import random
import time
from pathlib import Path

import torch
import torch_npu  # noqa: F401  (gives torch its npu device)
from engine import Engine, Request, Scheduler
from model import ModelConfig, PagedLlama

from aclgraph import (
    DecodeRunner,
    Dispatcher,
    GraphMode,
    bench,
    default_sizes,
    inputs,
    live_plan,
    print_progress,
    simulate,
    time_step,
    verify,
)


def make_requests(count, config, seed):
    rng = random.Random(seed)
    return [
        Request(
            prompt=[rng.randrange(config.vocab) for _ in range(rng.randint(5, 40))],
            max_new=rng.randint(8, 24),
            arrives=i * 2,
        )
        for i in range(count)
    ]


def make_runner(model, args):
    """Sizes that fit the device's streams, the dispatcher over them, and the captured runner."""
    plan = live_plan(default_sizes(args.max_num_seqs))
    print(f"capture sizes: {list(plan.sizes.sizes)} ({plan})")
    dispatcher = Dispatcher(GraphMode.FULL_DECODE_ONLY, plan.sizes, args.max_num_seqs)
    runner = DecodeRunner(
        model,
        dispatcher,
        [
            inputs.tokens(),
            inputs.positions(),
            inputs.slot_mapping(dtype=torch.int64),
            inputs.block_table(model.config.max_blocks, dtype=torch.int64),
        ],
    )
    runner.capture(print_progress)
    return runner


def generate(model, dispatcher, runner, requests, args):
    """All requests to their end; the tokens of each, tokens per second, and the engine."""
    requests = copy.deepcopy(requests)
    scheduler = Scheduler(requests, model.config, args.max_num_seqs, args.chunk)
    engine = Engine(model, dispatcher, runner)
    torch.npu.synchronize()
    begin = time.perf_counter()
    while (scheduled := scheduler.next()) is not None:
        engine.run_step(scheduled)
    seconds = time.perf_counter() - begin
    tokens = [request.generated for request in requests]
    return tokens, sum(map(len, tokens)) / seconds, engine


def make_batch(engine, requests, seed):
    """A decode batch of so many requests with random contents, for verify() and bench()."""
    config, rng = engine.model.config, random.Random(seed)
    length = config.max_length
    blocks = rng.sample(range(1, config.num_blocks), config.num_blocks - 1)
    scheduled = []
    for _ in range(requests):
        known = [rng.randrange(config.vocab) for _ in range(rng.randint(2, length))]
        request = Request(prompt=known, max_new=1, arrives=0, computed=len(known) - 1)
        request.blocks = [blocks.pop() for _ in range(-(-len(known) // config.block_size))]
        scheduled.append((request, 1))
    return engine.inputs(scheduled)


def check(runner, engine):
    """Every bucket, replay against eager; block 0 may differ, padded tokens write there."""
    size = engine.model.config.block_size
    caches = [name for name, _ in engine.model.named_buffers() if name.endswith("_cache")]
    report = verify(
        runner,
        lambda requests, seed: make_batch(engine, requests, seed),
        compare_state={f"PagedLlama.{name}": lambda cache: cache[size:] for name in caches},
    )
    print(report)
    report.raise_for_findings()


def print_prompt_figures(model, engine):
    """Why prompts stay eager: their kernels take longer than the host needs to issue them."""
    config = model.config
    prompts = []
    for first in range(1, 9 * config.max_blocks, config.max_blocks):
        request = Request(prompt=[1] * config.max_length, max_new=1, arrives=0)
        request.blocks = list(range(first, first + config.max_blocks))
        prompts.append((request, config.max_length))
    batch = engine.inputs(prompts)
    with torch.no_grad():
        figures = time_step(lambda: model(**batch), steps=4, rounds=3)
    print(f"\n{len(prompts)} prompts of {config.max_length} tokens, eager")
    for name, figure in figures.items():
        print(f"{name:<22}{'off':<8}{figure}")


def parse_arguments():
    parser = argparse.ArgumentParser(description="Continuous batching with decode graphs.")
    parser.add_argument("--requests", type=int, default=12)
    parser.add_argument("--max-num-seqs", type=int, default=8)
    parser.add_argument("--chunk", type=int, default=16, help="prompt tokens per step")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--explain", action="store_true", help="print every step's decision")
    parser.add_argument("--no-verify", dest="verify", action="store_false")
    parser.add_argument("--json", type=Path, help="write the figures there")
    return parser.parse_args()


def main():
    args = parse_arguments()
    config = ModelConfig(layers=args.layers)
    model = PagedLlama(config, args.seed).npu()
    requests = make_requests(args.requests, config, args.seed)
    runner = make_runner(model, args)

    generate(model, runner.dispatcher, None, requests, args)  # warm-up
    eager, eager_rate, _ = generate(model, runner.dispatcher, None, requests, args)
    graph, graph_rate, engine = generate(model, runner.dispatcher, runner, requests, args)
    if args.explain:
        print("\n".join(f"step {i}: {why}" for i, why in enumerate(engine.decided)))
    if eager != graph:
        raise SystemExit("eager and graph tokens differ: run without --no-verify for the cause")
    print(f"eager == graph: {sum(map(len, graph))} tokens of {len(graph)} requests are identical")
    if args.verify:
        check(runner, engine)

    workload = simulate(runner.dispatcher, engine.batches)
    print(f"tokens/s          eager {eager_rate:.0f}, with graphs {graph_rate:.0f}")
    print(f"workload          {workload}")
    print()
    report = bench(
        runner,
        args.max_num_seqs,
        make_batch(engine, args.max_num_seqs, seed=1),
        steps=8,
        variables={
            "heads": config.heads,
            "hidden": config.hidden,
            "layers": config.layers,
            "AUTO_CV_COMBINE": "no TileLang kernel in this step",
        },
    )
    print(report)
    print_prompt_figures(model, engine)
    if args.json:
        args.json.write_text(report.to_json())


if __name__ == "__main__":
    main()
