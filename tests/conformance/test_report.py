"""tools/run_upstream.py says what is not as expected, and misses nothing that ended badly."""

from pathlib import Path

import pytest

from tools.upstream_report import Expected, FileResult, Plan, page, problems, read_junit

TABLE = Path(__file__).with_name("expected.yaml")
JUNIT = """<testsuites><testsuite>
<testcase classname="test_a.TestA" name="test_good"/>
<testcase classname="test_a.TestA" name="test_bad"><failure message="boom"/></testcase>
<testcase classname="test_a" name="test_skip"><skipped message="no device"/></testcase>
<testcase classname="test_a.TestA" name="test_torn"/>
<testcase classname="test_a.TestA" name="test_torn"><error message="tear-down"/></testcase>
</testsuite></testsuites>
"""


@pytest.fixture
def result(tmp_path: Path) -> FileResult:
    path = tmp_path / "a.xml"
    path.write_text(JUNIT, encoding="utf-8")
    return read_junit("test_a.py", path)


def plan(**not_passing: str) -> Plan:
    expected = {
        f"test_a.py::{name.replace('__', '::')}": Expected(outcome, "a reason")
        for name, outcome in not_passing.items()
    }
    return Plan("v1", "test/npu", ["test_a.py"], {}, expected)


def test_outcomes_of_a_junit_file(result: FileResult) -> None:
    assert result.outcomes == {
        "test_a.py::TestA::test_good": "passed",
        "test_a.py::TestA::test_bad": "failed",
        "test_a.py::test_skip": "skipped",
        "test_a.py::TestA::test_torn": "failed",
    }


def test_only_unexplained_outcomes_are_problems(result: FileResult) -> None:
    explained = plan(TestA__test_bad="failed", test_skip="skipped", TestA__test_torn="failed")
    assert problems(explained, [result]) == []
    assert problems(plan(TestA__test_bad="failed", test_skip="skipped"), [result]) == [
        "test_a.py::TestA::test_torn: failed, unexplained: tear-down"
    ]


def test_an_expected_failure_that_passes_is_a_problem(result: FileResult) -> None:
    explained = plan(
        TestA__test_bad="failed",
        test_skip="failed",
        TestA__test_torn="failed",
        TestA__test_good="failed",
        TestA__test_gone="failed",
    )
    assert problems(explained, [result]) == [
        "test_a.py::TestA::test_good: passed, but failed is expected: fix the table",
        "test_a.py::test_skip: skipped, but failed is expected: fix the table",
        "test_a.py::TestA::test_gone: listed as not passing, but there is no such test",
    ]


def test_the_page_marks_what_is_unexplained(result: FileResult) -> None:
    text = page(plan(TestA__test_bad="failed", test_skip="skipped"), [result], {"torch_npu": "1"})
    assert "| test_a.py | 1 | 2 | 1 | 0 |" in text
    assert "| `test_a.py::TestA::test_bad` | failed | a reason |" in text
    assert "| `test_a.py::TestA::test_torn` | failed | **unexplained** |" in text


def test_the_table_can_be_read() -> None:
    table = Plan.load(TABLE)
    assert set(table.lift_skips) <= set(table.files)
    assert {test.split("::")[0] for test in table.not_passing} <= set(table.files)
