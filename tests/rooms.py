#!/usr/bin/env python3
"""Counts the code of the rooms, and draws and checks which of them includes which.

    tests/rooms.py lines [COMMIT]   lines of product code by room, of the working tree or of a commit
    tests/rooms.py picture          the picture in docs/internals/design.md
    tests/rooms.py picture --write  puts it there
    tests/rooms.py check            fails where an include runs from an earlier room to a later one, or folders of a
                                    room include each other in a circle (its top folder does not count: it may hold
                                    both the base and the roof); where a folder of generator/, search/, tuner/ or
                                    tools/ has more than 40 files; where the picture in docs/internals/design.md is
                                    not that of the code; where a document links to a file that is not there; and
                                    where a file has a word that another one has replaced

A line of code is neither blank nor only a comment. Product code is built, installed or run as part of the program:
no tests, test support, benchmarks, examples, documents or generated files.
"""

import argparse
import collections
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
# In the order in which they may include each other.
ROOMS = ["include", "base", "matrix", "formats", "runtime", "emulator", "snippets", "generator", "snippetc", "cache",
         "tuner", "search", "history", "tools", "python"]
SUFFIXES = {".h", ".cc", ".cuh", ".cu", ".c", ".S", ".py", ".sh", ".js", ".css"}
FLOORED = ["generator", "tuner", "search", "tools"]
MOST_FILES = 40  # of a folder of these rooms, tests counted
DESIGN = ROOT / "docs/internals/design.md"
# Words for a config on its way to a choice, and for what is part of a tuning run: retired, see the words of design.md.
RETIRED = re.compile(r"(contender|decision|(?<!free)(?<!under)(?<!out)standings?\b|measurer|tune_?context|weight_?tuner"
                     r"|(space|config)_?entry\b)", re.IGNORECASE)
GENERATED = {"generator/catalogue_data.inc"}
# Files for tests alone that stand, or stood in earlier commits, beside product code.
SUPPORT = re.compile(r"(^|/)testdata/|^python/tests/|_test(_\w+)?\.|_fixture\.|(^|/)(drawn|fake|scripted|planted|synthetic)_|(_benchmark|_under_test)\."
                     r"|/kernel_bench\.|/sample_weight\.|/tuned_sample\.|/host_allocations\.|/measured_turns\."
                     r"|/postgres_server\.|^tools/expect\.sh")


def is_product(path):
    return (path.split("/")[0] in ROOMS and pathlib.PurePath(path).suffix in SUFFIXES and path not in GENERATED
            and not SUPPORT.search(path))


def code_lines(path, text):
    if path.endswith((".py", ".sh")):
        text = re.sub(r'^\s*"""(.*?)"""', "", text, flags=re.DOTALL | re.MULTILINE)
        return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("#"))
    text = re.sub(r"^\s*/\*.*?\*/", "", text, flags=re.DOTALL | re.MULTILINE)
    return sum(1 for line in text.splitlines() if line.strip() and not line.strip().startswith("//"))


def git(*arguments):
    return subprocess.run(["git", "-C", str(ROOT), *arguments], check=True, capture_output=True, text=True).stdout


def files_of(rooms):
    """The files of the working tree below these folders."""
    found = (path for room in rooms for path in (ROOT / room).rglob("*"))
    return sorted(str(path.relative_to(ROOT)) for path in found if path.is_file() and "__pycache__" not in path.parts)


def product_files(commit=None):
    """Yields (path, text) of the working tree, or of a commit."""
    if commit:
        for path in filter(is_product, git("ls-tree", "-r", "--name-only", commit).splitlines()):
            yield path, git("show", f"{commit}:{path}")
    else:
        for path in filter(is_product, files_of(ROOMS)):
            yield path, (ROOT / path).read_text()


def print_lines(commit):
    files, lines = collections.Counter(), collections.Counter()
    for path, text in product_files(commit):
        room = path.split("/")[0]
        files[room] += 1
        lines[room] += code_lines(path, text)
    print(f"{'room':<10} {'files':>6} {'lines':>7}")
    for room in ROOMS:
        if files[room]:
            print(f"{room:<10} {files[room]:>6} {lines[room]:>7}")
    print(f"{'all':<10} {files.total():>6} {lines.total():>7}")


def folder_of(path):
    """The folder that stands for a file in pictures: families are one."""
    folder = str(pathlib.PurePath(path).parent)
    return re.sub(r"^generator/families/.*", "generator/families", folder)


def includes():
    """Pairs of (including file, included file) of product code, but for what the toolchain brings."""
    known = {path for path, _ in product_files()} | GENERATED
    for path, text in product_files():
        for name in re.findall(r'^#include "([^"]+)"', text, flags=re.MULTILINE):
            included = name if name in known else f"include/{name}"
            if included in known:
                yield path, included


def reduced(arrows):
    """Without arrows that a longer way says too."""

    def reaches(start, goal, but):
        seen, waiting = set(), [start]
        while waiting:
            folder = waiting.pop()
            for end in arrows.get(folder, ()):
                if end not in seen and (folder, end) != but:
                    seen.add(end)
                    waiting.append(end)
        return goal in seen

    return {start: {end for end in ends if not reaches(start, end, (start, end))} for start, ends in arrows.items()}


def arrows_between(name_of):
    arrows = collections.defaultdict(set)
    for source, target in includes():
        start, end = name_of(source), name_of(target)
        if start and end and start != end:
            arrows[start].add(end)
    return arrows


def drawn(arrows):
    lines = ["```mermaid", "graph LR"]
    lines += [f"  {start} --> {' & '.join(sorted(ends))}" for start, ends in sorted(reduced(arrows).items())]
    return "\n".join([*lines, "```"])


def picture():
    return drawn(arrows_between(lambda path: path.split("/")[0]))


def with_picture(text):
    begin, end = "<!-- picture of the rooms -->\n", "<!-- end -->"
    head, tail = text.split(begin, 1)
    return head + begin + picture() + "\n" + end + tail.split(end, 1)[1]


def circle(arrows):
    """Some folders that include each other in a circle, or None."""
    state = {}

    def visit(folder, way):
        state[folder] = "open"
        for end in sorted(arrows.get(folder, ())):
            if state.get(end) == "open":
                return [*way[way.index(end):], end]
            if end not in state and (found := visit(end, [*way, end])):
                return found
        state[folder] = "done"
        return None

    for folder in sorted(arrows):
        if folder not in state and (found := visit(folder, [folder])):
            return found
    return None


def problems():
    for source, target in includes():
        if ROOMS.index(target.split("/")[0]) > ROOMS.index(source.split("/")[0]):
            yield f"{source} includes {target}, of a later room"
    floors = arrows_between(lambda path: folder_of(path) if "/" in folder_of(path) else None)
    if found := circle(floors):
        yield "a circle of includes: " + " -> ".join(found)
    sizes = collections.Counter(str(pathlib.PurePath(path).parent) for path in files_of(FLOORED))
    for folder, size in sorted(sizes.items()):
        if size > MOST_FILES:
            yield f"{folder} has {size} files; {MOST_FILES} is the most"
    for path in git("ls-files", *ROOMS, "docs", "tests", "bench", "examples", "README.md").splitlines():
        if path.endswith((*SUFFIXES, ".md")) and path != "tests/rooms.py" and (ROOT / path).exists():
            for number, line in enumerate((ROOT / path).read_text().splitlines(), 1):
                if found := RETIRED.search(line):
                    yield f"{path}:{number}: \"{found[0]}\" is retired; docs/internals/design.md has the word"
    if DESIGN.read_text() != with_picture(DESIGN.read_text()):
        yield "docs/internals/design.md has another picture: run tests/rooms.py picture --write"


def broken_links():
    """Links of documents to files that are not there."""
    for path in filter(lambda path: (ROOT / path).exists(), git("ls-files", "*.md").splitlines()):
        for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", (ROOT / path).read_text(encoding="utf-8")):
            if "://" not in target and not (ROOT / path).parent.joinpath(target).exists():
                yield f"{path}: the link to {target} leads nowhere"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["lines", "picture", "check"])
    parser.add_argument("commit", nargs="?")
    parser.add_argument("--write", action="store_true", help="puts the picture into docs/internals/design.md")
    options = parser.parse_args()
    if options.command == "lines":
        print_lines(options.commit)
    elif options.command == "picture" and options.write:
        DESIGN.write_text(with_picture(DESIGN.read_text()))
    elif options.command == "picture":
        print(picture())
    else:
        found = [*problems(), *broken_links()]
        sys.exit("\n".join(found) if found else 0)


if __name__ == "__main__":
    main()
