#!/usr/bin/env python3
"""Runs the commands and programs that README.md and docs/ show.

usage: docs_test.py PROGRAMS [PAGE...]     PROGRAMS: the folder bin of a build; default: every page but results and the
                                           generated snippets.md

Each code block is fenced and has a language:

    sh              runs; the blocks of a page run in one shell, in the order of the page
    python          runs; the blocks of a page run in one process, in the order of the page, before those of sh
    cpp, c, cmake   is written to the file of its mark, for the sh blocks of the page, or compiles
    json            is parsed
    text, mermaid   is not looked at: output, a picture, a file's layout

A mark is a comment directly before a block:

    <!-- file: NAME -->        writes the block to a file; for blocks of any language but sh
    <!-- compiles -->          compiles the block by itself, against the installed tree; for cpp and c
    <!-- needs: PROGRAM -->    runs the block only where the program is found
    <!-- not run: REASON -->   leaves the block out

A page runs in a folder of its own that holds a drawn model, `pruned-model` and `model.safetensors`, and the folder
`examples`. The programs come first in PATH. HOME is a folder whose `sparsmith` is the installed tree. Pages share a
cache, so that the model is searched once. No GPU is seen. Blocks of python run with PyTorch and the package of this
build, where set-up has made that environment.
"""

import ast
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import NamedTuple

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOT_READ = ("docs/results/", "docs/internals/snippets.md")
PYTHON = pathlib.Path(os.environ.get("DOCS_TEST_PYTHON", ROOT / ".deps/torch/bin/python"))
WRITTEN = {"cpp", "c", "cmake"}
RUN = {"sh", "python"}
LANGUAGES = {*RUN, "json", "text", "mermaid", *WRITTEN}
MOST_SECONDS = 240  # of a page; exit code 124
FENCE = re.compile(r"^( *)```(\S*)\s*$")
MARK = re.compile(r"^\s*<!-- (file|needs|not run|compiles)(?:: (.+))? -->\s*$")
COMPILERS = {"cpp": ["c++", "-x", "c++", "-std=c++20"], "c": ["cc", "-x", "c", "-std=c99"]}
LIST = re.compile(r"^([-*+]|\d+[.)]) ")
# The model of the examples: a layer of a language model, small enough that a search ends in seconds.
LAYERS = {
    "self_attn.q_proj": "64x128",
    "self_attn.k_proj": "32x128",
    "self_attn.v_proj": "32x128",
    "self_attn.o_proj": "128x64",
    "mlp.gate_proj": "192x128",
    "mlp.up_proj": "192x128",
    "mlp.down_proj": "128x192",
}
CONFIG = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "dtype": "float16",
    "hidden_size": 128,
    "intermediate_size": 192,
    "num_hidden_layers": 1,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 16,
    "vocab_size": 256,
    "bos_token_id": 1,
    "eos_token_id": 2,
    "tie_word_embeddings": True,
}
# Blocks with their places; the place is printed before a block runs.
RUN_PYTHON = """import json, sys
names = {"__name__": "__main__"}
for where, text in json.loads(sys.argv[1]):
    print("\\036" + where, flush=True)
    exec(compile(text, where, "exec"), names)
"""


class Block(NamedTuple):
    where: str  # page:line
    language: str
    text: str
    mark: str  # "", "file", "compiles", "needs" or "not run"
    word: str  # of the mark


class PageError(Exception):
    """A page that breaks a rule above, or whose commands fail."""


def blocks_of(page: pathlib.Path, name: str) -> Iterator[Block]:
    lines = page.read_text(encoding="utf-8").splitlines()
    number, in_list = 0, False
    while number < len(lines):
        line = lines[number]
        number += 1
        if fence := FENCE.match(line):
            start, body = number, []
            while number < len(lines) and not FENCE.match(lines[number]):
                body.append(lines[number].removeprefix(fence[1]))
                number += 1
            if number == len(lines):
                raise PageError(f"{name}:{start}: a block without an end")
            number += 1
            mark = MARK.match(lines[start - 2]) if start > 1 else None
            yield Block(f"{name}:{start}", fence[2], "\n".join(body) + "\n", *(mark.groups("") if mark else ("", "")))
        elif line.startswith("    ") and not in_list and not (number > 1 and lines[number - 2].strip()):
            raise PageError(f"{name}:{number}: an indented block; give it fences and a language")
        elif line and not line.startswith(" "):
            in_list = bool(LIST.match(line))


def check(block: Block) -> None:
    """Raises where a block breaks a rule or is not of its language."""
    if block.language not in LANGUAGES:
        raise PageError(f'{block.where}: no language "{block.language}"; one of {", ".join(sorted(LANGUAGES))}')
    if block.mark and bool(block.word) == (block.mark == "compiles"):
        raise PageError(f"{block.where}: `{block.mark}: {block.word}` is no mark")
    if block.language in WRITTEN and block.mark not in ("file", "compiles", "not run"):
        raise PageError(f"{block.where}: no `file: NAME`, `compiles` or `not run: REASON` stands before the block")
    if block.mark == "compiles" and block.language not in COMPILERS:
        raise PageError(f"{block.where}: {block.language} does not compile")
    if block.language == "sh" and block.mark == "file":
        raise PageError(f"{block.where}: a block of sh runs; it is no file")
    if block.mark == "not run":
        return
    try:
        if block.language == "json":
            json.loads(block.text)
        elif block.language == "python":
            ast.parse(block.text)
    except (ValueError, SyntaxError) as error:
        raise PageError(f"{block.where}: {error}") from error


class Rooms:
    """The folders in which pages run, and what they have in common."""

    def __init__(self, programs: pathlib.Path, folder: pathlib.Path) -> None:
        self.programs, self.folder = programs, folder
        self.path = os.pathsep.join([str(programs), os.environ["PATH"], "/usr/local/cuda/bin"])
        self.home = folder / "home"
        self.home.mkdir()
        self.model = folder / "model.safetensors"

    def run(self, command: list[str], at: pathlib.Path) -> str:
        """Output and errors of a command; "" where it succeeds, with a last line where it does not."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("SPARSMITH_TEST")}
        environment |= {"PATH": self.path, "HOME": str(self.home), "XDG_CACHE_HOME": str(self.folder / "cache")}
        environment |= {"CUDA_VISIBLE_DEVICES": "", "TMPDIR": str(self.folder)}
        environment |= {"SPARSMITH_ROOT": str(self.programs.parent), "PYTHONPATH": str(ROOT / "python")}
        environment |= {"PYTHONDONTWRITEBYTECODE": "1", "HF_HUB_OFFLINE": "1"}
        command = ["timeout", str(MOST_SECONDS), *command]
        done = subprocess.run(command, cwd=at, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, errors="replace", check=False)  # fmt: skip
        return f"{done.stdout}\nexit code {done.returncode}" if done.returncode else ""

    def draw_model(self) -> None:
        command = ["sparsmith", "synth", "-o", str(self.model), "--dtype", "fp16", "--seed", "1"]
        for name, shape in LAYERS.items():
            command += ["--weight", f"model.layers.0.{name}.weight:{shape}:0.9:lognormal:0.5"]
        if failed := self.run(command, self.folder):
            raise PageError(f"the model of the examples cannot be drawn: {failed}")

    def install(self) -> None:
        """The tree of this build, as ~/sparsmith."""
        if (self.home / "sparsmith").exists():
            return
        command = ["cmake", "--install", str(self.programs.parent), "--prefix", str(self.home / "sparsmith"), "--strip"]
        if failed := self.run(command, self.folder):
            raise PageError(f"the build cannot be installed: {failed}")

    def room(self, name: str) -> pathlib.Path:
        room = self.folder / re.sub(r"\W", "_", name)
        (room / "pruned-model").mkdir(parents=True)
        (room / "examples").symlink_to(ROOT / "examples")
        for copy in ("model.safetensors", "pruned-model/model.safetensors"):
            shutil.copy(self.model, room / copy)
        (room / "pruned-model/config.json").write_text(json.dumps(CONFIG), encoding="utf-8")
        return room

    def run_page(self, name: str, blocks: list[Block]) -> None:
        if not self.model.exists():
            self.draw_model()
        if any("~/sparsmith" in block.text for block in blocks):
            self.install()
        room = self.room(name)
        script, steps = ["set -euo pipefail"], []
        for block in blocks:
            if block.mark == "compiles":
                self.compile(block)
            elif block.mark == "file":
                (room / block.word).parent.mkdir(parents=True, exist_ok=True)
                (room / block.word).write_text(block.text, encoding="utf-8")
            elif block.language == "python":
                steps.append((block.where, block.text))
            else:
                script += [f"printf '\\036%s\\n' '{block.where}'", block.text]
        commands = [[str(PYTHON), "-c", RUN_PYTHON, json.dumps(steps)]] if steps else []
        for command in [*commands, ["bash", "-c", "\n".join(script)]]:
            if failed := self.run(command, room):
                raise PageError(failed.rpartition("\036")[2])

    def compile(self, block: Block) -> None:
        self.install()
        file = self.folder / f"block.{block.language}"
        file.write_text(block.text, encoding="utf-8")
        command = [*COMPILERS[block.language], "-Wall", "-Wextra", "-Werror", "-fsyntax-only"]
        command += ["-isystem", str(self.home / "sparsmith/include"), "-isystem", str(ROOT / ".deps/cuda/include")]
        if failed := self.run([*command, str(file)], self.folder):
            raise PageError(f"{block.where}\n{failed}")


def runs(block: Block) -> bool:
    """Whether the block is one of commands, and not a file or left out."""
    return block.language in RUN and block.mark in ("", "needs")


def is_run(block: Block, rooms: Rooms) -> bool:
    if block.language == "python" and runs(block) and not PYTHON.is_file():
        return False
    if block.mark == "needs":
        return shutil.which(block.word, path=rooms.path) is not None
    return runs(block) or block.mark in ("file", "compiles")


def main() -> None:
    if len(sys.argv) < 2 or not (pathlib.Path(sys.argv[1]) / "sparsmith").is_file():
        sys.exit("docs_test: name the folder of the programs, such as build/ci/bin")
    programs = pathlib.Path(sys.argv[1]).resolve()
    pages = [pathlib.Path(page).resolve() for page in sys.argv[2:]]
    if not pages:
        pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    failures, ran, left, without = [], {"sh": 0, "python": 0}, 0, 0
    with tempfile.TemporaryDirectory() as folder:
        rooms = Rooms(programs, pathlib.Path(folder))
        for page in pages:
            name = str(page.relative_to(ROOT)) if page.is_relative_to(ROOT) else page.name
            if name.startswith(NOT_READ):
                continue
            start = time.monotonic()
            try:
                blocks = list(blocks_of(page, name))
                for block in blocks:
                    check(block)
                to_run = [block for block in blocks if is_run(block, rooms)]
                if any(block.mark == "compiles" or runs(block) for block in to_run):
                    rooms.run_page(name, to_run)
                    print(f"{name}: {time.monotonic() - start:.1f} s", flush=True)
                elif any(block.language in WRITTEN for block in to_run):
                    raise PageError(f"{name}: files are written, and no block of sh uses them")
                for block in filter(runs, to_run):
                    ran[block.language] += 1
                left += sum(block.mark == "not run" for block in blocks)
                without += sum(block.language == "python" and runs(block) and not PYTHON.is_file() for block in blocks)
            except PageError as error:
                failures.append(str(error))
    print(f"{ran['sh']} blocks of sh and {ran['python']} of python ran; {left} blocks are marked as not run")
    if without:
        print(f"{without} blocks of python did not run: there is no PyTorch for tests; `cmake/setup.sh torch` fetches it")
    if failures:
        sys.exit("\n".join(f"FAILED: {failure}" for failure in failures))


if __name__ == "__main__":
    main()
