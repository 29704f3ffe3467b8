"""The device engine alone: no ACL, no torch.

The cases are in *_test.cpp, built into `softnpu_engine_tests` by `make build`. Each runs in a
process of its own, since the engine reads its settings once. SOFTNPU_ENGINE_TESTS names another
executable, e.g. one built with a sanitizer.
"""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

BUILT = Path(__file__).parents[2] / "build" / "tests" / "engine" / "softnpu_engine_tests"
EXECUTABLE = Path(os.environ.get("SOFTNPU_ENGINE_TESTS", BUILT))
TIME_LIMIT = 60  # seconds; a case takes milliseconds, but a sanitizer and a busy machine are slow


def cases() -> dict[str, str]:
    """Name and environment of every case; empty when the executable was not built."""
    if not EXECUTABLE.is_file():
        return {}
    listed = subprocess.run(
        [EXECUTABLE, "--list"], capture_output=True, text=True, check=True, timeout=TIME_LIMIT
    )
    return dict(line.split("\t") for line in listed.stdout.splitlines())


CASES = cases()


def run(name: str, **settings: str) -> str:
    """Run one case, with `settings` over the environment it asks for; gives what it printed."""
    inherited = {key: value for key, value in os.environ.items() if not key.startswith("SOFTNPU_")}
    asked = dict(pair.split("=") for pair in CASES[name].split())
    result = subprocess.run(
        [EXECUTABLE, name],
        env=inherited | asked | settings,
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
    )
    assert result.returncode == 0, f"{name}: exit code {result.returncode}\n{result.stderr}"
    return result.stdout


def test_cases_were_built() -> None:
    assert CASES, f"{EXECUTABLE} is missing: run `make build`"


@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    run(name)


@pytest.mark.parametrize("name", ["seed_draws_an_order", "seed_order_does_not_depend_on_the_clock"])
def test_same_seed_same_order_and_others_differ(name: str) -> None:
    orders = {seed: run(name, SOFTNPU_SEED=str(seed)) for seed in range(8)}
    assert len(set(orders.values())) > 1
    for seed, order in orders.items():
        assert run(name, SOFTNPU_SEED=str(seed)) == order


def test_dump_parses() -> None:
    events = json.loads(run("replay_dump_is_json"))
    names = [event["name"] for event in events]
    assert names[0] == 'odd "name" \\ with\nbreak'
    record, wait = events[1], events[2]
    assert record["args"]["Task Type"] == "EVENT_RECORD"
    assert wait["args"]["Depends On Task"] == record["args"]["Task Id"]
    assert wait["name"].removeprefix("EVENT_WAIT_") == record["name"].removeprefix("EVENT_RECORD_")
    assert {event["ph"] for event in events} == {"X"}


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("SOFTNPU_SOC", "Ascend1"),
        ("SOFTNPU_DEVICES", "0"),
        ("SOFTNPU_SEED", "-3"),
        ("SOFTNPU_HANG_SECONDS", "soon"),
    ],
)
def test_malformed_setting_ends_the_process(variable: str, value: str) -> None:
    result = subprocess.run(
        [EXECUTABLE, "device_count_follows_the_setting"],
        env={variable: value},
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT,
    )
    assert result.returncode == 2
    assert f"{variable}={value} is not valid" in result.stderr
