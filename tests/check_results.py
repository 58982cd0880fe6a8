#!/usr/bin/env python3
"""Says which tests of a run failed, and whether every skipped test may be skipped.

usage: check_results.py JUNIT_FILE TESTS_FILE ALLOWED_SKIPS

JUNIT_FILE is written by `ctest --output-junit`, TESTS_FILE by `ctest --show-only=json-v1`. The head of ALLOWED_SKIPS
describes its lines. Exit code 1 when a test failed (its last lines are printed), when one was skipped that no line
allows, or when no test ran.
"""

import json
import os
import pathlib
import re
import sys
from xml.etree import ElementTree


class Allowed:
    """One line of the list."""

    def __init__(self, line, place):
        # The pattern itself may hold |: the first and the last part are plain.
        parts = line.split(" | ")
        if len(parts) < 3:
            sys.exit(f"{place}: expected `when | tests | reason`, found: {line}")
        self.when, self.reason = parts[0].strip(), parts[-1].strip()
        self.tests = re.compile(" | ".join(parts[1:-1]).strip())
        if not self.reason:
            sys.exit(f"{place}: no reason is given")
        if self.when != "always" and not re.fullmatch(r"(label|unset) \S+", self.when):
            sys.exit(f"{place}: unknown condition: {self.when}")

    def covers(self, name, labels):
        kind, _, subject = self.when.partition(" ")
        if kind == "label" and subject not in labels:
            return False
        if kind == "unset" and os.environ.get(subject):
            return False
        return self.tests.fullmatch(name) is not None


def read_allowed(path):
    lines = pathlib.Path(path).read_text(encoding="utf-8").splitlines()
    return [
        Allowed(line, f"{path}:{number}")
        for number, line in enumerate(lines, 1)
        if line.strip() and not line.startswith("#")
    ]


def read_labels(path):
    """The labels of each test by its name."""
    labels = {}
    for test in json.loads(pathlib.Path(path).read_text(encoding="utf-8"))["tests"]:
        for each in test.get("properties", []):
            if each["name"] == "LABELS":
                labels[test["name"]] = each["value"]
    return labels


def last_lines(case, count=40):
    """The end of a test's output."""
    output = (case.findtext("system-out") or "").splitlines()
    return "\n".join(f"  {line}" for line in output[-count:])


def message_of(case):
    """The first line in which the test says why."""
    skipped = case.find("skipped")
    output = case.findtext("system-out") or ""
    said = re.search(r"Skipped\n(.*)|^(SKIPPED: .*)", output, re.MULTILINE)
    if said:
        return (said[1] or said[2]).strip()
    return skipped.get("message", "") if skipped is not None else ""


def main():
    junit, tests, allowed_path = sys.argv[1:]
    allowed = read_allowed(allowed_path)
    if not pathlib.Path(junit).exists():
        sys.exit(f"check_results: {junit} is missing: the run of tests was stopped")
    cases = list(ElementTree.parse(junit).iter("testcase"))
    skipped = [
        case for case in cases if case.get("status") in ("notrun", "disabled") or case.find("skipped") is not None
    ]
    if len(skipped) == len(cases):
        sys.exit(f"check_results: {junit}: no test ran")
    failed = [case for case in cases if case.get("status") == "fail"]
    for case in failed:
        print(f"check_results: {case.get('name')} failed:\n{last_lines(case)}", file=sys.stderr)
    labels = read_labels(tests)
    wrong = [
        case
        for case in skipped
        if not any(each.covers(case.get("name"), labels.get(case.get("name"), [])) for each in allowed)
    ]
    for case in wrong:
        print(f"check_results: {case.get('name')} is skipped: {message_of(case)}", file=sys.stderr)
    if wrong:
        sys.exit(f"check_results: {len(wrong)} tests are skipped that {allowed_path} does not allow")
    if failed:
        sys.exit(f"check_results: {len(failed)} of {len(cases)} tests failed")
    print(
        f"check_results: {len(cases) - len(skipped)} tests ran; {len(skipped)} were skipped, as {allowed_path} allows"
    )


if __name__ == "__main__":
    main()
