"""The stand-ins for CANN's shared objects, from tables/standin_libraries.yaml."""

from dataclasses import dataclass

from softnpu import layout


@dataclass(frozen=True)
class Standin:
    """One shared object: `over` is "runtime" or "ops", `loaded` is "linked" or "dlopen"."""

    soname: str
    over: str
    loaded: str


@dataclass(frozen=True)
class Absent:
    """A shared object that is left out on purpose."""

    soname: str
    why: str


def load() -> tuple[list[Standin], list[Absent]]:
    """What is provided, and what is left out with its reason."""
    import yaml

    path = layout.tables_dir() / "standin_libraries.yaml"
    table = yaml.safe_load(path.read_text(encoding="utf-8"))
    provided = [Standin(**row) for row in table["libraries"]]
    return provided, [Absent(**row) for row in table["absent"]]
