"""Docstrings say what the signatures say, and their examples print what they say."""

import ast
import doctest
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
from numpydoc.docscrape import NumpyDocString

PACKAGE = Path(__file__).resolve().parent.parent / "replay"
KERNELS = {"kernel", "loop", "step", "inline", "called", "apart"}


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef]:
    """Functions and methods of a module, not those inside functions."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef):
            yield node
        elif isinstance(node, ast.ClassDef | ast.If):
            yield from functions(node)


def documented(docstring: str) -> list[str]:
    sections = NumpyDocString(docstring)
    listed = [*sections["Parameters"], *sections["Other Parameters"]]
    return [name.strip().lstrip("*") for each in listed for name in each.name.split(",")]


def parameters(node: ast.FunctionDef) -> list[str]:
    given = node.args
    every = [*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg]
    return [each.arg for each in every if each is not None and each.arg not in ("self", "cls")]


def is_kernel(node: ast.FunctionDef) -> bool:
    names = {each.id for deco in node.decorator_list for each in ast.walk(deco) if isinstance(each, ast.Name)}
    return bool(names & KERNELS)


each_file = pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE))
)


@each_file
def test_parameters_match_the_signature(path: Path) -> None:
    """A docstring with a section Parameters lists them all, in order; a kernel's may list a part."""
    wrong = []
    for node in functions(ast.parse(path.read_text(encoding="utf-8"))):
        listed, actual = documented(ast.get_docstring(node) or ""), parameters(node)
        if not listed:
            continue
        expected = [each for each in actual if each in listed] if is_kernel(node) else actual
        if listed != expected:
            wrong.append(f"{node.name}:{node.lineno} documents {listed}, takes {actual}")
    assert not wrong, "; ".join(wrong)


@each_file
def test_examples_hold(path: Path) -> None:
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    module = import_module(".".join(parts).removesuffix(".__init__"))
    assert doctest.testmod(module).failed == 0


def test_every_module_says_what_it_is() -> None:
    silent = [path for path in PACKAGE.rglob("*.py") if not ast.get_docstring(ast.parse(path.read_text()))]
    assert not silent
