"""docs/reference/python.md is what the docstrings say, and they say something of every public name."""

import importlib.util
import inspect
import pathlib

import sparsmith

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = "cmake/docs/python_reference.py"


def load_script():
    spec = importlib.util.spec_from_file_location("python_reference", ROOT / SCRIPT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_fresh():
    page = (ROOT / "docs/reference/python.md").read_text(encoding="utf-8")
    assert page == load_script().page(), \
        f"the page is out of date: the usage of {SCRIPT} makes it anew"


def test_every_public_name_is_documented():
    page = load_script().page()
    for name in sparsmith.__all__:
        thing = getattr(sparsmith, name)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            assert thing.__doc__ and f"\n### {name}\n" in page
    for operator in ("linear", "linear_out", "to_dense"):
        assert f"`{operator}`" in page or f"torch.ops.sparsmith.{operator}(" in page
