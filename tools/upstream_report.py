"""What torch_npu's tests did, beside what is expected of them, and the page that says so."""

import xml.etree.ElementTree as ElementTree
from dataclasses import dataclass, field
from pathlib import Path

import yaml

PASSED, FAILED, SKIPPED, TIMED_OUT = "passed", "failed", "skipped", "timed out"
OUTCOMES = (PASSED, FAILED, SKIPPED, TIMED_OUT)


@dataclass(frozen=True)
class Expected:
    """A test that is known not to pass: its outcome and why."""

    outcome: str
    reason: str


@dataclass(frozen=True)
class Plan:
    """The table tests/conformance/expected.yaml."""

    release: str
    folder: str
    files: list[str]
    lift_skips: dict[str, str]
    not_passing: dict[str, Expected]

    @staticmethod
    def load(path: Path) -> "Plan":
        table = yaml.safe_load(path.read_text(encoding="utf-8"))
        expected = {}
        for row in table.pop("not_passing"):
            if row["outcome"] not in OUTCOMES[1:] or row["test"] in expected:
                raise SystemExit(f"{path}: bad or double row: {row}")
            expected[row["test"]] = Expected(row["outcome"], row["reason"])
        return Plan(not_passing=expected, **table)


@dataclass
class FileResult:
    """One file: test id -> outcome, and what a test that did not pass said."""

    file: str
    outcomes: dict[str, str] = field(default_factory=dict)
    messages: dict[str, str] = field(default_factory=dict)

    def add(self, test: str, outcome: str, message: str) -> None:
        self.outcomes[test] = outcome
        if outcome != PASSED:
            self.messages[test] = message

    def count(self, outcome: str) -> int:
        return list(self.outcomes.values()).count(outcome)


def read_junit(file: str, path: Path) -> FileResult:
    """The outcomes in a JUnit file that pytest wrote for one test file."""
    result = FileResult(file)
    for case in ElementTree.parse(path).getroot().iter("testcase"):
        names = [name for name in case.get("classname", "").split(".") if name]
        owner = names[-1:] if names and names[-1] != Path(file).stem else []
        test = "::".join([file, *owner, case.get("name", "")])
        outcome, message = PASSED, ""
        for child in case:
            if child.tag in ("failure", "error", "skipped"):
                outcome = SKIPPED if child.tag == "skipped" else FAILED
                message = (child.get("message") or child.text or "").strip()
        if result.outcomes.get(test) not in (FAILED, SKIPPED):
            result.add(test, outcome, message)
    return result


def problems(plan: Plan, results: list[FileResult]) -> list[str]:
    """Everything that is not as expected, one line each."""
    lines = []
    run = {result.file for result in results}
    seen = {test: outcome for result in results for test, outcome in result.outcomes.items()}
    messages = {test: text for result in results for test, text in result.messages.items()}
    for test, outcome in seen.items():
        expected = plan.not_passing.get(test)
        if expected is None and outcome != PASSED:
            first = messages[test].splitlines()[0] if messages[test] else "no message"
            lines.append(f"{test}: {outcome}, unexplained: {first}")
        elif expected is not None and outcome != expected.outcome:
            lines.append(f"{test}: {outcome}, but {expected.outcome} is expected: fix the table")
    for test in plan.not_passing:
        if test.split("::")[0] in run and test not in seen:
            lines.append(f"{test}: listed as not passing, but there is no such test")
    return lines


def page(plan: Plan, results: list[FileResult], versions: dict[str, str]) -> str:
    """docs/conformance.md."""
    known = ", ".join(f"{name} {version}" for name, version in versions.items())
    lines = [
        "# Conformance: torch_npu's own tests on softnpu",
        "",
        f"The files below are those of Ascend/pytorch, tag `{plan.release}`, unmodified, under",
        f"pytest, each in a process of its own, with {known}.",
        "This page is written by `tools/run_upstream.py --torch-npu CHECKOUT`; the reasons are in",
        "`tests/conformance/expected.yaml`.",
        "",
        f"| {plan.folder}/ | passed | failed | skipped | timed out |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for result in results:
        figures = " | ".join(str(result.count(outcome)) for outcome in OUTCOMES)
        lines.append(f"| {result.file} | {figures} |")
    totals = [sum(result.count(outcome) for result in results) for outcome in OUTCOMES]
    lines.append("| **all** | " + " | ".join(f"**{total}**" for total in totals) + " |")
    lines += _lifted(plan, results) + _reasons(plan, results)
    return "\n".join(lines) + "\n"


def _lifted(plan: Plan, results: list[FileResult]) -> list[str]:
    lifted = [r.file for r in results if r.file in plan.lift_skips]
    if not lifted:
        return []
    names = ", ".join(lifted)
    return [
        "",
        f"Upstream skips all of {names}, because the devices it is tested on lack the interfaces.",
        "Here that skip is lifted, without a change to the file.",
    ]


def _reasons(plan: Plan, results: list[FileResult]) -> list[str]:
    rows = []
    for result in results:
        for test, outcome in result.outcomes.items():
            if outcome == PASSED:
                continue
            expected = plan.not_passing.get(test)
            reason = expected.reason if expected else "**unexplained**"
            rows.append(f"| `{test}` | {outcome} | {reason} |")
    if not rows:
        return []
    return [
        "",
        "## What does not pass, and why",
        "",
        "| test | outcome | reason |",
        "| --- | --- | --- |",
        *rows,
    ]
