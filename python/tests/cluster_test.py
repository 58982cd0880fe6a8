"""Tuning on a Ray cluster of this machine, with emulator devices."""

import os
import pathlib
import random
import signal
import subprocess
import threading
import time

import pytest
import ray

import sparsmith
from sparsmith import _library, cluster, tuning
from sparsmith.cluster import Schedule, Unit

# Shapes where sparse kernels are faster, by prediction.
WEIGHTS = [f"{name}.{layer}:{shape}:uniform" for layer in range(3)
           for name, shape in [("up", "1024x1024:0.97"), ("down", "1024x1280:0.97")]]
FAMILIES = ["--families", "rows,scatter"]
RUNS = int(os.environ.get("SPARSMITH_CLUSTER_RUNS", "2"))


def units(*afters):
    return [Unit((str(index),), 1 + index, after) for index, after in enumerate(afters)]


def test_a_schedule_gives_first_units_first():
    schedule = Schedule(units(None, None, 0, 1, 0))
    assert [schedule.next(), schedule.next(), schedule.next()] == [0, 1, None]
    schedule.done.add(1)
    assert [schedule.next(), schedule.next()] == [3, None]
    schedule.lost(0, "its machine is gone")
    assert schedule.next() == 0
    schedule.done.add(0)
    assert [schedule.next(), schedule.next(), schedule.next()] == [2, 4, None]
    assert schedule.work_left == 3 + 4 + 5 and not schedule.finished
    schedule.done |= {2, 3, 4}
    assert schedule.finished


def test_a_schedule_goes_on_without_what_fails():
    schedule = Schedule(units(None, 0))
    for attempt in range(3):
        assert schedule.next() == 0
        schedule.lost(0, f"reason {attempt}")
    assert schedule.failed == {0: "reason 2"}
    assert schedule.next() == 1
    schedule.done.add(1)
    assert schedule.finished


@pytest.mark.parametrize("seed", range(5))
def test_a_schedule_loses_no_unit(seed):
    print("seed", seed)
    chance = random.Random(seed)
    listed = units(*(chance.choice([None, *range(index)]) if index else None for index in range(40)))
    schedule, running, given = Schedule(listed), [], []
    while not schedule.finished:
        while len(running) < 6 and (unit := schedule.next()) is not None:
            assert listed[unit].after is None or listed[unit].after in schedule.done | set(schedule.failed)
            running.append(unit)
        unit = running.pop(chance.randrange(len(running)))
        if chance.random() < 0.2:
            schedule.lost(unit, "lost")
        else:
            schedule.done.add(unit)
            given.append(unit)
    assert sorted([*given, *schedule.failed]) == list(range(40)) and not running


@pytest.mark.parametrize(("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("1.5h", 5400)])
def test_durations(text, seconds):
    assert cluster.seconds_of(text) == seconds


@pytest.mark.parametrize("text", ["", "m", "1x", "-1", "1 m", "nan"])
def test_texts_that_are_no_durations(text):
    with pytest.raises(sparsmith.SparsmithError, match="no duration"):
        cluster.seconds_of(text)


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "model.safetensors"
    words = [word for weight in WEIGHTS for word in ("--weight", weight)]
    subprocess.run([_library.program(), "synth", "-o", path, "--seed", "7", "--dtype", "fp32", *words], check=True, capture_output=True)
    return path


@pytest.fixture(scope="module")
def alone(model):
    """The tuned file of one process, and its seconds."""
    output, begin = model.with_name("alone.tuned.safetensors"), time.monotonic()
    tuning.run_command(["tune", str(model), "-o", str(output), "--device", "emulator", "--no-cache", "--tokens", "1",
                        *FAMILIES], progress=False)
    return output.read_bytes(), time.monotonic() - begin


class Actor:
    """In the place of one."""


@pytest.fixture
def run(model, tmp_path):
    """A run whose actors are no processes."""
    run = cluster._Run(str(model), str(tmp_path / "out"), [], "cuda:0", None, None, 2, 1, lambda text: None)
    run.units = units(None, None, 0)
    return run


def join(run, **about):
    member = cluster._Member(Actor())
    run.members.append(member)
    run._join(member, {"class": "sm_90 132 SMs", "driver": "580", "nvrtc": "13.0", "version": _library.version, "node": "n1", "cores": 8,
                       "seen": True, **about})
    return member


def test_actors_of_one_class_agree(run):
    first = join(run)
    assert run.pools["sm_90 132 SMs"].idle == [first] and run._threads(first) == 8
    for about, reason in [({"driver": "570"}, "driver 570 on node n1, and 580 on another machine of sm_90 132 SMs"),
                          ({"nvrtc": "12.9"}, "nvrtc 12.9 on node n1"), ({"version": "0.0.1"}, "sparsmith 0.0.1 on node n1")]:
        member = join(run, **about)
        assert reason in run.refused[-1] and member.about == {}
    other = join(run, **{"class": "sm_80 108 SMs", "driver": "570"})
    assert run.pools["sm_80 108 SMs"].idle == [other] and run._threads(first) == 4
    assert run._output_of("sm_80 108 SMs").name == "sm_80_108_SMs.out"


def test_gpus_that_join_get_actors(run, monkeypatch):
    gpus, made = {"GPU": 2.0}, []

    class Remote:
        def options(self, **options):
            made.append(options)
            return self

        def remote(self, *arguments):
            return self

    monkeypatch.setattr(cluster.ray, "cluster_resources", lambda: gpus)
    monkeypatch.setattr(cluster.ray, "remote", lambda kind: Remote())
    monkeypatch.setattr(run, "_ask", lambda member: None)
    run.wanted = None
    run._grow()
    assert len(run.members) == 2 and all(options["num_gpus"] == 1 and options["max_restarts"] > 0 for options in made)
    gpus["GPU"] = 5.0
    run._grow()
    assert len(run.members) == 2, "it looks again after five seconds"
    run.last_growth -= 5
    run._grow()
    assert len(run.members) == 3, "there are three units"
    run.members.clear()
    gpus.clear()
    with pytest.raises(sparsmith.SparsmithError, match="the Ray cluster has no GPU"):
        run._grow()


def test_a_tuned_file_goes_to_its_place_or_in_parts(tmp_path, monkeypatch):
    actor, written = cluster._Tuner("emulator"), []
    monkeypatch.setattr(actor, "_import", written.append)
    monkeypatch.setattr(actor, "_tune", lambda arguments, threads: written.append(actor._output) or {})
    monkeypatch.setattr(cluster, "_CHUNK", 3)
    (tmp_path / "out.part").write_bytes(b"token")
    for place, token in [("out.part", b"another"), ("none", b"token")]:
        assert actor.write([], 1, b"cache", str(tmp_path / place), token) == ({}, False)
    actor._output.write_bytes(b"0123456789")
    assert [actor.read(offset) for offset in (0, 3, 6, 9, 10)] == [b"012", b"345", b"678", b"9", b""]
    assert actor.write([], 1, b"cache", str(tmp_path / "out.part"), b"token") == ({}, True)
    assert written[-2:] == [b"cache", tmp_path / "out.part"]
    actor.close()
    assert not actor._folder.exists()


def test_a_unit_that_fails_is_named(run):
    member = join(run)
    pool = run.pools["sm_90 132 SMs"]
    for _ in range(3):
        assert pool.schedule.next() == 0
        pool.idle.clear()
        run._run_failed(member, 0, sparsmith.SparsmithError("sparsmith tune failed (5): the GPU is gone"))
        assert pool.idle == [member]
    assert pool.schedule.failed == {0: "sparsmith tune failed (5): the GPU is gone"}
    with pytest.raises(sparsmith.SparsmithError, match="1 units failed 3 times.* 0: sparsmith tune failed"):
        run._finish()


def test_options_that_make_no_sense(machine, model, tmp_path):
    for option in ["--tensor-parallel", "--record=spaces.jsonl.gz", "--html"]:
        with pytest.raises(sparsmith.SparsmithError, match=option.split("=")[0]):
            cluster.tune(model, tmp_path / "out", [option, "2"])
    for options in [{"num_gpus": 0}, {"actors": 0}]:
        with pytest.raises(sparsmith.SparsmithError, match="both are more than 0"):
            cluster.tune(model, tmp_path / "out", [], **options)
    with pytest.raises(sparsmith.SparsmithError, match="there is no such model"):
        cluster._Run(str(tmp_path / "none.safetensors"), "out", [], "emulator", None, None, 1, 1, print)
    with pytest.raises(sparsmith.SparsmithError, match="model.safetensors"):  # the output would replace it
        sparsmith.tune(model, model, device="emulator", cluster={"actors": 1}, progress=False)
    with pytest.raises(sparsmith.SparsmithError, match="there is no folder"):
        cluster._Run(str(model), str(tmp_path / "none" / "out"), [], "emulator", None, None, 1, 1, print).execute()


@pytest.fixture(scope="module")
def machine():
    """A Ray cluster of this machine. Its workers import the package of this process."""
    paths = [os.fspath(pathlib.Path(sparsmith.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(path for path in paths if path)
    ray.init(num_cpus=4, num_gpus=0, include_dashboard=False, log_to_driver=False, object_store_memory=200 << 20)
    yield
    ray.shutdown()


def busy_actors():
    """The processes of actors that tune a unit just now."""
    found = []
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().split(b"\0")
            if b"--only" in words and words[1] == b"tune":
                found.append(int((folder / "stat").read_text().rpartition(")")[2].split()[1]))
        except OSError:
            continue
    return found


def test_a_model_that_actors_do_not_see_is_shipped(machine, model, alone, tmp_path, monkeypatch, capsys):
    seen = cluster._model_files
    monkeypatch.setattr(cluster, "_model_files", lambda path: [(name, size, changed + 1) for name, size, changed in seen(path)])
    monkeypatch.setattr(cluster, "_CHUNK", 100_000)
    report = sparsmith.tune(model, tmp_path / "out.tuned.safetensors", tokens=(1,), device="emulator", arguments=FAMILIES,
                            budget="10m", cluster={"actors": 1, "cache": tmp_path / "cache.db"})
    assert report["cluster"]["model"] == "shipped"
    assert "go through Ray's object store" in capsys.readouterr().err
    assert tensors((tmp_path / "out.tuned.safetensors").read_bytes()) == tensors(alone[0])  # the header names the model's path


def tensors(file: bytes) -> bytes:
    """All of a safetensors file behind its header."""
    return file[8 + int.from_bytes(file[:8], "little"):]


@pytest.mark.parametrize("seed", range(RUNS))
def test_a_killed_actor_costs_its_unit_alone(machine, model, alone, tmp_path, seed):
    chance = random.Random(seed)
    file, seconds = alone
    wait, killed, over = chance.uniform(0, seconds / 2), [], threading.Event()  # actors share the cores that one process had

    def kill():
        while not busy_actors() and not over.wait(0.02):
            pass
        over.wait(wait)
        while not killed and not over.wait(0.005):
            if busy := busy_actors():
                killed.append(chance.choice(busy))
                os.kill(killed[0], signal.SIGKILL)

    thread = threading.Thread(target=kill)
    thread.start()
    try:
        report = sparsmith.tune(model, tmp_path / "out.tuned.safetensors", tokens=(1,), device="emulator", arguments=FAMILIES,
                                cluster={"actors": 4, "cache": tmp_path / "cache.db"}, progress=False)
    finally:
        over.set()
        thread.join()
    print(f"seed {seed}: {killed} killed after {wait:.1f} s of {seconds:.1f}, {report['cluster']['actors_lost']} units lost")
    assert killed
    assert (tmp_path / "out.tuned.safetensors").read_bytes() == file
    assert report["counts"]["pairs"] == report["counts"]["pairs_from_cache"] == len(WEIGHTS)
    tuned = [name for run in report["cluster"]["units"]["emulator"] for name in run["weights"]]
    assert sorted(tuned) == sorted(weight.split(":")[0] for weight in WEIGHTS)
