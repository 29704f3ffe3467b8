"""The options that `softnpu run` and `softnpu env` share."""

import os
from collections.abc import Callable
from typing import Any, TypeVar

import click

from softnpu import settings

_F = TypeVar("_F", bound=Callable[..., Any])

# Option name -> the environment variable that carries it to the device.
DEVICE_OPTIONS = {
    "soc": "SOFTNPU_SOC",
    "devices": "SOFTNPU_DEVICES",
    "seed": "SOFTNPU_SEED",
    "hide": "SOFTNPU_HIDE",
}


def device_options(command: _F) -> _F:
    """Adds --soc, --devices, --seed and --hide. The values stay text: settings.py checks them."""
    for option in (
        click.option("--hide", metavar="NAMES", help="Functions to lack, as an older CANN does."),
        click.option("--seed", metavar="N", help="Fix the order in which streams run."),
        click.option("--devices", metavar="N", help="How many devices are visible (2)."),
        click.option("--soc", metavar="NAME", help=f"The chip to be ({settings.DEFAULT_SOC})."),
    ):
        command = option(command)
    return command


def chosen_settings(options: dict[str, str | None]) -> dict[str, str]:
    """The SOFTNPU_* variables that the options ask for.

    Raises SettingError when an option, or a setting of the environment that no option replaces, is
    malformed: the device would refuse it later and further away.
    """
    chosen: dict[str, str] = {}
    for option, text in options.items():
        if text is not None:
            setting = settings.by_variable(DEVICE_OPTIONS[option])
            setting.check(f"--{option}", text)
            chosen[setting.variable] = text
    for value in settings.read(os.environ):
        if value.setting.variable not in chosen:
            settings.check(value)
    return chosen
