"""The result file, one JSON record a line, and the report of it."""

import collections
import json
import pathlib

from .draw import ROOMS, Equivalents
from .operators import Mutant

KILLED = ("killed", "timeout")


def record_of(mutant: Mutant) -> dict:
    keys = ("file", "operator", "before", "after")
    return {"id": mutant.id, "room": mutant.room, "line": mutant.line + 1} | {key: getattr(mutant, key) for key in keys}


class Results:
    """Of each mutant the last record counts. A cut last line, of a run that was killed, is passed over."""

    def __init__(self, file: pathlib.Path):
        self.file = file
        self.records: dict[str, dict] = {}
        lines = file.read_text().splitlines() if file.exists() else []
        for line in lines:
            try:
                record = json.loads(line)
                self.records[record["id"]] = record
            except (json.JSONDecodeError, KeyError):
                continue

    def add(self, record: dict) -> None:
        self.records[record["id"]] = record
        begin = "" if not self.file.exists() or self.file.read_bytes().endswith(b"\n") else "\n"
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a") as out:
            out.write(f"{begin}{json.dumps(record)}\n")

    def is_done(self, mutant: Mutant, near: bool) -> bool:
        """A mutant that only the near tests have seen survives until the others have seen it too."""
        record = self.records.get(mutant.id)
        return record is not None and (record["outcome"] != "survived" or near or not record.get("near", False))


def is_equivalent(record: dict, equivalents: Equivalents) -> bool:
    mutant = Mutant(record["file"], record["line"] - 1, record["operator"], record["before"], record["after"], 0)
    return equivalents.reason(mutant) is not None


def report(records: list[dict], equivalents: Equivalents) -> str:
    counts: dict[str, collections.Counter] = {room: collections.Counter() for room in ROOMS}
    seconds: collections.Counter = collections.Counter()
    survivors = []
    for record in records:
        room = record["room"]
        outcome = "equivalent" if is_equivalent(record, equivalents) else record["outcome"]
        counts[room][outcome] += 1
        seconds[room] += record.get("seconds", 0)
        if outcome == "survived":
            survivors.append(record)
    columns = f"{'killed':>8}{'timeout':>9}{'survived':>10}{'score':>8}{'equivalent':>12}{'no compile':>12}"
    lines = [f"{'room':<12}{columns}{'s each':>8}"]

    def row(name: str, count: collections.Counter, time: float) -> str:
        killed = sum(count[outcome] for outcome in KILLED)
        judged = killed + count["survived"]
        score = f"{100 * killed / judged:.0f} %" if judged else "-"
        tried = judged + count["does not compile"]
        each = f"{time / tried:.0f}" if tried else "-"
        return (
            f"{name:<12}{count['killed']:>8}{count['timeout']:>9}{count['survived']:>10}{score:>8}"
            f"{count['equivalent']:>12}{count['does not compile']:>12}{each:>8}"
        )

    lines += [row(room, counts[room], seconds[room]) for room in ROOMS if counts[room]]
    lines.append(row("all", sum(counts.values(), collections.Counter()), sum(seconds.values())))
    for record in survivors:
        depth = "near tests" if record.get("near") else f"{len(record.get('tests', []))} tests"
        lines += [
            "",
            f"{record['id']}  {record['file']}:{record['line']}  {record['operator']}, survived {depth}",
            f"  - {record['before'].strip()}",
            f"  + {record['after'].strip()}",
        ]
    return "\n".join(lines)
