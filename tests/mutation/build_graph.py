"""Which tests cover a file, from the build's own dependency data."""

import dataclasses
import functools
import os
import pathlib
import re
import subprocess

from .draw import ROOMS

# Tests that need a GPU (all are in tests/), install the build, or check the emulator with mutants of their own.
NOT_RUN = re.compile(
    r"^tests/gpu_|kernel_mutants_test|install_tree|browser|tune_kill|header_check|draw_packed_seeds|plants"
)


@dataclasses.dataclass
class Test:
    name: str
    command: list[str]
    targets: list[str]  # what ninja builds before the test runs
    room: str
    source: str = ""  # x_test.cc, relative to the root
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    focus: str = ""  # the family whose cases run, where other families have some too

    @property
    def is_gtest(self) -> bool:
        return self.source.endswith("_test.cc")


def tokens(line: str) -> list[str]:
    return [re.sub(r"\$(.)", r"\1", word) for word in re.split(r"(?<!\$) +", line.strip()) if word]


class BuildGraph:
    def __init__(self, root: pathlib.Path, build: pathlib.Path):
        self.root, self.build = root, build
        self.inputs: dict[str, set[str]] = {}  # of an output: the files it is made of, and the programs it runs
        self.read_manifest()
        self.read_header_dependencies()
        self.tests = self.read_tests()

    def relative(self, path: str) -> str:
        path = os.path.normpath(os.path.join(self.build, path))
        return os.path.relpath(path, self.root) if path.startswith(f"{self.root}/") else path

    def read_manifest(self) -> None:
        for line in (self.build / "build.ninja").read_text().splitlines():
            if not line.startswith("build "):
                continue
            head, _, tail = line[len("build ") :].partition(": ")
            rule, *rest = tokens(tail)
            if rule == "phony" and "cmake_object_order" in head:
                continue
            ordered = rest.index("||") if "||" in rest else len(rest)
            made_of = {word for word in rest[:ordered] if word != "|"}
            made_of |= {word for word in rest[ordered + 1 :] if word.startswith("bin/")}  # add_dependencies
            for output in tokens(head):
                if output != "|" and not output.startswith("${"):
                    self.inputs.setdefault(self.relative(output), set()).update(map(self.relative, made_of))

    def read_header_dependencies(self) -> None:
        """Only what was built once has any."""
        listing = subprocess.run(["ninja", "-C", str(self.build), "-t", "deps"], capture_output=True, text=True)
        output = ""
        for line in listing.stdout.splitlines():
            if line.startswith("    "):
                self.inputs.setdefault(output, set()).add(self.relative(line.strip()))
            elif ": #deps" in line:
                output = self.relative(line.split(": #deps")[0])

    @functools.cache
    def covers(self, target: str) -> set[str]:
        """All that the target is made of."""
        found, waiting = set(), [target]
        while waiting:
            for name in self.inputs.get(waiting.pop(), ()):
                if name not in found:
                    found.add(name)
                    waiting.append(name)
        return found

    def read_tests(self) -> list[Test]:
        tests = []
        programs = [name for name in self.inputs if re.search(r"/bin/(sparsmith(-\w+)*|snippetc)$", name)]
        for output in sorted(self.inputs):
            name = os.path.basename(output)
            sources = [each for each in self.covers_directly(output) if each.endswith(f"{stem_of(name)}.cc")]
            if "/bin/" in output and re.search(r"_test(_system|_jit)?$", name) and sources:
                command = [str(self.root / output)]
                tests.append(Test(name, command, [self.in_build(output)], sources[0].split("/")[0], sources[0]))
        for name, command, environment in self.read_scripts():
            known = [self.relative(word) for word in command]
            needed = [word for word in known if word in self.inputs]
            if any(word.rstrip("/") == f"{self.relative('bin')}" for word in known):
                needed += programs
            room = next((part for part in known[0].split("/") if part in ROOMS), "tests")
            tests.append(Test(name, command, [self.in_build(each) for each in needed], room, "", environment))
        return [test for test in tests if not NOT_RUN.search(f"{test.room}/{test.name}")]

    def covers_directly(self, program: str) -> set[str]:
        return {source for each in self.inputs[program] if each.endswith(".o") for source in self.inputs.get(each, ())}

    def in_build(self, name: str) -> str:
        return os.path.relpath(self.root / name, self.build)

    def read_scripts(self) -> list[tuple[str, list[str], dict[str, str]]]:
        """Tests that CMake names in full: scripts, and fuzz targets on their seeds."""
        found = []
        for file in self.build.rglob("CTestTestfile.cmake"):
            text = file.read_text()
            for match in re.finditer(r'^add_test\(\[=\[(.*?)\]=\] (".*")\)$', text, re.MULTILINE):
                command = re.findall(r'"([^"]*)"', match.group(2))
                name = re.escape(match.group(1))
                properties = re.search(rf"\[=\[{name}\]=\] PROPERTIES .*ENVIRONMENT \"(.*?)\"", text)
                pairs = [pair.split("=", 1) for pair in properties.group(1).split(";")] if properties else []
                found.append((match.group(1), command, dict(pairs)))
        return found

    def tests_of(self, file: str, durations: dict[str, float]) -> list[Test]:
        """The tests that cover the file: its own first, then those of its room, then those of later rooms; quick ones
        before long ones."""
        stem, room = re.sub(r"\.\w+$", "", file), file.split("/")[0]
        header = f"{stem}.h"

        def distance(test: Test) -> tuple[int, int, float, str]:
            if test.source == f"{stem}_test.cc":
                rank = 0
            elif test.room == room:
                rank = 1 if header in self.includes(test) else 2
            else:
                rank = 3 if header in self.includes(test) else 4
            order = ROOMS.index(test.room) if test.room in ROOMS else len(ROOMS)
            return rank, order, durations.get(test.name, 0), test.name

        objects = tuple(sorted(each for each in self.inputs if each.endswith(".o") and file in self.covers(each)))

        def is_covering(test: Test) -> bool:
            return any(self.links(self.relative(target), objects) for target in test.targets)

        return sorted(filter(is_covering, self.tests), key=distance)

    def links(self, program: str, objects: tuple[str, ...]) -> bool:
        """Whether any of the objects is part of the program: of a library only those are that something needs."""
        candidates = self.covers(program).intersection(objects)
        if not candidates or not (self.root / program).exists():
            return bool(candidates)
        return any(not (needed := self.symbols(each)) or needed & self.symbols(program) for each in candidates)

    @functools.cache
    def symbols(self, file: str) -> frozenset[str]:
        """Those that it defines for others."""
        listing = subprocess.run(["nm", "--defined-only", str(self.root / file)], capture_output=True, text=True).stdout
        words = (line.split() for line in listing.splitlines())
        return frozenset(word[2] for word in words if len(word) == 3 and word[1] in "TtBDR")

    def includes(self, test: Test) -> set[str]:
        if not test.is_gtest:
            return set()
        return self.covers_directly(self.relative(test.targets[0]))


def stem_of(program: str) -> str:
    return re.sub(r"_(system|jit)$", "", program)
