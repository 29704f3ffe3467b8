"""The settings: one table, with the environment variable that carries each to the device.

The C++ runtime reads the same variables (native/engine/settings.cpp). Python checks them first, so
that a mistake is reported before anything is started.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from softnpu.errors import SettingError

DEFAULT_SOC = "Ascend910B3"
LOG_CHANNELS = ("stream", "graph", "op", "kernel", "err")


@dataclass(frozen=True)
class Setting:
    """One setting: `variable` is its environment variable, `default` None where it has none.

    `check` raises SettingError when the text is not a value of this setting.
    """

    variable: str
    default: str | None
    what: str
    check: Callable[[str, str], None]


@dataclass(frozen=True)
class Value:
    """A setting with its value, and where it came from: "environment" or "default"."""

    setting: Setting
    text: str | None
    source: str


def _integer(low: int, high: int) -> Callable[[str, str], None]:
    def check(variable: str, text: str) -> None:
        if not re.fullmatch(r"[0-9]+", text) or not low <= int(text) <= high:
            raise SettingError(f"{variable}={text}: expected a whole number from {low} to {high}")

    return check


def _seconds(variable: str, text: str) -> None:
    if not re.fullmatch(r"[0-9]+(\.[0-9]+)?", text) or not 0 < float(text) <= 86400:
        raise SettingError(f"{variable}={text}: expected seconds, above 0 and up to 86400")


def _version(variable: str, text: str) -> None:
    if not re.fullmatch(r"[0-9]+(\.[0-9A-Za-z]+)+", text):
        raise SettingError(f"{variable}={text}: expected a version such as 8.5.0")


def _soc(variable: str, text: str) -> None:
    from softnpu import socs

    if text not in socs.load():
        known = ", ".join(socs.load())
        raise SettingError(f"{variable}={text}: unknown SoC; known are {known}")


def _channels(variable: str, text: str) -> None:
    unknown = [name for name in text.split(",") if name and name not in LOG_CHANNELS]
    if unknown:
        known = ", ".join(LOG_CHANNELS)
        raise SettingError(f"{variable}={text}: unknown channel {unknown[0]}; known are {known}")


def _functions(variable: str, text: str) -> None:
    from softnpu import hiding

    hiding.check(variable, text)


def _stream_error(variable: str, text: str) -> None:
    if text not in ("207005", "207008"):
        raise SettingError(f"{variable}={text}: expected 207005 or 207008")


def _folder(variable: str, text: str) -> None:
    if not os.path.isabs(os.path.expanduser(text)):
        raise SettingError(f"{variable}={text}: expected an absolute path")
    if os.path.exists(text) and not os.path.isdir(text):
        raise SettingError(f"{variable}={text}: not a folder")


_UINT64_MAX = 2**64 - 1

SETTINGS = (
    Setting("SOFTNPU_SOC", DEFAULT_SOC, "the chip to be", _soc),
    Setting("SOFTNPU_DEVICES", "2", "visible devices", _integer(1, 64)),
    Setting(
        "SOFTNPU_SEED",
        None,
        "fixes the order in which streams run; unset: the machine's timing decides",
        _integer(0, _UINT64_MAX),
    ),
    Setting("SOFTNPU_THREADS", "2", "threads inside one operator", _integer(1, 256)),
    Setting(
        "SOFTNPU_HBM_BYTES",
        None,
        "memory of one device in bytes; unset: the SoC's",
        _integer(1 << 20, 1 << 46),
    ),
    Setting("SOFTNPU_STREAM_LIMIT", "1984", "streams of one device", _integer(1, 16384)),
    Setting(
        "SOFTNPU_STREAM_ERROR",
        "207008",
        "the error when no stream is left: 207008, or 207005 as older drivers say",
        _stream_error,
    ),
    Setting(
        "SOFTNPU_HIDE",
        "",
        "functions that libascendcl.so is to lack, as an older CANN does; read by `softnpu run` "
        "and `softnpu env`",
        _functions,
    ),
    Setting("SOFTNPU_CANN_VERSION", "8.5.0", "the CANN version that is reported", _version),
    Setting("SOFTNPU_DRIVER_VERSION", "25.5.0", "the driver version that is reported", _version),
    Setting(
        "SOFTNPU_HANG_SECONDS",
        "5",
        "how long a waiting host sees no progress before the wait is reported as a hang",
        _seconds,
    ),
    Setting(
        "SOFTNPU_CACHE_DIR",
        None,
        "where compiled kernels are kept; unset: softnpu/kernels in the user's cache folder",
        _folder,
    ),
    Setting(
        "SOFTNPU_POISON_UB",
        "0",
        "1: a kernel's on-chip buffer starts as NaN patterns, to show reads of unset tiles",
        _integer(0, 1),
    ),
    Setting(
        "SOFTNPU_ALLOW_SHAPE_MISMATCH",
        "0",
        "1: a TileLang kernel takes arguments of other shapes, as on the device",
        _integer(0, 1),
    ),
    Setting("SOFTNPU_LOG", "", "what is logged: " + ",".join(LOG_CHANNELS), _channels),
)


def by_variable(variable: str) -> Setting:
    """The setting that this environment variable carries."""
    return next(setting for setting in SETTINGS if setting.variable == variable)


def read(environment: Mapping[str, str]) -> list[Value]:
    """Every setting's value. An empty variable counts as unset. Nothing is checked."""
    values = []
    for setting in SETTINGS:
        text = environment.get(setting.variable)
        source = "environment" if text else "default"
        values.append(Value(setting, text or setting.default, source))
    return values


def check(value: Value) -> None:
    """Raises SettingError when a value from the environment is malformed."""
    if value.source != "default" and value.text is not None:
        value.setting.check(value.setting.variable, value.text)
