"""Applies a mutant in a tree of its own, builds the tests that cover it and runs them until one fails."""

import dataclasses
import fcntl
import json
import os
import pathlib
import re
import resource
import shutil
import signal
import subprocess
import time

from .build_graph import BuildGraph, Test
from .operators import Mutant

MEMORY_LIMIT = 4096 << 30  # address space of one process: each emulator in it reserves 80 GiB and uses little of it
LEAST_LIMIT_S = 20  # of a test, and so often what it takes without a mutant:
TIMES_SLOWER = 5
SLOWER_MACHINE = 4
BATCH = 4  # tests built by one call of ninja
# Compares hashes of the sources with checked-in ones: whatever a mutant does, it fails.
COMPARES_SOURCES = "Catalogue.StatementsAreThoseOfTheHeaders"


@dataclasses.dataclass
class Limits:
    near: bool  # only the tests of the file's own room
    budget_s: float  # after which no further test of another room is begun
    jobs: int  # of ninja


Outcome = tuple[int | None, str]  # the exit status, None after the time limit; and the end of the output


def limit_memory() -> None:
    """Of a test and its children, which are the first that a machine without memory does without."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    pathlib.Path("/proc/self/oom_score_adj").write_text("1000")


def run(command: list[str], folder: pathlib.Path, limit_s: float, environment: dict[str, str]) -> Outcome:
    """Leaves no process behind."""
    child = subprocess.Popen(
        command,
        cwd=folder,
        env=os.environ | environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
        preexec_fn=limit_memory,
    )
    try:
        output, _ = child.communicate(timeout=limit_s)
        return child.returncode, output[-4000:]
    except subprocess.TimeoutExpired:
        return None, ""
    finally:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()


class Tree:
    """A worktree of its own with its build."""

    def __init__(self, root: pathlib.Path, folder: pathlib.Path, preset: str, commit: str, jobs: int):
        self.root, self.folder, self.jobs = folder.resolve(), folder, jobs
        self.build = self.root / "build" / preset
        self.environment = {"CCACHE_BASEDIR": str(self.root), "CCACHE_NOHASHDIR": "1"}
        folder.parent.mkdir(parents=True, exist_ok=True)
        self.lock = folder.with_suffix(".lock").open("w")
        try:
            fcntl.flock(self.lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"{folder} is in use by another run; give --scratch another folder") from None
        git = ["git", "-C", str(root)]
        if not (folder / ".git").exists():
            shutil.rmtree(folder, ignore_errors=True)
            subprocess.run([*git, "worktree", "prune"], check=True)
            subprocess.run([*git, "worktree", "add", "--quiet", "--detach", str(folder), commit], check=True)
        subprocess.run(["git", "-C", str(folder), "checkout", "--quiet", "--force", "--detach", commit], check=True)
        if (root / ".deps").exists() and not (folder / ".deps").exists():
            (folder / ".deps").symlink_to((root / ".deps").resolve())
        subprocess.run(
            ["cmake", "--preset", preset], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        self.families = [file.name.removesuffix("_family.cc") for file in (self.root / "generator").glob("*_family.cc")]
        self.durations_file = self.build / "test_durations.json"
        self.durations = json.loads(self.durations_file.read_text()) if self.durations_file.exists() else {}

    def ninja(self, targets: list[str], limit_s: float = 3600, writes_cache: bool = False) -> Outcome:
        cache = {} if writes_cache else {"CCACHE_READONLY": "1"}
        jobs = (os.cpu_count() or 1) if writes_cache else self.jobs  # trees are prepared one after the other
        command = ["ninja", "-C", str(self.build), f"-j{jobs}", *targets]
        return run(command, self.root, limit_s, self.environment | cache)

    def prepare(self, rooms: list[str]) -> BuildGraph:
        """Builds the rooms' own tests. What includes which header is known of what was built."""
        graph = BuildGraph(self.root, self.build)
        tests = [test for test in graph.tests if test.room in rooms or test.room == "tests" and "snippets" in rooms]
        targets = sorted({target for test in tests for target in test.targets})
        print(f"building {len(tests)} tests of {', '.join(rooms)}", flush=True)
        status, output = self.ninja([*targets, "draw_packed_seeds"], writes_cache=True)
        if status != 0:
            raise RuntimeError(f"the tree does not build without a mutant:\n{output}")
        run([f"{self.build}/bin/draw_packed_seeds", f"{self.build}/tests/fuzz/seeds"], self.build, 300, {})
        return BuildGraph(self.root, self.build)

    def run_test(self, test: Test, limit_s: float) -> Outcome:
        others = [f"*/{family}*" for family in self.families if test.focus and family != test.focus]
        filter_option = f"--gtest_filter=*-{':'.join([COMPARES_SOURCES, *others])}"
        options = ["--gtest_fail_fast", "--gtest_brief=1", filter_option] if test.is_gtest else []
        return run(test.command + options, self.build, limit_s, test.environment)

    def focus(self, test: Test, mutant: Mutant) -> str:
        """Of a test that has cases by family, only those of the mutant's family run, and those of none."""
        word = re.split(r"[_.]", mutant.file.split("/")[-1])[0]
        family = next((each for each in self.families if each.startswith(word)), "")
        if not family or not test.is_gtest or not pathlib.Path(test.command[0]).exists():
            return ""
        _, listing = run([*test.command, f"--gtest_filter=*/{family}*", "--gtest_list_tests"], self.build, 60, {})
        return family if re.search(r"^  \S", listing, re.MULTILINE) else ""

    def measured(self, tests: list[Test], mutant: Mutant, budget_s: float) -> list[Test]:
        """Those that pass without a mutant, after each has run so once; as many as the budget has time for. Tests with
        cases of the mutant's family, which tell most, come first."""
        useful: list[Test] = []
        spent = 0.0
        focused = [dataclasses.replace(test, focus=self.focus(test, mutant)) for test in tests]
        for test in sorted(focused, key=lambda test: (not test.focus, not runs_device_code(test, mutant))):
            if spent > budget_s:
                break
            duration = self.duration(test)
            if duration < 0 or (duration > budget_s and not is_near(test, mutant)):
                continue
            useful.append(test)
            if not runs_device_code(test, mutant):  # whatever it takes: it ends at the first wrong kernel
                spent += duration
        return useful

    def duration(self, test: Test) -> float:
        """Seconds of the test without a mutant: -1 where it fails so, and tells nothing."""
        name = f"{test.name} {test.focus}".strip()
        if name not in self.durations:
            status, output = self.ninja(test.targets, writes_cache=True)
            if status != 0:
                raise RuntimeError(f"{test.name} does not build without a mutant:\n{output}")
            begin = time.monotonic()
            status, output = self.run_test(test, 1800)
            self.durations[name] = round(time.monotonic() - begin, 2) if status == 0 else -1
            if status != 0:
                print(f"{name} fails without a mutant and is left out:\n{output[-1500:]}", flush=True)
            self.durations_file.write_text(json.dumps(self.durations, indent=0))
        return self.durations[name]


def is_near(test: Test, mutant: Mutant) -> bool:
    """Whether the test is of the file's own room. Device code is tested where kernels run."""
    return test.room == ("tests" if mutant.room == "snippets" else mutant.room)


def runs_device_code(test: Test, mutant: Mutant) -> bool:
    """Whether it is the test that runs every kernel, and so what no family has for itself."""
    return mutant.room == "snippets" and test.name == "emulated_kernels_test"


def first_failure(tree: Tree, tests: list[Test], mutant: Mutant, end: float, record: dict) -> None:
    """Builds and runs the tests in batches, with the mutant in the tree, and completes the record at a failure."""
    for first in range(0, len(tests), BATCH):
        batch = tests[first : first + BATCH]
        if time.monotonic() > end:
            return
        status, output = tree.ninja(sorted({target for test in batch for target in test.targets}))
        if status != 0:
            error = re.search(r"error: .*", output)
            record |= {"outcome": "does not compile", "error": error.group() if error else output[-300:]}
            return
        for test in batch:
            limit = max(LEAST_LIMIT_S, TIMES_SLOWER * tree.duration(test))
            status, output = tree.run_test(test, limit)
            if status is None:  # a machine that does other work is no timeout
                status, output = tree.run_test(test, SLOWER_MACHINE * limit)
            record["tests"].append(test.name)
            if status != 0:
                case = re.search(r"\[  FAILED  \] (\S+?)[,\n ]", output)
                record |= {"outcome": "timeout" if status is None else "killed", "by": test.name}
                record |= {"case": case.group(1)} if case else {}
                return


def try_mutant(tree: Tree, graph: BuildGraph, mutant: Mutant, limits: Limits) -> dict:
    """The outcome of the mutant, as a record of the result file."""
    source = tree.root / mutant.file
    original = source.read_text()
    lines = original.split("\n")
    if lines[mutant.line] != mutant.before:
        return {"outcome": "gone"}
    lines[mutant.line] = mutant.after
    record = {"outcome": "survived", "near": limits.near, "tests": []}
    tests = graph.tests_of(mutant.file, tree.durations)
    near = [test for test in tests if is_near(test, mutant)]
    far = [test for test in tests if not is_near(test, mutant)]
    seconds = 0.0
    for stage, limit in ((near, float("inf")), ([] if limits.near else far, limits.budget_s)):
        useful = tree.measured(stage, mutant, limits.budget_s)
        covering = {test.name for test in graph.tests_of(mutant.file, tree.durations)}  # now that they are built
        useful = [test for test in useful if test.name in covering]
        begin = time.monotonic()
        source.write_text("\n".join(lines))
        try:
            if record["outcome"] == "survived":
                first_failure(tree, useful, mutant, begin + limit, record)
        finally:
            source.write_text(original)
        seconds += time.monotonic() - begin
        if record["outcome"] != "survived":
            break
    return record | {"seconds": round(seconds, 1)}
