#!/usr/bin/env python3
"""What environment_faults.sh runs: `tune` under faults of the machine, each followed by a run without.

usage: environment_faults.py PROGRAMS SCRATCH RUNS

Kinds: signals to the parent, to its terminal's group, to a child, to every child as it appears; full disks for output,
cache and temporary files (tmpfs where it may be mounted, else ENOSPC of fault_shim.cc); EIO of write, fsync and rename
at drawn moments; a compiler that does not run; a system compiler that fails.

After each: the program ends in time, with 0 or with 1 and a sentence; no process of it is left, and no folder of it
unless it was killed itself; the model is as it was; the cache is sound and has lost no finished measurement; a run that
says that all is well has chosen what an undisturbed run chooses. The next run without a fault, with the same cache,
ends with 0, writes the same tuned file byte by byte, and leaves no folder behind.
"""

import concurrent.futures
import errno
import hashlib
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import threading
import time

from fault_machine import (
    COMPILER,
    EMULATORS,
    MARK,
    Clean,
    children_of,
    command,
    finished_measurements,
    kill,
    mount_tmpfs,
    processes_of,
    rows,
    stacks,
)

PROGRAMS = pathlib.Path(sys.argv[1])
SCRATCH = pathlib.Path(sys.argv[2])
RUNS = int(sys.argv[3])
SEED = int(os.environ.get("SPARSMITH_TEST_SEED") or random.SystemRandom().randrange(1 << 31))
JOBS = int(os.environ.get("FAULT_JOBS", "2"))
HANG_SECONDS = float(os.environ.get("FAULT_SECONDS", "120"))
WANTED_KINDS = [kind for kind in os.environ.get("FAULT_KINDS", "").split(",") if kind]
KEEP = os.environ.get("FAULT_KEEP")
ONLY = os.environ.get("FAULT_ONLY")
SHIM = SCRATCH / "fault_shim.so"


class Failure(Exception):
    pass


class Run:
    """One faulted run, and the sound one behind it."""

    def __init__(self, place, number, clean):
        self.random = random.Random(f"{SEED} {number}")
        self.number = number
        self.clean = clean
        self.mark = f"{os.getpid()}-{place}"
        self.work = SCRATCH / f"run{place}"
        self.work.mkdir()
        shutil.copy2(clean.model, self.work / "model.safetensors")
        self.tmp = self.work / "tmp"
        self.tmp.mkdir()
        self.cache = self.work / "cache.db"
        self.output = self.work / "tuned.safetensors"
        self.programs = clean.programs
        self.extra = {}  # environment
        self.mounts = []
        self.log = ""
        self.reports = []
        self.ended = threading.Event()
        # Most runs have the kernels already, so that faults hit the other stages as often.
        self.warm = self.random.random() < 0.6
        if self.warm:
            shutil.copy2(clean.kernels, self.cache)
        self.seconds = clean.warm_seconds if self.warm else clean.cold_seconds

    def moment(self):
        return self.random.uniform(0, 1.1 * self.seconds)

    # Kinds. Each prepares the run, and may return what is done while it runs.

    def interrupt(self):
        number = self.random.choice([signal.SIGINT, signal.SIGTERM])
        to_group = self.random.random() < 0.5
        twice = self.random.random() < 0.1
        moment = self.moment()
        self.what = f"{number.name} {'to the group' if to_group else ''} {'twice' if twice else ''} at {moment:.2f} s"

        def act(parent):
            self.ended.wait(moment)
            for _ in range(2 if twice else 1):
                if to_group and parent.poll() is None:
                    os.killpg(parent.pid, number)
                else:
                    kill(parent.pid, number)
                self.ended.wait(0.05)

        return act

    def kill_parent(self):
        moment = self.moment()
        with_children = self.random.random() < 0.3
        self.what = f"SIGKILL to the parent {'and its children' if with_children else ''} at {moment:.2f} s"

        def act(parent):
            self.ended.wait(moment)
            others = children_of(self.mark, parent.pid) if with_children else {}
            kill(parent.pid, signal.SIGKILL)
            for pid in others:
                kill(pid, signal.SIGKILL)

        return act

    def kill_child(self):
        number = self.random.choice([signal.SIGKILL, signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
        moments = sorted(self.moment() for _ in range(self.random.choice([1, 1, 2, 3])))
        self.what = f"{number.name} to a child at {moments}"

        def act(parent):
            begin = time.monotonic()
            for moment in moments:
                self.ended.wait(max(0, begin + moment - time.monotonic()))
                others = sorted(children_of(self.mark, parent.pid))
                if others:
                    kill(self.random.choice(others), number)

        return act

    def kill_every_child(self):
        names = self.random.choice([[COMPILER], EMULATORS, [COMPILER, *EMULATORS]])
        moment = self.moment()
        self.what = f"SIGKILL to every {names} from {moment:.2f} s on"

        def act(parent):
            self.ended.wait(moment)
            while not self.ended.wait(0.01):
                for pid, name in children_of(self.mark, parent.pid).items():
                    if any(each.startswith(name) for each in names):
                        kill(pid, signal.SIGKILL)

        return act

    def full_disk(self):
        place = self.random.choice(["output", "cache", "tmp"])
        kilobytes = self.random.choice([4, 16, 64, 256, 1024])
        folder = self.work / "small"
        self.what = f"{kilobytes} KB for {place}"
        if mount_tmpfs(folder, f"{kilobytes}k"):
            self.mounts.append(folder)
        else:
            self.what += " (ENOSPC)"
            self.use_shim(str(folder), errno.ENOSPC, self.random.randrange(20), 0)
        if place == "output":
            self.output = folder / "tuned.safetensors"
        elif place == "tmp":
            self.tmp = folder
        else:
            if self.warm:
                try:
                    shutil.copy2(self.cache, folder / "cache.db")
                except OSError:
                    (folder / "cache.db").unlink(missing_ok=True)
            self.cache = folder / "cache.db"

    def full_tmp_of_a_system_compiler(self):
        self.programs = self.clean.system_programs
        self.full_disk()
        if "tmp" not in self.what:
            self.what += " (system compiler)"

    def io_error(self):
        part = self.random.choice(["cache.db", "cache.db-wal", "tuned.safetensors", "sparsmith-child", "/tmp/"])
        number = self.random.choice([errno.EIO, errno.ENOSPC])
        after = self.random.choice([0, self.random.randrange(10), self.random.randrange(100)])
        count = self.random.choice([0, 1, 3])
        self.what = f"{errno.errorcode[number]} for {part} from the {after}th call on, {count or 'all'} times"
        self.use_shim(part, number, after, count)

    def broken_compiler(self):
        self.programs, self.what = self.random.choice(self.clean.broken)
        if self.programs == self.clean.system_programs:
            self.extra["CXX"] = "/bin/false"

    def use_shim(self, part, number, after, count):
        self.extra.update(
            LD_PRELOAD=str(SHIM),
            FAULT_PATH=part,
            FAULT_ERRNO=str(number),
            FAULT_AFTER=str(after),
            FAULT_COUNT=str(count),
            FAULT_LOG=str(self.work / "shim.log"),
        )

    KINDS = {
        "interrupt": 5,
        "kill_parent": 4,
        "kill_child": 5,
        "kill_every_child": 2,
        "full_disk": 3,
        "full_tmp_of_a_system_compiler": 0.5,
        "io_error": 4,
        "broken_compiler": 1,
    }

    def start(self, programs, extra):
        environment = {**os.environ, MARK: self.mark, "TMPDIR": str(self.tmp), **extra}
        return subprocess.Popen(
            command(programs, self.cache, self.output),
            cwd=self.work,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def finish(self, parent, what):
        try:
            out, err = parent.communicate(timeout=HANG_SECONDS)
        except subprocess.TimeoutExpired:
            self.log += stacks(self.mark)
            for pid in processes_of(self.mark):
                kill(pid, signal.SIGKILL)
            out, err = parent.communicate()
            self.log += out + err
            raise Failure(f"{what} hangs: no end within {HANG_SECONDS:g} s") from None
        self.log += f"-- {what}: exit code {parent.returncode}\n{err}"
        self.reports.append(out)
        until = time.monotonic() + 10
        while processes_of(self.mark) and time.monotonic() < until:
            time.sleep(0.02)
        left = processes_of(self.mark)
        if left:
            raise Failure(f"{what} leaves processes: {left}")
        return out, err

    def leftovers(self):
        return [each.name for each in self.tmp.iterdir()] if self.tmp.exists() else []

    def check_faulted(self, parent, out, err):
        code = parent.returncode
        killed = code < 0
        if killed and self.kind not in ("interrupt", "kill_parent"):
            raise Failure(f"the parent died of signal {-code}")
        if not killed and code not in (0, 1):
            raise Failure(f"exit code {code}")
        report = json.loads(out) if code >= 0 and out.strip() else None
        if code == 1 and not ("error:" in err or "interrupted" in err or report is not None):
            raise Failure("exit code 1 without a sentence")
        if self.kind != "kill_parent" and not killed and self.leftovers():
            raise Failure(f"folders are left: {self.leftovers()}")
        if hashlib.sha256((self.work / "model.safetensors").read_bytes()).digest() != self.clean.model_hash:
            raise Failure("the model was changed")
        if code == 0 and report["complete"] and self.output.read_bytes() != self.clean.tuned:
            raise Failure("another choice, and no word of it")
        fired = (self.work / "shim.log").exists() and "cache.db" in (self.work / "shim.log").read_text()
        if code == 0 and fired and report["cache_writes_failed"]["count"] == 0:
            kept = rows(self.cache, "SELECT count(*) FROM choice")[0][0]
            if kept < report["counts"]["pairs"]:
                raise Failure("a choice is lost without a word")

    def cache_of_the_next(self):
        """The same cache, where there is room for it; nothing where the fault left none."""
        if self.cache.parent == self.work:
            return
        for suffix in ("", "-wal", "-shm"):
            source = pathlib.Path(str(self.cache) + suffix)
            if source.exists():
                shutil.copy2(source, self.work / ("cache.db" + suffix))
            else:
                (self.work / ("cache.db" + suffix)).unlink(missing_ok=True)
        self.cache = self.work / "cache.db"

    def execute(self):
        kinds = {kind: weight for kind, weight in self.KINDS.items() if kind in WANTED_KINDS or not WANTED_KINDS}
        self.kind = self.random.choices(list(kinds), list(kinds.values()))[0]
        self.what = ""
        try:
            act = getattr(self, self.kind)()
            parent = self.start(self.programs, self.extra)
            actor = threading.Thread(target=act, args=(parent,)) if act else None
            if actor:
                actor.start()
            try:
                out, err = self.finish(parent, "the faulted run")
            finally:
                self.ended.set()
                if actor:
                    actor.join()
            self.check_faulted(parent, out, err)
            self.cache_of_the_next()
            self.output = self.work / "again.safetensors"
            self.tmp = self.work / "tmp" if self.tmp == self.work / "small" else self.tmp
            known = set()
            if self.cache.exists() and self.cache.stat().st_size > 0:
                if rows(self.cache, "PRAGMA integrity_check") != [("ok",)]:
                    raise Failure("the cache is damaged")
                if rows(self.cache, "SELECT count(*) FROM sqlite_master WHERE name = 'measurement'") == [(1,)]:
                    known = finished_measurements(self.cache)
            again = self.start(self.clean.programs, {})
            self.finish(again, "the next run")
            if again.returncode != 0:
                raise Failure(f"the next run ends with {again.returncode}")
            if self.output.read_bytes() != self.clean.tuned:
                raise Failure("the next run chooses otherwise")
            if self.leftovers():
                raise Failure(f"after the next run folders are left: {self.leftovers()}")
            lost = known - finished_measurements(self.cache)
            if lost:
                raise Failure(f"measurements are lost: {lost}")
            return parent.returncode, None
        except Failure as failure:
            return None, str(failure)
        except Exception as error:  # noqa: BLE001  what a test does not expect fails it
            return None, repr(error)
        finally:
            for folder in self.mounts:
                subprocess.run(["umount", "-l", str(folder)], check=False)

    def keep(self):
        if KEEP:
            folder = pathlib.Path(KEEP, self.work.name)
            shutil.copytree(self.work, folder, ignore=shutil.ignore_patterns("tmp", "small"), dirs_exist_ok=True)
            (folder / "reports.json").write_text("\n".join(self.reports))
            (folder / "log").write_text(f"{self.kind}: {self.what}\n{self.log}")
            (folder / "undisturbed.safetensors").write_bytes(self.clean.tuned)


def main():
    print(f"SPARSMITH_TEST_SEED={SEED}", flush=True)
    clean = Clean(PROGRAMS, SCRATCH)
    print(
        f"an undisturbed run takes {clean.cold_seconds:.1f} s, with kernels in the cache {clean.warm_seconds:.1f} s",
        flush=True,
    )
    hogs = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(int(os.environ.get("FAULT_HOGS", "0")))
    ]
    begin = time.monotonic()
    failures = 0
    ends = {}

    def one(place):
        run = Run(place, int(ONLY) if ONLY else place, clean)
        code, failure = run.execute()
        if failure:
            run.keep()
        shutil.rmtree(run.work, ignore_errors=True)
        return run, code, failure

    with concurrent.futures.ThreadPoolExecutor(JOBS) as pool:
        for run, code, failure in pool.map(one, range(RUNS)):
            if failure:
                failures += 1
                print(f"FAILED: run {run.number}, {run.kind}: {run.what}: {failure}\n{run.log[-3000:]}", flush=True)
            else:
                end = "killed" if code < 0 else f"exit code {code}"
                ends.setdefault(run.kind, {}).setdefault(end, 0)
                ends[run.kind][end] += 1
            if (run.number + 1) % 50 == 0:
                print(f"{run.number + 1} runs, {failures} failed", flush=True)
    for hog in hogs:
        hog.kill()
    for kind, counts in sorted(ends.items()):
        print(f"{kind}: " + ", ".join(f"{count} x {end}" for end, count in sorted(counts.items())))
    print(f"{RUNS} runs in {time.monotonic() - begin:.0f} s, {failures} failed; SPARSMITH_TEST_SEED={SEED}")
    sys.exit(1 if failures else 0)


main()
