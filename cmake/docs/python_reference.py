"""Prints docs/reference/python.md: the public names of the package, from their signatures and docstrings.

usage: PYTHONPATH=python SPARSMITH_ROOT=BUILD .deps/torch/bin/python cmake/docs/python_reference.py \
           >docs/reference/python.md
"""

import doctest
import importlib.util
import inspect
import re
import textwrap
import types
from collections.abc import Iterator

import sparsmith

INTRODUCTION = """# The Python package

`import sparsmith` needs PyTorch 2.7 or later, and no GPU. [The quick start](../start/pytorch.md) shows the use. W is a
weight, [out_features, in_features]; x is an input, [..., in_features]. Errors of sparsmith are `SparsmithError`, unless
a function names others. This page is the output of `cmake/docs/python_reference.py`, which reads the docstrings.
"""
SECTIONS = {
    "Optimize and patch a model": ["optimize", "patch_model", "unpatch_model", "PatchReport", "LayerReport"],
    "Report of a patched model": ["report_model", "ModelReport", "StepProfile", "KernelTime"],
    "Tuned files": ["tune", "load", "TunedFile", "TunedWeight", "Choice", "Member"],
    "Layers": ["SparseLinear", "TrainableSparseLinear", "SparseGroup", "SparseGroupMember"],
    "2:4 training": ["SemiSparseLinear", "SparseThenDense", "swap_linear_with_semi_sparse_linear",
                     "swap_semi_sparse_linear_with_linear"],
    "Block-sparse layers": ["BlockSparseLinear", "ModelPatcher", "BlockSparseModelPatcher"],
    "Errors": ["SparsmithError"],
}
SUBMODULES = ["prune", "training", "patterns", "cluster", "hf", "ops"]
TITLES = {"Args": "Arguments", "Returns": "Returns", "Raises": "Errors"}


def public_names(module: types.ModuleType) -> list[str]:
    """Of a submodule: its functions and classes, in the order of the source; those of ``__all__`` if it has that."""
    return [name for name, thing in vars(module).items() if not name.startswith("_")
            and isinstance(thing, (type, types.FunctionType)) and thing.__module__ == module.__name__
            and name in getattr(module, "__all__", [name])]  # fmt: skip


def documented() -> set[str]:
    names = {name for name in sparsmith.__all__ if isinstance(getattr(sparsmith, name), (type, types.FunctionType))}
    return names.union(*(public_names(module) for module in submodules()))


def submodules() -> list[types.ModuleType]:
    found = [name for name in SUBMODULES if importlib.util.find_spec("sparsmith." + name)]
    return [importlib.import_module("sparsmith." + name) for name in found]


def signature(name: str, thing: object, width: int = 110) -> str:
    function = inspect.signature(thing)
    parts, starred = [], False
    for parameter in function.parameters.values():
        if parameter.name in ("self", "cls"):
            continue
        if parameter.kind is parameter.KEYWORD_ONLY and not starred:
            parts, starred = [*parts, "*"], True
        starred |= parameter.kind is parameter.VAR_POSITIONAL
        text = str(parameter.replace(annotation=parameter.empty, default=parameter.empty))
        text += "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
        text += "" if parameter.default is parameter.empty else f" = {parameter.default!r}"
        parts.append(text)
    result = "" if function.return_annotation in (function.empty, "None") else f" -> {function.return_annotation}"
    line = f"{name}({', '.join(parts)}){result}"
    return line if len(line) <= width else f"{name}(\n    " + ",\n    ".join(parts) + f"\n){result}"


def prose(text: str) -> str:
    """reStructuredText of a docstring as Markdown."""

    def role(match: re.Match[str]) -> str:
        name = match[2].removeprefix("sparsmith.")
        has_heading = match[1] in ("func", "class") and name in documented()
        return f"[`{match[2]}`](#{name.lower()})" if has_heading else f"`{match[2]}`"

    text = re.sub(r":(\w+):`([^`]+)`", role, text)
    return re.sub(r"``([^`]+)``", r"`\1`", text)


def example(text: str) -> str:
    """A block that the documentation's test runs: examples of doctest, their output as comments."""
    lines = []
    for step in doctest.DocTestParser().get_examples(text):
        want = step.want.rstrip("\n").splitlines()
        source = step.source.rstrip("\n")
        lines.append(f"{source}  # {want[0]}" if len(want) == 1 else "\n".join([source, *("# " + w for w in want)]))
    return "```python\n" + "\n".join(lines) + "\n```"


def section(title: str, text: str) -> str:
    """A section of a docstring: `name: meaning` lines are a list, others are text."""
    text = inspect.cleandoc(text)
    if title == "Example":
        return example(text)
    items = re.sub(r"^(\w[\w, ]*): ", lambda names: f"- `{names[1].replace(', ', '`, `')}`: ", text, flags=re.MULTILINE)
    items = prose(re.sub(r"^    ", "  ", items, flags=re.MULTILINE))
    return f"{TITLES[title]}:\n\n{items}" if items.startswith("- ") else wrapped(f"{TITLES[title]}: {text}")


def markdown(doc: str | None) -> str:
    parts = []
    for part in re.split(r"\n\n+(?! )", inspect.cleandoc(doc or "")):
        text, _, code = part.partition("\n\n    ")
        head, _, rest = text.partition("\n")
        if head.removesuffix(":") in (*TITLES, "Example") and head.endswith(":"):
            parts.append(section(head[:-1], "\n" + rest))
        else:
            parts.append(prose(text) if text.startswith("- ") else wrapped(text))
        if code:
            parts.append("<!-- not run: fragment -->\n```python\n" + inspect.cleandoc("\n    " + code) + "\n```")
    return "\n\n".join(parts)


def wrapped(text: str, indent: str = "") -> str:
    return textwrap.fill(prose(" ".join(text.split())), 120, subsequent_indent=indent, break_long_words=False,
                         break_on_hyphens=False)  # fmt: skip


def item(code: str, text: str | None) -> str:
    """A line of a list."""
    return wrapped(f"- `{code}`: {text}" if text else f"- `{code}`", "  ")


def fields(cls: type) -> Iterator[str]:
    """The fields of a dataclass or named tuple; their meanings are comments."""
    field = re.compile(r"^    (\w+): ([^=#\n]+?)(?: *= [^#\n]+)?(?:  # (.+))?$", re.MULTILINE)
    for match in field.finditer(inspect.getsource(cls)):
        yield item(f"{match[1]}: {match[2]}", match[3])


def members(cls: type) -> Iterator[str]:
    """Properties and methods that a class has of its own or from a base in sparsmith."""
    own = {}
    for base in reversed(cls.__mro__):
        if base.__module__.startswith("sparsmith"):
            own |= {name: thing for name, thing in vars(base).items() if not name.startswith("_")}
    for name, thing in own.items():
        function = getattr(thing, "fget", None) or getattr(thing, "__func__", thing)
        if isinstance(thing, property):
            yield item(f"{name}: {function.__annotations__['return']}", function.__doc__)
        elif inspect.isfunction(function) and function.__doc__:
            yield item(signature(name, function, 999), function.__doc__)


def entry(name: str, thing: object) -> str:
    if isinstance(thing, type) and thing.__name__ != name:
        return f"### {name}\n\nThe same as `{thing.__name__}`."
    parts = [f"### {name}"]
    is_record = "__dataclass_fields__" in vars(thing) or (isinstance(thing, type) and issubclass(thing, tuple))
    if not is_record and not (isinstance(thing, type) and issubclass(thing, Exception)):
        parts.append(f"```text\n{signature(name, thing)}\n```")
    parts.append(markdown(thing.__doc__))
    if isinstance(thing, type):
        lines = [*(fields(thing) if is_record else ()), *members(thing)]
        parts.append("\n".join(lines))
    return "\n\n".join(part for part in parts if part)


def page() -> str:
    parts = [INTRODUCTION.strip()]
    placed = {name for names in SECTIONS.values() for name in names}
    left = [name for name in sparsmith.__all__ if name in documented() - placed]
    for title, names in [*SECTIONS.items(), ("Further names", left)]:
        if names := [name for name in names if name in sparsmith.__all__]:
            parts += [f"## {title}", *(entry(name, getattr(sparsmith, name)) for name in names)]
    for module in submodules():
        parts += [f"## {module.__name__}", markdown(module.__doc__)]
        if module is not sparsmith.ops:  # its operators are in its docstring
            parts += [entry(name, getattr(module, name)) for name in public_names(module)]
    return "\n\n".join(parts) + "\n"


if __name__ == "__main__":
    print(page(), end="")
