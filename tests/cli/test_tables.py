"""`softnpu functions` and `softnpu ops` print the tables that the libraries are built from."""

import json

import pytest

from softnpu import acltable, optable
from softnpu.cli.render import plain
from tests.cli.conftest import assert_one_line_error


def test_functions_have_a_line_each(softnpu):
    done = softnpu("functions")
    assert done.returncode == 0, done.stderr
    header, *lines = done.stdout.splitlines()
    assert header.split() == ["name", "level", "capture", "library", "note"]
    assert [line.split()[0] for line in lines] == [row.name for row in acltable.load()]


def test_ops_as_json(softnpu):
    rows = json.loads(softnpu("ops", "--format", "json").stdout)
    assert [row["name"] for row in rows] == [row.acl for row in optable.load()]
    add = next(row for row in rows if row["name"] == "aclnnAdd")
    assert add["level"] == "implemented"
    assert "add" in add["computed"]
    assert add["signature"].startswith("aclnnAdd(T self")


def test_markdown(softnpu):
    lines = softnpu("ops", "aclnnAdd", "--format", "md").stdout.splitlines()
    assert lines[0].startswith("| name | level |")
    assert all(line.count("|") - line.count("\\|") == lines[0].count("|") for line in lines)


def test_a_pattern_and_a_level_filter(softnpu):
    done = softnpu("functions", "aclrt*Stream", "--level", "implemented", "--format", "json")
    rows = json.loads(done.stdout)
    assert rows
    assert all(row["name"].startswith("aclrt") for row in rows)
    assert {row["level"] for row in rows} == {"implemented"}


@pytest.mark.parametrize(
    ("arguments", "exit_code", "word"),
    [
        (["ops", "aclnnNoSuchOperator"], 1, "aclnnNoSuchOperator"),
        (["functions", "--level", "perfect"], 2, "perfect"),
    ],
)
def test_nothing_to_show(softnpu, arguments, exit_code, word):
    assert_one_line_error(softnpu(*arguments), exit_code, word)


def test_plain_columns_are_aligned():
    rows = [{"a": "x", "b": "long", "c": ""}, {"a": "yyy", "b": "", "c": "end"}]
    assert plain(["a", "b", "c"], rows) == "a    b     c\nx    long\nyyy        end"
