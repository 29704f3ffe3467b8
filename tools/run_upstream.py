"""Runs torch_npu's own graph tests on softnpu and writes docs/conformance.md.

    .venv/bin/python tools/run_upstream.py --torch-npu CHECKOUT [--files NAME…] [--compare]

CHECKOUT is Ascend/pytorch at the tag that tests/conformance/expected.yaml names. Nothing in it is
changed, and nothing of it is needed but its test files. Exit code 1: a test that is not listed in
that table did not pass, a listed one did, or with --compare a figure differs from the page.
"""

import argparse
import os
import signal
import subprocess
import sys
import tempfile
from importlib.metadata import version
from pathlib import Path

from upstream_report import FAILED, TIMED_OUT, FileResult, Plan, page, problems, read_junit

REPOSITORY = Path(__file__).resolve().parent.parent
TABLE = REPOSITORY / "tests" / "conformance" / "expected.yaml"
PAGE = REPOSITORY / "docs" / "conformance.md"


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--torch-npu", type=Path, required=True, help="checkout of Ascend/pytorch")
    parser.add_argument("--files", nargs="+", help="only these files; the page is not written")
    parser.add_argument("--compare", action="store_true", help="compare with the page")
    parser.add_argument("--timeout", type=int, default=900, help="seconds for one file (900)")
    parser.add_argument("--log-dir", type=Path, help="keep pytest's output of each file here")
    return parser.parse_args()


def environment() -> dict[str, str]:
    """This one, with softnpu's sources and the plugin; nothing is written into the checkout."""
    paths = [str(REPOSITORY / "src"), str(REPOSITORY / "tools"), os.environ.get("PYTHONPATH", "")]
    return {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(path for path in paths if path),
        "PYTHONDONTWRITEBYTECODE": "1",
    }


def command(plan: Plan, test_file: Path, junit: Path) -> list[str]:
    line = [sys.executable, "-m", "softnpu", "run", "--tilelang", "adapter", "-m", "pytest", "-v"]
    line += ["-p", "no:cacheprovider", "--tb=short", f"--junitxml={junit}"]
    lifted = plan.lift_skips.get(test_file.name)
    if lifted:
        line += ["-p", "lift_skip", "--lift-skip", lifted]
    return [*line, test_file.name]


def run_file(plan: Plan, test_file: Path, timeout: int, logs: Path) -> FileResult:
    """Runs one file in its own process group and folder, as upstream's runner does."""
    junit = logs / (test_file.stem + ".xml")
    log = logs / (test_file.stem + ".log")
    with log.open("wb") as output:
        process = subprocess.Popen(
            command(plan, test_file, junit),
            cwd=test_file.parent,
            env=environment(),
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            return unfinished(test_file.name, log, TIMED_OUT, f"no end after {timeout} s")
    if not junit.exists():
        return unfinished(test_file.name, log, FAILED, f"pytest ended with exit code {code}")
    result = read_junit(test_file.name, junit)
    if not result.outcomes:
        return unfinished(test_file.name, log, FAILED, f"no test ran, exit code {code}")
    if code < 0 or code > 1:
        result.add(f"{test_file.name}::(process)", FAILED, f"exit code {code}")
    return result


def unfinished(name: str, log: Path, outcome: str, why: str) -> FileResult:
    """A file without a report: what ended is in the log, the test under way has the outcome."""
    result = FileResult(name)
    current = f"{name}::(collection)"
    for line in log.read_text(encoding="utf-8", errors="replace").splitlines():
        if not line.startswith(name + "::"):
            continue
        current, _, rest = line.partition(" ")
        for word in ("PASSED", "FAILED", "SKIPPED"):
            if rest.startswith(word):
                result.add(current, word.lower(), why)
                current = f"{name}::(after the last test)"
    result.add(current, outcome, why)
    return result


def figures(text: str) -> list[str]:
    """The rows of a page that hold outcomes."""
    return [line for line in text.splitlines() if line.startswith("|")]


def main() -> int:
    arguments = parse()
    plan = Plan.load(TABLE)
    folder = arguments.torch_npu.resolve() / plan.folder
    names = arguments.files or plan.files
    missing = [name for name in names if not (folder / name).is_file()]
    if missing:
        print(f"{folder} has no {', '.join(missing)}: is it {plan.release}?", file=sys.stderr)
        return 2
    results = []
    with tempfile.TemporaryDirectory() as temporary:
        logs = arguments.log_dir.resolve() if arguments.log_dir else Path(temporary)
        logs.mkdir(parents=True, exist_ok=True)
        for name in names:
            result = run_file(plan, folder / name, arguments.timeout, logs)
            results.append(result)
            counts = {o: n for o in set(result.outcomes.values()) if (n := result.count(o))}
            print(f"{name}: {', '.join(f'{n} {o}' for o, n in sorted(counts.items()))}", flush=True)
    wrong = problems(plan, results)
    text = page(plan, results, {name: version(name) for name in ("torch", "torch_npu")})
    if arguments.compare:
        committed = figures(PAGE.read_text(encoding="utf-8")) if PAGE.exists() else []
        if arguments.files:
            committed = [row for row in committed if any(name in row for name in names)]
            new = [row for row in figures(text) if any(name in row for name in names)]
        else:
            new = figures(text)
        wrong += [f"not on the page: {row}" for row in new if row not in committed]
        wrong += [f"no longer so: {row}" for row in committed if row not in new]
    elif not arguments.files:
        PAGE.write_text(text, encoding="utf-8")
    for line in wrong:
        print(line, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
