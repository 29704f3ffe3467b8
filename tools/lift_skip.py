"""A pytest plugin that runs what a test file skips for a reason that does not hold here.

`-p lift_skip --lift-skip TEXT` removes the class-level skips of unittest whose reason has TEXT in
it. The file itself stays as it is.
"""

import unittest

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--lift-skip", help="run classes whose skip reason has this text in it")


def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> None:
    text = collector.config.getoption("--lift-skip")
    if text and isinstance(obj, type) and issubclass(obj, unittest.TestCase):
        reason = getattr(obj, "__unittest_skip_why__", "")
        if getattr(obj, "__unittest_skip__", False) and text in reason:
            obj.__unittest_skip__ = False
