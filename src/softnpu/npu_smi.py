"""`npu-smi info`: the devices that the settings describe.

Usage, temperature and power are shown as "-": there is no chip that could have any, and what a
device has allocated is known only inside the process that uses it.
"""

import os
import sys

from softnpu import __version__, settings, socs
from softnpu.cli.render import plain
from softnpu.errors import SettingError


def main(arguments: list[str]) -> None:
    """Prints the table, or ends with exit code 1 and one line."""
    if arguments != ["info"]:
        asked = " ".join(arguments) or "no argument"
        sys.exit(f"softnpu: error: npu-smi {asked}: only `npu-smi info` is implemented")
    try:
        print(report())
    except SettingError as error:
        sys.exit(f"softnpu: error: {error}")


def report() -> str:
    """The text of `npu-smi info`."""
    values = {value.setting.variable: value for value in settings.read(os.environ)}
    for value in values.values():
        settings.check(value)
    soc = socs.load()[values["SOFTNPU_SOC"].text or settings.DEFAULT_SOC]
    hbm = int(values["SOFTNPU_HBM_BYTES"].text or soc.hbm)
    rows = [
        {
            "NPU": str(index),
            "Name": soc.name.removeprefix("Ascend"),
            "Health": "OK",
            "AICore(%)": "-",
            "Power(W)": "-",
            "HBM-Usage(MB)": f"- / {hbm >> 20}",
        }
        for index in range(int(values["SOFTNPU_DEVICES"].text or 0))
    ]
    driver = values["SOFTNPU_DRIVER_VERSION"].text
    head = f"softnpu {__version__} (software devices)   Version: {driver}"
    return head + "\n" + plain(list(rows[0]), rows)
