"""Tuning on the GPUs of a Ray cluster.

The driver asks ``sparsmith tune --units`` for units of work. Actors, each with a GPU, run ``sparsmith tune --only`` for one
unit after the other, and send back what is new in their caches. At the end one actor of each device class writes the tuned
file from the joined cache. A unit that other ones learn from is tuned first; its results go with them.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import ctypes
import dataclasses
import json
import math
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

from sparsmith import _library, tuning
from sparsmith._library import SparsmithError

try:
    import ray
except ImportError:  # pip install sparsmith[ray]
    ray = None

__all__ = ["tune"]

_CHUNK = 64 << 20  # bytes of a file in one object of Ray
_ATTEMPTS = 3  # of a unit
_REFUSED = {"--tensor-parallel": "a cluster writes no files for ranks: tune for tensor parallelism on the GPUs of one machine",
            "--record": "searched spaces would stay on the machines of the actors",
            "--html": "give --json, and make a page with sparsmith report"}


@dataclasses.dataclass(frozen=True)
class Unit:
    """Weights that one run of the command tunes, as ``tune --units`` lists them."""

    weights: tuple[str, ...]
    work: float
    after: int | None  # the unit whose results this one begins with


class Schedule:
    """Which unit is next: the first in the list whose forerunner is done. A lost unit is given out again."""

    def __init__(self, units: list[Unit]) -> None:
        self.units = units
        self.done: set[int] = set()
        self.failed: dict[int, str] = {}  # the reason
        self._waiting = list(range(len(units)))
        self._attempts = [0] * len(units)

    @property
    def finished(self) -> bool:
        return len(self.done) + len(self.failed) == len(self.units)

    @property
    def work_left(self) -> float:
        return sum(unit.work for index, unit in enumerate(self.units) if index not in self.done and index not in self.failed)

    def next(self) -> int | None:
        """None: no unit is ready now. A unit does without the results of a forerunner that failed."""
        for place, index in enumerate(self._waiting):
            after = self.units[index].after
            if after is None or after in self.done or after in self.failed:
                return self._waiting.pop(place)
        return None

    def lost(self, index: int, reason: str) -> None:
        """A run of the unit gave no result: it is the next one again, unless it was tried three times."""
        self._attempts[index] += 1
        if self._attempts[index] < _ATTEMPTS:
            self._waiting.insert(0, index)
        else:
            self.failed[index] = reason


def _die_with_parent() -> None:
    """In a child process: a killed actor leaves no run behind on its GPU."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class _Tuner:
    """The actor: runs the command on the GPU that Ray gives it, with a cache of its own."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._folder = pathlib.Path(tempfile.mkdtemp(prefix="sparsmith-"))
        self._cache, self._output = self._folder / "cache.db", self._folder / "output"
        self._model = None
        self._imported: set[str] = set()

    def about(self, path: str, files: list[tuple[str, int, int]]) -> dict:
        """What this machine is, and whether it has the model's files (relative path, bytes, time of change) under ``path``."""
        device = {"name": "", "class": self._device, "driver": "", "nvrtc": ""}
        if self._device.startswith("cuda"):
            doctor = self._run("doctor")
            findings = {finding["what"]: finding for finding in doctor["findings"]}
            if doctor["device"] is None:
                raise SparsmithError(f"there is no GPU for an actor: {findings['GPU']['detail']}")
            device = {**doctor["device"], "nvrtc": findings["NVRTC"]["detail"]}
        base = pathlib.Path(path).parent
        try:
            seen = all((status := os.stat(base / name)).st_size == size and status.st_mtime_ns == changed
                       for name, size, changed in files)
        except OSError:
            seen = False
        if seen:
            self._model = path
        return {**device, "version": _library.version, "node": ray.get_runtime_context().get_node_id(), "cores": os.cpu_count(),
                "seen": seen}

    def receive(self, name: str, files: list[tuple[str, list]]) -> None:
        """Takes the model from Ray's object store: chunks of each file by relative path."""
        for relative, chunks in files:
            path = self._folder / "model" / relative
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "wb") as file:
                file.writelines(ray.get(chunk) for chunk in chunks)
        self._model = str(self._folder / "model" / name)

    def tune(self, arguments: list[str], threads: int, results: dict[str, ray.ObjectRef]) -> tuple[dict, bytes]:
        """Runs a unit. ``results``: caches by name, to begin with. Returns the report and what is new in the cache."""
        for key, cache in results.items():
            if key not in self._imported:
                self._import(ray.get(cache))
                self._imported.add(key)
        begin = time.monotonic()
        report = self._tune(arguments, threads)
        exported = self._folder / "exported.db"
        exported.unlink(missing_ok=True)
        self._run("cache", "export", "--cache", str(self._cache), str(exported), "--seconds",
                  str(math.ceil(time.monotonic() - begin) + 1))
        return report, exported.read_bytes()

    def write(self, arguments: list[str], threads: int, cache: bytes, place: str, token: bytes) -> tuple[dict, bool]:
        """Makes the tuned file from all results: at ``place``, if a file with ``token`` is there, as on shared storage; else
        :meth:`read` gives it. Returns the report, and whether it is at its place."""
        self._import(cache)
        try:
            there = pathlib.Path(place).read_bytes() == token
        except OSError:
            there = False
        if there:
            self._output = pathlib.Path(place)
        return self._tune(arguments, threads), there

    def read(self, offset: int) -> bytes:
        with open(self._output, "rb") as file:
            file.seek(offset)
            return file.read(_CHUNK)

    def _tune(self, arguments: list[str], threads: int) -> dict:
        if self._model is None:
            raise SparsmithError("the model did not arrive on this machine; is there room in its folder for temporary files?")
        return self._run("tune", self._model, *arguments, "--output", str(self._output), "--cache", str(self._cache), "--device",
                         self._device, "--threads", str(threads), *["--force"] * ("--force" not in arguments))

    def close(self) -> None:
        shutil.rmtree(self._folder, ignore_errors=True)

    def _import(self, cache: bytes) -> None:
        path = self._folder / "received.db"
        path.write_bytes(cache)
        self._run("cache", "merge", str(path), "--cache", str(self._cache))

    def _run(self, *words: str) -> dict:
        return tuning.run_command([*words], progress=False, preexec_fn=_die_with_parent)


@dataclasses.dataclass(eq=False)
class _Member:
    """An actor of the run, as the driver sees it."""

    actor: object
    about: dict = dataclasses.field(default_factory=dict)
    since: float = 0  # the begin of its unit


@dataclasses.dataclass
class _Pool:
    """The actors of one device class."""

    about: dict
    schedule: Schedule
    results: dict[int, object] = dataclasses.field(default_factory=dict)  # by unit that others wait for: its cache
    runs: list[dict] = dataclasses.field(default_factory=list)
    idle: list[_Member] = dataclasses.field(default_factory=list)


def seconds_of(text: str) -> float:
    """"90", "90s", "10m", "1.5h"."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smh]?)", text)
    if not found:
        raise SparsmithError(f"\"{text}\" is no duration, as 90s, 10m or 1.5h are")
    return float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600}[found[2]]


def _model_files(path: pathlib.Path) -> list[tuple[str, int, int]]:
    """The files of a model, relative to the folder that holds ``path``."""
    folder = path if path.is_dir() else path.parent if path.suffix == ".json" else None
    files = [path] if folder is None else sorted({*folder.glob("*.safetensors"), *folder.glob("*.json")})
    if not files or not all(file.is_file() for file in files):
        raise SparsmithError(f"{path}: there is no such model")
    return [(str(file.relative_to(path.parent)), file.stat().st_size, file.stat().st_mtime_ns) for file in files]


class _Run:
    def __init__(self, path: str, output: str, arguments: list[str], device: str, cache: str | None, budget: float | None,
                 actors: int | None, num_gpus: float, progress: Callable[[str], None]) -> None:
        self.path, self.output = pathlib.Path(path).absolute(), pathlib.Path(output).absolute()
        self.arguments, self.device, self.budget, self.say = arguments, device, budget, progress
        self.cache = ["--cache", os.fspath(cache)] if cache else []
        self.gpus = num_gpus if device.startswith("cuda") else 0
        self.wanted = actors
        self.files = _model_files(self.path)
        self.begin = time.monotonic()
        self.members: list[_Member] = []
        self.pools: dict[str, _Pool] = {}
        self.pending: dict[object, tuple[_Member, int | None]] = {}  # what an actor is at: a unit, or None: about()
        self.shipped, self.merges = None, []
        self.lost, self.refused, self.last_growth, self.told = 0, [], 0.0, self.begin

    def execute(self) -> dict:
        if not self.output.parent.is_dir():
            raise SparsmithError(f"{self.output}: there is no folder {self.output.parent}")
        self.units = self._make_units()
        with tempfile.TemporaryDirectory(prefix="sparsmith-") as folder, \
                concurrent.futures.ThreadPoolExecutor(1) as self.merging:
            self.folder = pathlib.Path(folder)
            self.base = self._base()
            try:
                self._grow()
                while not self._over():
                    self._step()
                return self._finish()
            finally:
                if closing := [member.actor.close.remote() for member in self.members]:
                    ray.wait(closing, num_returns=len(closing), timeout=5)
                for member in self.members:
                    ray.kill(member.actor)

    def _over(self) -> bool:
        return bool(self.pools) and all(pool.schedule.finished for pool in self.pools.values())

    def _make_units(self) -> list[Unit]:
        # As fine as four units an actor: a late actor has little left to do, and few weights are searched twice.
        count = 4 * self._actors_wanted()
        listed = tuning.run_command(["tune", str(self.path), *self.arguments, "--output", str(self.output), *self.cache, "--units",
                                     str(count)], progress=False)
        return [Unit(tuple(unit["weights"]), unit["work"], unit["after"]) for unit in listed["units"]]

    def _actors_wanted(self) -> int:
        if self.wanted is not None:
            return self.wanted
        resources = ray.cluster_resources()
        found = int(resources.get("GPU", 0) / self.gpus) if self.gpus else int(resources.get("CPU", 1))
        if found < 1:
            raise SparsmithError("the Ray cluster has no GPU: add a machine that has one, or give device=\"emulator\" for "
                                 "predictions")
        return found

    def _grow(self) -> None:
        """Makes actors for the GPUs that there are by now."""
        if self.members and time.monotonic() - self.last_growth < 5:
            return
        self.last_growth = time.monotonic()
        wanted = self._actors_wanted() if self.gpus or not self.members else len(self.members)
        for _ in range(min(wanted, len(self.units)) - len(self.members)):
            actor = ray.remote(_Tuner).options(num_gpus=self.gpus, num_cpus=0 if self.gpus else 1, max_restarts=_ATTEMPTS,
                                               max_task_retries=0).remote(self.device)
            self.members.append(_Member(actor))
            self._ask(self.members[-1])

    def _ask(self, member: _Member) -> None:
        self.pending[member.actor.about.remote(str(self.path), self.files)] = (member, None)

    def _step(self) -> None:
        self._grow()
        ready, _ = ray.wait(list(self.pending), timeout=5)
        if not ready and all(unit is None for _, unit in self.pending.values()) and time.monotonic() - self.told > 60:
            self.told = time.monotonic()
            self.say("no actor has started yet; other work may have the GPUs of the cluster")
        for reference in ready:
            member, unit = self.pending.pop(reference)
            try:
                result = ray.get(reference)
            except ray.exceptions.RayActorError as error:
                self._actor_lost(member, unit, error)
            except (ray.exceptions.RayTaskError, SparsmithError) as error:
                self._run_failed(member, unit, error)
            else:
                if unit is None:
                    self._join(member, result)
                else:
                    self._unit_done(member, unit, *result)
        self._dispatch()
        if not self.pending and not self._over():
            reasons = "; ".join(dict.fromkeys(self.refused)) or "no actor is left"
            raise SparsmithError(f"no machine of the Ray cluster can go on: {reasons}. Results so far are in the cache; the same "
                                 "command goes on from there")

    def _actor_lost(self, member: _Member, unit: int | None, error: Exception) -> None:
        reason = str(error).strip().splitlines()[0]
        if unit is not None:
            self.lost += 1
            self.pools[member.about["class"]].schedule.lost(unit, reason)
            self.say(f"an actor was lost; its unit is given out again ({reason})")
        elif isinstance(error, ray.exceptions.ActorDiedError):  # and was not restarted
            self.refused.append(reason)
            self.members.remove(member)
            return
        member.about = {}
        self._ask(member)  # where Ray restarts it, it may be on another machine

    def _run_failed(self, member: _Member, unit: int | None, error: Exception) -> None:
        reason = str(getattr(error, "cause", None) or error).strip().splitlines()[-1]
        if unit is None:
            self._refuse(member, reason)
            return
        pool = self.pools[member.about["class"]]
        pool.schedule.lost(unit, reason)
        pool.idle.append(member)

    def _refuse(self, member: _Member, reason: str) -> None:
        """The actor keeps its GPU, so that none is made there again."""
        self.say(f"an actor is not used: {reason}")
        self.refused.append(reason)
        member.about = {}

    def _join(self, member: _Member, about: dict) -> None:
        """An actor says what it is: it goes to the pool of its class."""
        if about["version"] != _library.version:
            reason = f"sparsmith {about['version']} on node {about['node']}, and {_library.version} here"
        else:
            pool = self.pools.setdefault(about["class"], _Pool(about, Schedule(self.units)))
            differing = [f"{what} {about[what]} on node {about['node']}, and {pool.about[what]} on another machine of {about['class']}"
                         for what in ("driver", "nvrtc") if about[what] != pool.about[what]]
            reason = "; ".join(differing)
        if reason:
            self._refuse(member, reason)
            return
        member.about = about
        if not about["seen"]:
            member.actor.receive.remote(self.path.name, self._ship())  # calls to an actor run in their order
        pool.idle.append(member)

    def _ship(self) -> list[tuple[str, list]]:
        if self.shipped is None:
            def chunks(name: str) -> Iterator[object]:
                with open(self.path.parent / name, "rb") as file:
                    while chunk := file.read(_CHUNK):
                        yield ray.put(chunk)

            self.say(f"the model is not on shared storage: {sum(size for _, size, _ in self.files) / 1e9:.1f} GB go through Ray's "
                     "object store")
            self.shipped = [(name, list(chunks(name))) for name, _, _ in self.files]
        return self.shipped

    def _threads(self, member: _Member) -> int:
        """Compilers of an actor: actors of one machine share its cores."""
        beside = sum(other.about.get("node") == member.about["node"] for other in self.members)
        return max(1, member.about["cores"] // beside)

    def _dispatch(self) -> None:
        for pool in self.pools.values():
            while pool.idle and (unit := pool.schedule.next()) is not None:
                member, of = pool.idle.pop(0), pool.schedule.units[unit]
                words = [word for name in of.weights for word in ("--only", name)]
                if self.budget:
                    left = max(1.0, self.begin + self.budget - time.monotonic())
                    actors = sum(other.about.get("class") == pool.about["class"] for other in self.members)
                    words += ["--budget", f"{left * min(1.0, actors * of.work / max(of.work, pool.schedule.work_left)):.1f}s"]
                results = {**self.base, **({str(of.after): pool.results[of.after]} if of.after in pool.results else {})}
                member.since = time.monotonic()
                self.pending[member.actor.tune.remote([*self.arguments, *words], self._threads(member), results)] = (member, unit)

    def _unit_done(self, member: _Member, unit: int, report: dict, cache: bytes) -> None:
        pool = self.pools[member.about["class"]]
        pool.schedule.done.add(unit)
        pool.idle.append(member)
        if any(other.after == unit for other in pool.schedule.units):
            pool.results[unit] = ray.put(cache)
        self.merges.append(self.merging.submit(self._merge, cache))
        pool.runs.append({"weights": list(pool.schedule.units[unit].weights), "work": pool.schedule.units[unit].work,
                          "seconds": time.monotonic() - member.since, "search_seconds": report["seconds"],
                          "device": report["device"]["name"], "node": member.about["node"], "counts": report["counts"],
                          "rejected": report["rejected"]})
        done, all_ = len(pool.schedule.done), len(pool.schedule.units)
        spent = time.monotonic() - self.begin
        tuned = sum(len(pool.schedule.units[index].weights) for index in pool.schedule.done)
        self.say(f"{pool.about['class']}: {done} of {all_} units, {tuned} weights, {len(self.members)} actors, {spent:.0f} s")

    def _merge(self, cache: bytes) -> None:
        path = self.folder / "unit.db"
        path.write_bytes(cache)
        tuning.run_command(["cache", "merge", str(path), *self.cache], progress=False)

    def _base(self) -> dict[str, object]:
        """What the driver's cache has from earlier runs."""
        try:
            return {"base": ray.put(self._export())}
        except SparsmithError:  # there is none yet, or it will be made anew
            return {}

    def _export(self) -> bytes:
        path = self.folder / "all.db"
        path.unlink(missing_ok=True)
        tuning.run_command(["cache", "export", str(path), *self.cache], progress=False)
        return path.read_bytes()

    def _finish(self) -> dict:
        failed = [f"{', '.join(self.units[index].weights)}: {reason}" for pool in self.pools.values()
                  for index, reason in pool.schedule.failed.items()]
        for merge in self.merges:
            merge.result()
        if failed:
            raise SparsmithError(f"{len(failed)} units failed {_ATTEMPTS} times; results of the others are in the cache, and the "
                                 f"same command goes on from there. {failed[0]}")
        cache = ray.put(self._export())
        reports = {name: self._write(pool, cache, self._output_of(name)) for name, pool in self.pools.items()}
        report = next(iter(reports.values()))
        report["cluster"] = {"seconds": time.monotonic() - self.begin, "actors": len(self.members), "actors_lost": self.lost,
                             "not_used": self.refused, "model": "shipped" if self.shipped else "shared storage",
                             "files": {name: str(self._output_of(name)) for name in self.pools},
                             "units": {name: pool.runs for name, pool in self.pools.items()}}
        return report

    def _output_of(self, device_class: str) -> pathlib.Path:
        if len(self.pools) == 1:
            return self.output
        return self.output.with_name(device_class.replace(" ", "_") + "." + self.output.name)

    def _write(self, pool: _Pool, cache: object, output: pathlib.Path) -> dict:
        words = [word for word in self.arguments if word != "--again"] + ["--budget", "0.001s"] * bool(self.budget)
        part = output.with_name(f"{output.name}.{os.urandom(8).hex()}.part")
        for attempt in range(_ATTEMPTS):
            member = pool.idle[attempt % len(pool.idle)]
            try:
                if attempt and not ray.get(member.actor.about.remote(str(self.path), self.files))["seen"]:
                    member.actor.receive.remote(self.path.name, self._ship())
                token = os.urandom(32)
                part.write_bytes(token)
                report, there = ray.get(member.actor.write.remote(words, self._threads(member), cache, str(part), token))
                if not there:
                    with open(part, "wb") as file:
                        while chunk := ray.get(member.actor.read.remote(file.tell())):
                            file.write(chunk)
                part.replace(output)
                return report
            except (ray.exceptions.RayActorError, ray.exceptions.RayTaskError) as error:
                reason = getattr(error, "cause", None) or error
            finally:
                part.unlink(missing_ok=True)
        raise SparsmithError(f"the tuned file could not be written: {reason}; all results are in the cache")


def tune(path: str | os.PathLike, output: str | os.PathLike, arguments: list[str], *, address: str = "auto",
         device: str | None = None, cache: str | os.PathLike | None = None, budget: str | None = None, actors: int | None = None,
         num_gpus: float = 1, progress: bool = True) -> dict:
    """Runs ``sparsmith tune PATH ARGUMENTS`` on a Ray cluster (:func:`sparsmith.tune` with ``cluster``).

    ``address``: of the cluster; "auto": the one that runs, else a new one of this machine. ``actors``: how many; default: as
    many as the cluster has GPUs, also those that join during the run. ``num_gpus``: of an actor; 0.5: two actors share a GPU.
    ``cache``: the file that takes all results; default: that of the command. ``budget``: of the whole run, shared out.

    Returns the report of the run that wrote the tuned file, with a member ``cluster``: its units with their times, lost actors,
    and the files, one for each device class.
    """
    if ray is None:
        raise SparsmithError("tuning on a cluster needs Ray: pip install ray")
    if num_gpus <= 0 or (actors is not None and actors < 1):
        raise SparsmithError(f"{actors} actors of {num_gpus} GPUs: both are more than 0")
    for option, reason in _REFUSED.items():
        if any(word.split("=")[0] == option for word in arguments):
            raise SparsmithError(f"{option}: {reason}")
    started = not ray.is_initialized()
    if started:
        try:
            ray.init(address=address, log_to_driver=False)
        except ConnectionError:
            if address != "auto":
                raise SparsmithError(f"there is no Ray cluster at {address}") from None
            ray.init(log_to_driver=False, include_dashboard=False)
    say = (lambda text: print(f"sparsmith: {text}", file=sys.stderr, flush=True)) if progress else (lambda text: None)
    try:
        return _Run(os.fspath(path), os.fspath(output), arguments, device or "cuda:0", cache, budget and seconds_of(budget),
                    actors, num_gpus, say).execute()
    finally:
        if started:
            ray.shutdown()


def main() -> None:
    """The program ``sparsmith-ray``."""
    parser = argparse.ArgumentParser(prog="sparsmith-ray", description="Tunes a model on the GPUs of a Ray cluster.")
    command = parser.add_subparsers(required=True).add_parser(
        "tune", help="as sparsmith tune, on all GPUs of a cluster",
        usage="sparsmith-ray tune MODEL -o FILE [options below, and options of sparsmith tune]")
    command.add_argument("model", help="a model's file or folder, on shared storage or on this machine")
    command.add_argument("-o", "--output", required=True, help="tuned file to write")
    command.add_argument("--address", default="auto", help="of the cluster; default: the one that runs, else this machine")
    command.add_argument("--actors", type=int, help="how many; default: one a GPU")
    command.add_argument("--num-gpus", type=float, default=1, help="GPUs of an actor; 0.5: two actors share one")
    command.add_argument("--device", choices=["emulator"], help="predict, without GPUs")
    command.add_argument("--cache", help="cache file that takes all results")
    command.add_argument("--budget", help="time of the whole run, such as 10m")
    command.add_argument("--json", action="store_true", help="print JSON")
    options, arguments = parser.parse_known_args()
    try:
        report = tune(options.model, options.output, arguments, address=options.address, device=options.device,
                      cache=options.cache, budget=options.budget, actors=options.actors, num_gpus=options.num_gpus)
    except SparsmithError as error:
        sys.exit(f"sparsmith-ray: {error}")
    if options.json:
        print(json.dumps(report))
        return
    for file in report["cluster"]["files"].values():
        subprocess.run([_library.program(), "show", file], check=False)
        print(f"tuned file {file}")
