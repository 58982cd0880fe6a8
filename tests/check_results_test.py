#!/usr/bin/env python3
"""Tests of check_results.py on runs that never were."""

import json
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parent / "check_results.py"
LIST = """# a comment
label gpu | .* | there is no GPU
unset DRAWN_DATA | Files\\.Real.*|Model\\.Real | the data are not there
always | Format\\.Each/(two|three) | by design
"""


def ran(name):
    return f'<testcase name="{name}" status="run"/>'


def failed(name, said):
    return (
        f'<testcase name="{name}" status="fail"><failure message="Failed"/><system-out>{said}</system-out></testcase>'
    )


def skipped(name, said=""):
    output = f"<system-out>x.cc:3: Skipped\n{said}\n</system-out>" if said else ""
    return f'<testcase name="{name}" status="notrun"><skipped message="SKIP_REGULAR_EXPRESSION_MATCHED"/>{output}</testcase>'


class CheckResultsTest(unittest.TestCase):
    def check(self, *cases, allowed=LIST, data=None, labels=None):
        """(exit code, what is printed)."""
        with tempfile.TemporaryDirectory() as folder:
            junit, tests, skips = (pathlib.Path(folder) / name for name in ("junit.xml", "tests.json", "skips.txt"))
            named = [
                {"name": name, "properties": [{"name": "TIMEOUT", "value": 9.0}, {"name": "LABELS", "value": value}]}
                for name, value in (labels or {}).items()
            ]
            tests.write_text(json.dumps({"kind": "ctestInfo", "tests": [*named, {"name": "A.b"}]}))
            junit.write_text(f'<?xml version="1.0"?><testsuite name="t">{"".join(cases)}</testsuite>')
            skips.write_text(allowed)
            environment = {key: value for key, value in os.environ.items() if key != "DRAWN_DATA"}
            if data:
                environment["DRAWN_DATA"] = data
            done = subprocess.run(
                [sys.executable, SCRIPT, junit, tests, skips],
                capture_output=True,
                text=True,
                check=False,
                env=environment,
            )
            return done.returncode, done.stdout + done.stderr

    def test_nothing_skipped(self):
        self.assertEqual(self.check(ran("A.b"))[0], 0)

    def test_a_skip_that_is_not_listed_fails_and_is_named_with_its_reason(self):
        code, text = self.check(ran("A.b"), skipped("Compile.All", said="no NVRTC"), skipped("Format.Each/four"))
        self.assertEqual(code, 1)
        self.assertIn("Compile.All is skipped: no NVRTC", text)
        self.assertIn("Format.Each/four is skipped", text)
        self.assertIn("2 tests are skipped", text)

    def test_a_listed_skip_passes(self):
        code, text = self.check(ran("A.b"), skipped("Format.Each/two"), skipped("Format.Each/three"))
        self.assertEqual(code, 0, text)
        self.assertIn("1 tests ran; 2 were skipped", text)

    def test_the_whole_name_must_match(self):
        self.assertEqual(self.check(ran("A.b"), skipped("Format.Each/two_more"))[0], 1)

    def test_a_label_allows_its_tests_alone(self):
        for labels, code in ((["gpu"], 0), (["slow", "gpu"], 0), (["gpus"], 1), ([], 1)):
            self.assertEqual(self.check(ran("A.b"), skipped("Gpu.Run"), labels={"Gpu.Run": labels})[0], code, labels)

    def test_data_that_are_there_must_be_used(self):
        self.assertEqual(self.check(ran("A.b"), skipped("Files.RealOnes"))[0], 0)
        self.assertEqual(self.check(ran("A.b"), skipped("Files.RealOnes"), data="/data")[0], 1)

    def test_a_disabled_test_is_a_skipped_one(self):
        self.assertEqual(self.check(ran("A.b"), '<testcase name="A.c" status="disabled"/>')[0], 1)

    def test_the_end_of_a_failed_tests_output_is_printed(self):
        code, text = self.check(ran("A.b"), failed("A.c", "first\n" + "more\n" * 50 + "seed 7: 2 is not 3"))
        self.assertEqual(code, 1)
        self.assertIn("A.c failed", text)
        self.assertIn("seed 7: 2 is not 3", text)
        self.assertNotIn("first", text)
        self.assertIn("1 of 2 tests failed", text)

    def test_a_run_that_was_stopped_fails(self):
        done = subprocess.run(
            [sys.executable, SCRIPT, "/nonexistent", "a", "b"], capture_output=True, text=True, check=False
        )
        self.assertEqual(done.returncode, 1)

    def test_a_run_of_nothing_fails(self):
        self.assertEqual(self.check()[0], 1)
        self.assertEqual(self.check(skipped("Format.Each/two"))[0], 1)

    def test_a_list_that_cannot_be_read_fails(self):
        for line in ("always | .*", "always | .* | ", "sometimes | .* | why not", "label | .* | which"):
            code, text = self.check(ran("A.b"), allowed=line + "\n")
            self.assertEqual(code, 1, line)
            self.assertIn("skips.txt:1", text)


if __name__ == "__main__":
    unittest.main()
