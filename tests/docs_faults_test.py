#!/usr/bin/env python3
"""docs_test.py sees the faults of pages. The program of its pages is a stand-in."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TEST = pathlib.Path(__file__).resolve().parent / "docs_test.py"
STAND_IN = """#!/bin/sh
case $1 in synth) touch "$3" ;; fail) echo "the reason"; exit 3 ;; esac
"""
GOOD = """# A page

- a list

      with text further in

<!-- file: folder/config.cmake -->
```cmake
set(x 1)
```

```sh
grep -q "x 1" folder/config.cmake
word=kept
```

```json
{"a": 1}
```

```python
import pathlib
```

```python
assert pathlib.Path("folder/config.cmake").exists()
```

<!-- file: program.py -->
```python
raise ValueError
```

```sh
test $word = kept
sparsmith show
```

<!-- not run: it fails -->
```sh
sparsmith fail
```

<!-- needs: no-such-program -->
```sh
sparsmith fail
```

```text
any   <text>
```
"""
FAULTS = [
    ("```sh\nsparsmith fail\n```\n", "page.md:1\nthe reason\n\nexit code 3"),
    ("```sh\ntrue\n```\n\n```sh\nfalse | true\n```\n", "page.md:5"),
    ("```sh\necho $no_such_variable\n```\n", "page.md:1"),
    ("```\ntrue\n```\n", 'page.md:1: no language ""'),
    ("text\n\n```basic\ntrue\n```\n", 'page.md:3: no language "basic"'),
    ("```cpp\nint x;\n```\n", "page.md:1: no `file: NAME`"),
    ("<!-- file: x.cc -->\n```cpp\nint x;\n```\n", "no block of sh uses them"),
    ("<!-- not run -->\n```sh\ntrue\n```\n", "page.md:2: `not run: ` is no mark"),
    ("<!-- compiles -->\n```cmake\nset(x 1)\n```\n", "page.md:2: cmake does not compile"),
    ('```json\n{"a": ...}\n```\n', "page.md:1: Expecting value"),
    ("```python\nif:\n```\n", "page.md:1: invalid syntax"),
    ("```python\nx = 1\n```\n\n```python\nassert x == 2, x\n```\n", "page.md:5\nTraceback"),
    ("text\n\n    sparsmith show\n", "page.md:3: an indented block"),
    ("```sh\ntrue\n", "page.md:1: a block without an end"),
]


class DocsTest(unittest.TestCase):
    def output(self, text: str, python: str = sys.executable) -> tuple[int, str]:
        with tempfile.TemporaryDirectory() as folder:
            bin_folder = pathlib.Path(folder) / "bin"
            bin_folder.mkdir()
            (bin_folder / "sparsmith").write_text(STAND_IN)
            (bin_folder / "sparsmith").chmod(0o755)
            page = pathlib.Path(folder) / "page.md"
            page.write_text(text)
            command = [sys.executable, "-B", str(TEST), str(bin_folder), str(page)]
            environment = os.environ | {"DOCS_TEST_PYTHON": python}
            done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
            return done.returncode, done.stdout + done.stderr

    def test_a_good_page_passes(self) -> None:
        code, output = self.output(GOOD)
        self.assertEqual(code, 0, output)
        self.assertIn("2 blocks of sh and 2 of python ran; 1 blocks are marked as not run", output)

    def test_blocks_that_cannot_run_are_counted(self) -> None:
        code, output = self.output("```python\nraise ValueError\n```\n", "/missing/python")
        self.assertEqual(code, 0, output)
        self.assertIn("1 blocks of python did not run: there is no PyTorch", output)

    def test_each_fault_is_named_with_its_place(self) -> None:
        for text, message in FAULTS:
            with self.subTest(text):
                code, output = self.output(text)
                self.assertEqual(code, 1, output)
                self.assertIn(f"FAILED: {message}" if message.startswith("page") else message, output)


if __name__ == "__main__":
    unittest.main()
