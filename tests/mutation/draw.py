"""Which mutants a seed draws, and which are known to change nothing."""

import json
import pathlib
import random
import re

from .operators import Mutant, mutants_of

ROOMS = ["base", "matrix", "formats", "runtime", "snippets", "generator", "snippetc", "emulator", "cache", "tuner",
         "search", "history", "tools"]  # fmt: skip
LEAST_OF_ROOM = 10
# What only tests or planted faults are built of.
FOR_TESTS = re.compile(r"_test\.(cc|h)$|/testdata/|plant|_under_test|emulator_benchmark|fmt_library")


def sources(root: pathlib.Path, room: str) -> list[str]:
    files = [file for ending in ("cc", "h", "cuh") for file in (root / room).rglob(f"*.{ending}")]
    names = sorted(str(file.relative_to(root)) for file in files)
    return [name for name in names if not FOR_TESTS.search(name)]


def room_of(root: pathlib.Path, room: str) -> tuple[int, list[Mutant]]:
    """Its lines, and every mutant of it."""
    lines, mutants = 0, []
    for file in sources(root, room):
        text = (root / file).read_text()
        lines += text.count("\n")
        mutants += mutants_of(file, text)
    return lines, mutants


def draw_of(mutants: list[Mutant], count: int, seed: str) -> list[Mutant]:
    """Each operator is as likely as any other that finds a place; a place is drawn at most once."""
    generator = random.Random(seed)
    by_operator: dict[str, list[Mutant]] = {}
    for mutant in mutants:
        by_operator.setdefault(mutant.operator, []).append(mutant)
    drawn: dict[tuple[str, int], Mutant] = {}
    while by_operator and len(drawn) < count:
        operator = generator.choice(sorted(by_operator))
        places = by_operator[operator]
        mutant = places.pop(generator.randrange(len(places)))
        if not places:
            del by_operator[operator]
        drawn.setdefault((mutant.file, mutant.line), mutant)
    return sorted(drawn.values(), key=lambda mutant: (mutant.file, mutant.line))


def draw(root: pathlib.Path, rooms: list[str], count: int, seed: int) -> list[Mutant]:
    """About `count` mutants over all rooms, in proportion to their lines; those of `rooms` are returned."""
    found = {room: room_of(root, room) for room in ROOMS}
    total = sum(lines for lines, _ in found.values())
    drawn = []
    for room in rooms:
        lines, mutants = found[room]
        share = max(LEAST_OF_ROOM, round(count * lines / total))
        drawn += draw_of(mutants, share, f"{seed}:{room}")
    return drawn


class Equivalents:
    """The checked-in list of mutants that change nothing anyone could see, each with the reason."""

    def __init__(self, file: pathlib.Path):
        self.entries = json.loads(file.read_text())

    def stale(self, root: pathlib.Path) -> list[str]:
        """Entries whose line the sources no longer hold."""
        lines = {file: (root / file).read_text() for file in {entry["file"] for entry in self.entries}}
        return [f"{each['file']}: {each['line']}" for each in self.entries if each["line"] not in lines[each["file"]]]

    def reason(self, mutant: Mutant) -> str | None:
        for entry in self.entries:
            if (entry["file"], entry["operator"]) != (mutant.file, mutant.operator):
                continue
            after = mutant.after.strip()
            if entry["line"] == mutant.before.strip() and entry.get("after", after) == after:
                return entry["reason"]
        return None
