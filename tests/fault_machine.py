"""What environment_faults.py needs of the machine: processes, small disks, caches; and the run without a fault."""

import hashlib
import os
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import time

MARK = "SPARSMITH_FAULT_RUN"  # in the environment of all processes of a run

PARENT = "sparsmith"
COMPILER = "sparsmith-compiler"
EMULATORS = ["sparsmith-emulator-jit", "sparsmith-emulator"]


def processes_of(mark):
    """Of a run, by the mark in their environment: {pid: name}."""
    found = {}
    wanted = f"{MARK}={mark}".encode()
    for entry in os.scandir("/proc"):
        if not entry.name.isdigit():
            continue
        try:
            if wanted not in pathlib.Path(entry.path, "environ").read_bytes().split(b"\0"):
                continue
            state = pathlib.Path(entry.path, "stat").read_text().rsplit(")", 1)[1].split()[0]
            if state not in "ZX":
                found[int(entry.name)] = pathlib.Path(entry.path, "comm").read_text().strip()
        except OSError:
            continue
    return found


def children_of(mark, parent):
    return {pid: name for pid, name in processes_of(mark).items() if pid != parent}


def kill(pid, number):
    try:
        os.kill(pid, number)
    except OSError:
        pass


def stacks(mark):
    text = ""
    for pid, name in processes_of(mark).items():
        text += f"== {pid} {name}\n"
        try:
            text += subprocess.run(
                ["gdb", "-p", str(pid), "-batch", "-ex", "thread apply all bt 12"],
                capture_output=True,
                text=True,
                timeout=60,
                check=False,
            ).stdout
        except (OSError, subprocess.TimeoutExpired) as error:
            text += str(error)
    return text


def mount_tmpfs(folder, size):
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)], capture_output=True, check=False
    )
    return done.returncode == 0


def rows(cache, query):
    database = sqlite3.connect(f"file:{cache}?mode=rw", uri=True, timeout=20)
    try:
        return database.execute(query).fetchall()
    finally:
        database.close()


def finished_measurements(cache):
    return {uid for (uid,) in rows(cache, "SELECT uid FROM measurement WHERE status <> 'running'")}


def make_programs(source_folder, folder, without=(), replaced=None):
    """A folder of programs, linked, less some, and with scripts in the place of others."""
    folder.mkdir()
    for program in [PARENT, COMPILER, *EMULATORS, "sparsmith-worker"]:
        source = source_folder / program
        if source.exists() and program not in without:
            shutil.copy2(source, folder / program)
    for program, text in (replaced or {}).items():
        (folder / program).unlink(missing_ok=True)
        (folder / program).write_text(text)
        (folder / program).chmod(0o755)
    return folder


def command(programs, cache, output):
    return [
        str(programs / PARENT),
        "tune",
        "model.safetensors",
        "-o",
        str(output),
        "--tokens",
        "1",
        "--candidates",
        "2",
        "--families",
        "rows",
        "--device",
        "emulator",
        "--cache",
        str(cache),
        "--json",
    ]


class Clean:
    """What an undisturbed run writes, and how long it takes."""

    def __init__(self, programs, scratch):
        def make(name, **changes):
            return make_programs(programs, scratch / name, **changes)

        self.programs = make("programs")
        self.system_programs = make("system_programs", without=[EMULATORS[0]])
        self.broken = [
            (make("dead", replaced={COMPILER: "#!/bin/sh\nexit 1\n"}), "a compiler that ends at once"),
            (make("silent", replaced={COMPILER: "#!/bin/sh\nkill -9 $$\n"}), "a compiler that is killed"),
            (make("none", without=[COMPILER]), "no compiler"),
            (self.system_programs, "CXX=/bin/false"),
            (make("deaf", replaced={EMULATORS[0]: "#!/bin/sh\nexit 1\n"}), "an emulator that ends at once"),
        ]
        work = scratch / "clean"
        work.mkdir()
        self.model = work / "model.safetensors"
        weights = ["--weight", "a.weight:768x768:0.95:uniform", "--weight", "b.weight:512x1024:0.9:uniform"]
        subprocess.run(
            [str(self.programs / PARENT), "synth", "-o", str(self.model), "--seed", "7", *weights],
            check=True,
            capture_output=True,
        )
        self.model_hash = hashlib.sha256(self.model.read_bytes()).digest()
        self.cold_seconds = self.tune(work, "cold.db", "cold.safetensors")
        self.tuned = (work / "cold.safetensors").read_bytes()
        self.kernels = work / "kernels.db"
        shutil.copy2(work / "cold.db", self.kernels)
        rows_to_drop = sqlite3.connect(self.kernels)
        rows_to_drop.executescript("DELETE FROM choice; DELETE FROM measurement;")
        rows_to_drop.close()
        shutil.copy2(self.kernels, work / "warm.db")
        self.warm_seconds = self.tune(work, "warm.db", "warm.safetensors")
        if (work / "warm.safetensors").read_bytes() != self.tuned:
            sys.exit("FAILED: two undisturbed runs differ")

    def tune(self, work, cache, output):
        begin = time.monotonic()
        done = subprocess.run(
            command(self.programs, work / cache, work / output), cwd=work, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            sys.exit(f"FAILED: an undisturbed run ends with {done.returncode}\n{done.stderr}")
        return time.monotonic() - begin
