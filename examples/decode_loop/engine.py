"""Continuous batching over the paged cache: which requests run in a step, and their inputs.

A scheduler gives each running request its next tokens: a chunk of its prompt, or the one token it
decoded last. A step can hold both kinds. Steps in which every request decodes may take a graph.
"""

from dataclasses import dataclass, field

import torch

from aclgraph import Batch


@dataclass
class Request:
    """A prompt, how far it has been computed, and what was generated."""

    prompt: list[int]
    max_new: int
    arrives: int  # step
    generated: list[int] = field(default_factory=list)
    computed: int = 0
    blocks: list[int] = field(default_factory=list)

    @property
    def known(self) -> list[int]:
        return self.prompt + self.generated

    @property
    def done(self) -> bool:
        return len(self.generated) >= self.max_new


class Scheduler:
    """First come, first served; block 0 is never given to a request."""

    def __init__(self, requests, config, max_num_seqs, chunk):
        self.waiting = sorted(requests, key=lambda request: request.arrives)
        self.running: list[Request] = []
        self.free = list(range(config.num_blocks - 1, 0, -1))
        self.config, self.max_num_seqs, self.chunk = config, max_num_seqs, chunk
        self.step = 0

    def next(self):
        """Requests of this step with their token counts; None when all are done."""
        for request in [request for request in self.running if request.done]:
            self.running.remove(request)
            self.free.extend(request.blocks)
        if not self.running and not self.waiting:
            return None
        self.step += 1
        self._admit()
        return [(r, min(len(r.known) - r.computed, self.chunk)) for r in self.running]

    def _admit(self):
        while self.waiting and len(self.running) < self.max_num_seqs:
            request = self.waiting[0]
            length = len(request.prompt) + request.max_new
            needed = -(-length // self.config.block_size)
            too_early = request.arrives > self.step and self.running
            if too_early or needed > len(self.free):
                return
            request.blocks = [self.free.pop() for _ in range(needed)]
            self.running.append(self.waiting.pop(0))


class Engine:
    """Runs scheduled steps: decode batches as the dispatcher says, everything else eagerly."""

    def __init__(self, model, dispatcher, runner=None):
        self.model, self.dispatcher, self.runner = model, dispatcher, runner
        self.batches: list[Batch] = []
        self.decided: list[str] = []

    def run_step(self, scheduled):
        counts = [count for _, count in scheduled]
        batch = Batch.of(
            counts,
            [request.computed for request, _ in scheduled],
            [len(request.prompt) for request, _ in scheduled],
        )
        self.batches.append(batch)
        self.decided.append(self.dispatcher.explain(batch))
        decision = self.dispatcher.dispatch(batch)
        if decision.key and self.runner:
            sampled = self.runner.run(decision, self.inputs(scheduled)).tolist()
        else:
            sampled = self._eagerly(scheduled)
        for (request, count), token in zip(scheduled, sampled, strict=True):
            request.computed += count
            if request.computed == len(request.known):
                request.generated.append(token)

    def _eagerly(self, scheduled):
        """The last token's successor per request; requests of one length run together."""
        sampled = [0] * len(scheduled)
        for length in sorted({count for _, count in scheduled}):
            picked = [i for i, (_, count) in enumerate(scheduled) if count == length]
            with torch.no_grad():
                out = self.model(**self.inputs([scheduled[i] for i in picked]))
            for i, token in zip(picked, out.view(len(picked), -1)[:, -1].tolist(), strict=True):
                sampled[i] = token
        return sampled

    def inputs(self, scheduled):
        """The step's inputs on the device, unpadded."""
        size, width = self.model.config.block_size, self.model.config.max_blocks
        tokens, positions, slots, table = [], [], [], []
        for request, count in scheduled:
            span = range(request.computed, request.computed + count)
            tokens += request.known[span.start : span.stop]
            positions += span
            slots += [request.blocks[place // size] * size + place % size for place in span]
            table.append(request.blocks + [0] * (width - len(request.blocks)))
        return {
            "tokens": torch.tensor(tokens).npu(),
            "positions": torch.tensor(positions).npu(),
            "slot_mapping": torch.tensor(slots).npu(),
            "block_table": torch.tensor(table).npu(),
        }
