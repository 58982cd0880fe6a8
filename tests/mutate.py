#!/usr/bin/env python3
"""Whether the tests see small mistakes: applies drawn mutants to the sources, one at a time, and runs the tests.

Mutants are drawn by operator and seed over all rooms, in a worktree and a build of their own. The tests that cover the
mutated file run from the nearest outwards, until one fails. Results go to a file with a JSON record a line; a second
run goes on where the first was stopped.

  tests/mutate.py                          260 mutants over all rooms
  tests/mutate.py --room search --near     one room, and only its own tests
  tests/mutate.py --list --seed 2          what would be tried
  tests/mutate.py --only 0123456789        one mutant again, with all tests
  tests/mutate.py --survivors              what survived, again: after tests were written
  tests/mutate.py --report                 what the result file says
"""

import argparse
import hashlib
import os
import pathlib
import queue
import subprocess
import sys
import tempfile
import threading

from mutation.draw import ROOMS, Equivalents, draw
from mutation.operators import Mutant, mutants_of
from mutation.results import Results, record_of, report
from mutation.runner import Limits, Tree, try_mutant

ROOT = pathlib.Path(__file__).resolve().parent.parent
EQUIVALENT = ROOT / "tests/mutation/equivalent.json"


def arguments() -> argparse.Namespace:
    scratch = pathlib.Path(tempfile.gettempdir()) / f"sparsmith-mutants-{hashlib.sha256(bytes(ROOT)).hexdigest()[:8]}"
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--room", action="append", choices=ROOMS, help="only this room (repeatable)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, default=260, help="mutants over all rooms (default: 260)")
    parser.add_argument("--near", action="store_true", help="only tests of the file's own room")
    parser.add_argument("--budget", type=float, default=300, help="seconds a mutant; then no further test begins")
    parser.add_argument("-j", "--jobs", type=int, default=1, help="mutants at a time, each in a tree of its own")
    parser.add_argument("--preset", default="ci", help="CMake preset of the builds (default: ci)")
    parser.add_argument("--results", type=pathlib.Path, default=ROOT / "out/mutants.jsonl")
    parser.add_argument("--scratch", type=pathlib.Path, default=scratch, help=f"default: {scratch}")
    parser.add_argument("--list", action="store_true", help="print the mutants and stop")
    parser.add_argument("--only", action="append", metavar="ID", help="this mutant, whatever the result file says")
    parser.add_argument("--survivors", action="store_true", help="the survivors of the result file again")
    parser.add_argument("--report", action="store_true", help="print the report of the result file and stop")
    return parser.parse_args()


def tree_of_now() -> str:
    """A commit of the working tree: HEAD, or with the changes of tracked files."""
    for command in (["stash", "create"], ["rev-parse", "HEAD"]):
        output = subprocess.run(["git", "-C", str(ROOT), *command], capture_output=True, text=True, check=True).stdout
        if output.strip():
            return output.strip()
    raise RuntimeError("the tree has no commit")


def by_id(wanted: set[str], records: dict[str, dict], drawn: list[Mutant]) -> list[Mutant]:
    """Mutants of today's sources with these ids, from the draw or from the files that the records name."""
    files = {records[each]["file"] for each in wanted if each in records}
    known = list(drawn)
    for file in sorted(files):
        if (ROOT / file).exists():
            known += mutants_of(file, (ROOT / file).read_text())
    found = {mutant.id: mutant for mutant in known if mutant.id in wanted}
    for each in sorted(wanted - found.keys()):
        print(f"{each}: the sources hold no such mutant")
    return list(found.values())


def run_all(mutants: list[Mutant], results: Results, args: argparse.Namespace) -> None:
    commit = tree_of_now()
    waiting: queue.Queue[Mutant] = queue.Queue()
    for mutant in mutants:
        waiting.put(mutant)
    limits = Limits(args.near, args.budget, max(1, (os.cpu_count() or 1) // args.jobs))
    turn, failed = threading.Lock(), []

    def work(number: int) -> None:
        try:
            with turn:  # the second tree finds in ccache what the first one compiled
                tree = Tree(ROOT, args.scratch / f"tree{number}", args.preset, commit, limits.jobs)
                graph = tree.prepare(sorted({mutant.room for mutant in mutants}))
            while not failed:
                mutant = waiting.get_nowait()
                seed = results.records.get(mutant.id, {"seed": args.seed})["seed"]
                record = record_of(mutant) | {"seed": seed} | try_mutant(tree, graph, mutant, limits)
                with turn:
                    results.add(record)
                    by = f" by {record['by']}" if "by" in record else ""
                    place = f"{mutant.file}:{mutant.line + 1}"
                    time = f"{record.get('seconds', 0)} s; {waiting.qsize()} left"
                    print(f"{mutant.id} {record['outcome']}{by}: {place} {mutant.operator}, {time}", flush=True)
        except queue.Empty:
            pass
        except BaseException as error:
            failed.append(error)
            raise

    threads = [threading.Thread(target=work, args=(number,)) for number in range(min(args.jobs, len(mutants)))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        sys.exit(2)


def main() -> None:
    args = arguments()
    equivalents = Equivalents(EQUIVALENT)
    results = Results(args.results)
    rooms = args.room or ROOMS
    for entry in equivalents.stale(ROOT):
        print(f"{EQUIVALENT.name} names a line that is gone: {entry}", file=sys.stderr)
    if args.report:
        for seed in sorted({each["seed"] for each in results.records.values()}):
            print(f"seed {seed}")
            of_seed = [each for each in results.records.values() if each["seed"] == seed and each["room"] in rooms]
            print(report(of_seed, equivalents), end="\n\n")
        return
    drawn = draw(ROOT, rooms, args.count, args.seed)
    if args.survivors:
        of_rooms = [each for each in results.records.values() if each["room"] in rooms]
        alive = {each["id"] for each in of_rooms if each["outcome"] == "survived"}
        mutants = by_id(alive, results.records, drawn)
    elif args.only:
        mutants = by_id(set(args.only), results.records, drawn)
    else:
        mutants = drawn if args.list else [mutant for mutant in drawn if not results.is_done(mutant, args.near)]
    if args.list:
        for mutant in mutants:
            print(f"{mutant.id}  {mutant.file}:{mutant.line + 1}  {mutant.operator}")
            print(f"  - {mutant.before.strip()}\n  + {mutant.after.strip()}")
        return
    mutants = [mutant for mutant in mutants if equivalents.reason(mutant) is None or args.only]
    if mutants:
        run_all(mutants, results, args)
    ids = {mutant.id for mutant in (mutants if args.only or args.survivors else drawn)}
    print(report([record for each, record in results.records.items() if each in ids], equivalents))


if __name__ == "__main__":
    main()
