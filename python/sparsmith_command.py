#!python
"""The command `sparsmith` of the wheel: starts the program inside of the package, without importing PyTorch."""

import importlib.util
import os
import sys

spec = importlib.util.find_spec("sparsmith")
if spec is None or not spec.submodule_search_locations:
    sys.exit("the Python package sparsmith is not installed beside this command")
program = os.path.join(spec.submodule_search_locations[0], "bin", "sparsmith")
os.execv(program, [program, *sys.argv[1:]])
