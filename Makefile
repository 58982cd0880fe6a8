# Two commands, each of which does all the set-up it needs: `make demo` and `make test`.
# Everything else is plain CMake: see CMakePresets.json.

JOBS ?= $(shell nproc)
# The longest that the tests themselves may take, as for timeout(1).
TEST_BUDGET ?= 50m

export CMAKE_BUILD_PARALLEL_LEVEL ?= $(JOBS)
export CTEST_PARALLEL_LEVEL ?= $(JOBS)

.PHONY: demo test wheel docs format
.NOTPARALLEL:

# Draws a sample model, tunes it, and checks it. Fails unless generated kernels were chosen and are correct.
demo:
	cmake/setup.sh build
	cmake --preset release
	cmake --build --preset release
	examples/demo.sh build/release/bin/sparsmith out/demo

# Builds everything and runs every test. Fails, too, where a test was skipped that tests/allowed_skips.txt does not list.
# What failed is printed last.
test:
	cmake/setup.sh test
	cmake/setup.sh torch
	cmake --preset ci
	cmake --build --preset ci
	rm -f build/ci/junit.xml
	ctest --preset ci --show-only=json-v1 >build/ci/tests.json
	timeout --foreground $(TEST_BUDGET) ctest --preset ci --output-junit junit.xml; code=$$?; \
	  tests/check_results.py build/ci/junit.xml build/ci/tests.json tests/allowed_skips.txt && exit $$code

# The Python package: dist/sparsmith-*.whl, for every Python since 3.10 and PyTorch since 2.7.
wheel:
	cmake/setup.sh build
	cmake/make_wheel.sh

# Builds the documentation site: build/docs/index.html, to be read without a network. Fails on a broken link or anchor.
docs:
	cmake/setup.sh docs
	NO_MKDOCS_2_WARNING=1 .deps/docs/bin/mkdocs build --strict

format:
	cmake/setup.sh test
	cmake/check_format.sh --fix
