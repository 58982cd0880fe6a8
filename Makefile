# Two commands, each of which does all the set-up it needs: `make demo` and `make test`.
# Everything else is plain CMake: see CMakePresets.json.

JOBS ?= $(shell nproc)
# The longest that the tests themselves may take, as for timeout(1).
TEST_BUDGET ?= 40m

export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)
export CTEST_PARALLEL_LEVEL ?= $(JOBS)

.PHONY: demo test format setup
.NOTPARALLEL:

# Draws a sample model, tunes it, checks it, and ends with the table of choices.
demo: setup
	cmake --preset release
	cmake --build --preset release
	examples/demo.sh build/release/bin/sparsmith out/demo

# Builds everything and runs every test. Tests that need a GPU, or SPARSMITH_TEST_DATA, skip themselves without.
test: setup
	cmake --preset ci
	cmake --build --preset ci
	timeout --foreground $(TEST_BUDGET) ctest --preset ci

format: setup
	cmake/check_format.sh --fix

# Installs the Debian packages that are missing, and finds or fetches NVRTC and the CUDA headers.
setup:
	cmake/setup.sh
