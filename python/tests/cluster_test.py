"""Tuning on a Ray cluster of this machine, with emulator devices."""

import os
import pathlib
import random
import signal
import subprocess
import threading

import pytest

import sparsmith
from sparsmith import _library, cluster, tuning
from sparsmith.cluster import Schedule, Unit

ray = pytest.importorskip("ray")

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
    """The tuned file of one process."""
    output = model.with_name("alone.tuned.safetensors")
    tuning.run_command(["tune", str(model), "-o", str(output), "--device", "emulator", "--no-cache", "--tokens", "1",
                        *FAMILIES], progress=False)
    return output.read_bytes()


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


@pytest.mark.parametrize("seed", range(RUNS))
def test_a_killed_actor_costs_its_unit_alone(machine, model, alone, tmp_path, seed):
    chance = random.Random(seed)
    wait, killed, over = chance.uniform(0, 3), [], threading.Event()

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
    print(f"seed {seed}: {killed} killed after {wait:.1f} s, {report['cluster']['actors_lost']} units lost")
    assert killed
    assert (tmp_path / "out.tuned.safetensors").read_bytes() == alone
    assert report["counts"]["pairs"] == report["counts"]["pairs_from_cache"] == len(WEIGHTS)
    tuned = [name for run in report["cluster"]["units"]["emulator"] for name in run["weights"]]
    assert sorted(tuned) == sorted(weight.split(":")[0] for weight in WEIGHTS)
