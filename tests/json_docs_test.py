#!/usr/bin/env python3
"""Compares docs/reference/json.md with the JSON that the commands print.

usage: json_docs_test.py FOLDER_OF_PROGRAMS [--print]

Each section of the page names its commands in the heading, and has a table: member, type, meaning. Members are paths:
`weights[].name`; `*` stands for a name that is data. A type that ends with `?` is of a member that may be missing. Fails
where a command prints a member that the page lacks, or the page has one that no command prints. --print shows the
members instead.
"""

import json
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests/support"))
import drawn_results

PAGE = ROOT / "docs/reference/json.md"
SPACES = ROOT / "tests/fuzz/seeds/recorded_space/two_runs.jsonl"
# Objects whose members are named by data.
MAPS = {"rejected", "cuts", "pruned", "best_us_of_families", "snippets", "bytes", "counts", "operators", "missing"}


def outputs(program, folder):
    """(command, JSON) of every command."""

    def run(*arguments):
        done = subprocess.run([program, *map(str, arguments)], cwd=folder, capture_output=True, text=True, check=False)
        if done.returncode != 0 and arguments[0] not in ("doctor", "perf"):
            sys.exit(f"json_docs_test: {arguments} ends with {done.returncode}: {done.stderr}")
        return done.stdout

    def spoken(command, *arguments):
        document = json.loads(run(*command.split(), *arguments, "--json"))
        if document.get("schema_version") != 1:
            sys.exit(f"json_docs_test: {command} prints no schema_version")
        return command, document

    yield spoken(
        "synth", "-o", "m.safetensors", "--weight", "l.0.q:96x128:0.9:uniform", "--weight", "l.0.k:96x128:0.8:uniform"
    )
    yield spoken("synth", "-o", "p.smtx", "--shape", "8x8")
    yield spoken("analyze", "m.safetensors")
    tune = ["m.safetensors", "--device", "emulator", "--cache", "c.db", "--tokens", "1,8", "--vs", "cusparse"]
    yield spoken("tune", *tune, "-o", "t.safetensors", "--min-sparsity", "0.85")
    yield spoken("tune", *tune, "-o", "g.safetensors", "--group", "qk:*.q,*.k", "--again")
    split = ["--tensor-parallel", "2", "--split", "s/4:rows=l.0.q,rows=l.0.k"]
    yield spoken("tune", *tune, "-o", "p.tuned.safetensors", *split)
    yield spoken("tune", *tune, "-o", "train.safetensors", "--min-sparsity", "0.85", "--train")
    yield spoken("tune --units", "3", "m.safetensors", "-o", "none")
    yield spoken("bench", "m.safetensors", "--device", "emulator", "--cache", "c.db", "--ablation")
    yield spoken("bench", "t.safetensors", "--device", "emulator")
    yield spoken("bench --break-even", "96x128", "--points", "2", "--device", "emulator", "--no-cache")
    yield spoken("run", "t.safetensors", "--device", "emulator")
    yield spoken("show", "g.safetensors")
    yield spoken("show", "p.rank1.tuned.safetensors")
    yield spoken("show --tensor", "l.0.q", "t.safetensors", "--source", "--why", "--cache", "c.db")
    yield spoken("show --tensor", "l.0.q", "p.rank0.tuned.safetensors")
    yield spoken("cache ls", "--cache", "c.db")
    yield spoken("cache verify", "--cache", "c.db")
    yield spoken("cache export", "e.db", "--cache", "c.db")
    yield spoken("cache import", "e.db", "--cache", "i.db")
    yield spoken("cache merge", "e.db", "--cache", "i.db")
    yield spoken("cache gc", "--cache", "i.db")
    yield spoken("space list", SPACES)
    yield spoken("space simulate", SPACES, "--runs", "2")
    yield spoken("space join", SPACES, "-o", "j.jsonl.gz")
    yield spoken("space export-t4", SPACES, "-o", "t4")
    yield spoken("report", "m.safetensors", "-o", "r.html")
    yield spoken("doctor")
    for commit, files in drawn_results.write_rounds(folder, "hostile <name>").items():
        yield spoken("perf record", *(word for file in files for word in ("--bench", file)), "--commit", commit)
    (folder / "other.json").write_text(
        json.dumps(drawn_results.Results(9).round(["other.weight"], 0)), encoding="utf-8"
    )
    yield spoken("perf record", "--bench", "other.json", "--commit", "f00")
    yield spoken("perf compare", "c0000", "f00")
    yield spoken("perf mark", "c0012", "--reason", "exact sums")
    yield spoken("perf compare", "c0000", "c0013")
    yield spoken("perf history")


def members(value, path=""):
    """The paths of all members of a JSON value."""
    if isinstance(value, list):
        for element in value:
            yield from members(element, path + "[]")
    if isinstance(value, dict):
        named_by_data = path.split(".")[-1] in MAPS and not ("pairs" in value or "unmet" in value)
        for key, inner in value.items():
            at = f"{path}.{'*' if named_by_data else key}".lstrip(".")
            yield at
            yield from members(inner, at)


def documented():
    """{command: {path: may be missing}} of the page; commands of one section share an object."""
    tables, commands = {}, {}
    rows = {}
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if line.startswith("## "):
            rows = {}
            commands.update(dict.fromkeys(re.findall("`([^`]+)`", line), rows))
        elif line.startswith("### "):
            rows = tables[line[4:]] = {}
        elif row := re.match(r"\| `([^`]+)` \| ([^|]+) \|", line):
            rows[row[1]] = row[2].strip()

    def paths(rows, prefix=""):
        for name, kind in rows.items():
            at = prefix + name
            yield at, kind.endswith("?") or "{" in kind
            inner = kind.strip("[]{}?")
            inside = "[]." if kind.startswith("[") else ".*." if kind.startswith("{") else "."
            if kind.startswith("{"):
                yield at + ".*", True
            if inner in tables:
                for path, optional in paths(tables[inner], at + inside):
                    yield path, optional or kind.endswith("?")
            elif inner[0].isupper():
                sys.exit(f"docs/reference/json.md: there is no object {inner}")

    expanded = {id(rows): dict(paths(rows)) for rows in commands.values()}
    return {command: expanded[id(rows)] for command, rows in commands.items()}


def main():
    program = Path(sys.argv[1]).resolve() / "sparsmith"
    printed = {}
    with tempfile.TemporaryDirectory() as folder:
        os.environ["XDG_CACHE_HOME"] = folder
        for command, document in outputs(program, Path(folder)):
            printed.setdefault(command, set()).update(members(document))
    if "--print" in sys.argv:
        for command, paths in printed.items():
            print(f"\n## `{command}`", *sorted(paths), sep="\n")
        return 0
    page = documented()
    problems = [f"{command} has no section" for command in printed if command not in page]
    problems += [
        f"{command} prints {path}"
        for command, paths in printed.items()
        for path in sorted(paths - page.get(command, {}).keys())
    ]
    for section in {id(section): section for section in page.values()}.values():
        commands = [command for command in page if page[command] is section]
        seen = set().union(*(printed.get(command, set()) for command in commands))
        problems += [
            f"no output of {', '.join(commands)} has {path}"
            for path, optional in section.items()
            if path not in seen and not optional
        ]
    for problem in problems:
        print(f"docs/reference/json.md: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
