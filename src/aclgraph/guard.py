"""Addresses that the graphs hold, and whether they still are those of the tensors.

A graph reads a weight at the address it had at capture. A reload that allocates new memory leaves
the graph with the old one, and the result is wrong without a word (vllm-ascend #13902).
"""

from collections.abc import Callable, Iterator, Mapping
from typing import TypeAlias

import torch
from torch.nn.modules import module as torch_module

from aclgraph.errors import AddressError, ConfigError
from aclgraph.trace import Outside, storage_of

Watched: TypeAlias = torch.Tensor | torch.nn.Module | Callable[[], torch.Tensor]

_data_ptr = torch.Tensor.data_ptr


class _Registrations:
    """Counts what is registered in any module of the process: `module.x = ...` included.

    While the count stands still no parameter, buffer or submodule was replaced, and looking at each
    can be left out.
    """

    def __init__(self) -> None:
        self.count = 0
        self._started = False

    def start(self) -> int:
        """Starts counting, once; the count now."""
        if not self._started:
            self._started = True
            for register in (
                torch_module.register_module_parameter_registration_hook,
                torch_module.register_module_buffer_registration_hook,
                torch_module.register_module_module_registration_hook,
            ):
                register(self._note)
        return self.count

    def _note(self, module: object, name: str, value: object) -> None:
        self.count += 1


_registrations = _Registrations()


class Guard:
    """Compares what is watched with what was captured.

    Watched tensors are kept alive, so that a graph never reads freed memory while its runner lives.

    Args:
        watch: by name: a tensor (its memory may be replaced, `t.data = ...`), a module (its
            parameters, buffers and submodules may be replaced), or a function that returns the
            tensor in use now (an attribute of anything).
    """

    def __init__(self, watch: Mapping[str, Watched]) -> None:
        self._names: list[str] = []
        self._tensors: list[torch.Tensor] = []
        # Where modules hold tensors and submodules, under which key and name, and what was there.
        self._slots: list[tuple[dict, str, str, object]] = []
        self._seen_registrations = _registrations.start()
        self._getters: list[tuple[str, Callable[[], torch.Tensor], torch.Tensor]] = []
        self._seen: set[int] = set()
        for name, value in watch.items():
            self._watch(name, value)
        self._note_addresses()

    def __len__(self) -> int:
        return len(self._tensors)

    def name_of(self, storage: int) -> str | None:
        """The name of the watched tensor in this storage."""
        for name, tensor in zip(self._names, self._tensors, strict=True):
            if storage_of(tensor) == storage:
                return name
        return None

    def tensors_of(self, storage: int) -> dict[str, torch.Tensor]:
        """Every watched tensor in this storage (`storage_of`), by name."""
        return {
            name: tensor
            for name, tensor in zip(self._names, self._tensors, strict=True)
            if storage_of(tensor) == storage
        }

    def adopt(self, outside: Outside) -> None:
        """Watches a tensor that the step was seen to use and nobody declared.

        Its memory stays alive and must stay in place. That another tensor takes its place in the
        user's objects can't be seen without a declaration.
        """
        base = outside.tensor._base
        tensor = outside.tensor if base is None else base
        shape = tuple(tensor.shape)
        name = f"undeclared {shape} {tensor.dtype} tensor of {outside.op} at {outside.where}"
        self._add(name, tensor)
        self._note_addresses()

    def check(self) -> None:
        """Costs about 0.1 us per watched tensor.

        Raises:
            AddressError: a tensor moved or was replaced; it is named.
        """
        if [*map(_data_ptr, self._tensors)] != self._addresses:
            raise self._moved()
        if self._seen_registrations != _registrations.count:
            self.check_modules()
        for name, getter, tensor in self._getters:
            if getter() is not tensor:
                raise _error(name, "another tensor is in use now")

    def check_modules(self) -> None:
        """Checks what modules hold, also if it was put there past `setattr` and `register_...`.

        Raises:
            AddressError: a parameter, buffer or submodule was replaced; it is named.
        """
        count = _registrations.count
        for slots, key, name, held in self._slots:
            if slots.get(key) is not held:
                raise _error(name, "another object has taken its place")
        self._seen_registrations = count

    def _watch(self, name: str, value: Watched) -> None:
        if isinstance(value, torch.Tensor):
            self._add(name, value)
        elif isinstance(value, torch.nn.Module):
            self._watch_module(name, value)
        elif callable(value):
            tensor = value()
            self._getters.append((name, value, tensor))
            self._add(name, tensor)
        else:
            raise ConfigError(
                f"watch[{name!r}] is a {type(value).__name__}; give a tensor, a module, or a "
                "function that returns the tensor in use"
            )

    def _watch_module(self, name: str, module: torch.nn.Module) -> None:
        for path, inner in module.named_modules():
            prefix = ".".join(part for part in (name, path) if part)
            for slots in (inner._parameters, inner._buffers, inner._modules):
                for key, held in slots.items():
                    if held is not None:
                        self._slots.append((slots, key, f"{prefix}.{key}", held))
                    if isinstance(held, torch.Tensor):
                        self._add(f"{prefix}.{key}", held)

    def _add(self, name: str, tensor: torch.Tensor) -> None:
        if id(tensor) not in self._seen:
            self._seen.add(id(tensor))
            self._names.append(name)
            self._tensors.append(tensor)

    def _note_addresses(self) -> None:
        self._addresses = [*map(_data_ptr, self._tensors)]

    def _moved(self) -> AddressError:
        changed = next(self._changed())
        return _error(
            self._names[changed],
            f"its memory moved from {self._addresses[changed]:#x} to "
            f"{self._tensors[changed].data_ptr():#x}",
        )

    def _changed(self) -> Iterator[int]:
        for index, (tensor, address) in enumerate(zip(self._tensors, self._addresses, strict=True)):
            if tensor.data_ptr() != address:
                yield index


def _error(name: str, what: str) -> AddressError:
    return AddressError(
        f"{name} is not where the graphs read it: {what}. A graph holds the address of its "
        "capture, so a replay would use the old values. Write new values in place "
        "(`tensor.copy_(new)`), or capture again (`runner.recapture()`)"
    )
