"""The chips that softnpu can pretend to be, from tables/socs.yaml."""

from dataclasses import dataclass
from functools import cache

from softnpu import layout


@dataclass(frozen=True)
class Soc:
    """One chip. Sizes are bytes, per core for on-chip buffers, per device for `l2` and `hbm`.

    `ub_usable` and `l1_usable` are what a kernel may occupy of `ub` and `l1`.
    """

    name: str
    family: str
    aic: int
    aiv: int
    ub: int
    ub_usable: int
    l1: int
    l1_usable: int
    l0a: int
    l0b: int
    l0c: int
    l2: int
    hbm: int
    npu_arch: int
    src: str


@cache
def load() -> dict[str, Soc]:
    """Every known chip by name, in the table's order."""
    # Here and not above: what only needs the defaults must not pay for a YAML parser.
    import yaml

    table = yaml.safe_load((layout.tables_dir() / "socs.yaml").read_text(encoding="utf-8"))
    return {name: Soc(name=name, **row) for name, row in table["socs"].items()}
