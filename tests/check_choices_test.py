#!/usr/bin/env python3
"""Tests of examples/check_choices.py, by which `make demo` fails, with a program that answers as sparsmith does."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).parent.parent / "examples/check_choices.py"
PROGRAM = """#!/usr/bin/env python3
import json, pathlib, sys
answer = json.loads((pathlib.Path(__file__).parent / (sys.argv[1] + ".json")).read_text())
print(json.dumps(answer) if answer else "")
"""
DENSE = {"tokens": 1, "config": "dense"}
GENERATED = {"tokens": 16, "config": "rows v4"}
CORRECT = {"ok": True, "reason": "", "max_error_over_bound": 0.25}


class CheckChoicesTest(unittest.TestCase):
    def check(self, choices, result=None):
        """(exit code, what is printed) for a tuned file of one weight."""
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            program = folder / "sparsmith"
            program.write_text(PROGRAM)
            program.chmod(0o755)
            (folder / "show.json").write_text(json.dumps({"weights": [{"name": "a.weight", "operators": {"spmm": {"choices": choices}}}]}))
            (folder / "run.json").write_text(json.dumps(result))
            command = [sys.executable, SCRIPT, program, "model.tuned.safetensors", "emulator"]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr

    def test_generated_and_correct(self):
        code, text = self.check([DENSE, GENERATED], CORRECT)
        self.assertEqual(code, 0, text)
        self.assertIn("1 of 2 choices are generated kernels", text)

    def test_nothing_but_dense_fails(self):
        code, text = self.check([DENSE, DENSE], CORRECT)
        self.assertEqual(code, 1)
        self.assertIn("all 2 choices are dense, no generated kernel was chosen", text)

    def test_a_kernel_that_is_wrong_fails(self):
        code, text = self.check([GENERATED], CORRECT | {"ok": False, "reason": "largest error 3"})
        self.assertEqual(code, 1)
        self.assertIn("a.weight at N = 16, rows v4: not verified: largest error 3", text)

    def test_no_answer_fails(self):
        code, text = self.check([GENERATED])
        self.assertEqual(code, 1)
        self.assertIn("no result", text)


if __name__ == "__main__":
    unittest.main()
