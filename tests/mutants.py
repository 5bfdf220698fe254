"""python tests/mutants.py [--sample N] [--seed S] [FILE ...]: does a wrong formula fail a test?

One place of a file is made wrong at a time, in a copy of the project: an operator, a comparison, a
number, a dropped term, two swapped arguments. Then the quick tests of that file run, until the
first one fails. A change that no test notices is a survivor, and is listed: either a test is
missing, or the change means the same. A test that runs too long has noticed. Needs a system that
can fork.
"""

import argparse
import ast
import contextlib
import importlib
import multiprocessing
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[1]
# a file, and the tests that have to notice what goes wrong in it, the quickest first
TESTS = {
    "minprm/algorithms.py": ["test_algorithms.py", "test_rl_credit.py", "test_walks.py"],
    "minprm/zoo.py": ["test_algorithms.py", "test_rl_credit.py", "test_peer.py"],
    "minprm/model/objective.py": ["test_objective.py", "test_policy.py"],
    "minprm/envs/base.py": ["test_splits.py", "test_envs.py"],
}
OPERATORS = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.Pow: ast.Mult,
    ast.FloorDiv: ast.Div, ast.Mod: ast.FloorDiv, ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd,
}  # fmt: skip
OPPOSITES = {
    ast.Lt: ast.GtE, ast.GtE: ast.Lt, ast.Gt: ast.LtE, ast.LtE: ast.Gt, ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip
BOUNDARIES = {ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt}
NAMES = {"max": "min", "min": "max", "any": "all", "all": "any", "maximum": "minimum",
         "minimum": "maximum", "sum": "mean", "mean": "sum"}  # fmt: skip
SYMMETRIC = ("max", "min", "maximum", "minimum")  # in their arguments


class Mutant(NamedTuple):
    """A file with one place made wrong."""

    file: str
    source: str
    change: str  # where, and what was made of what


def mutants(file: str, source: str) -> list[Mutant]:
    """Every mutant of a file.

    >>> [mutant.change for mutant in mutants("a.py", "x = y < 2")]
    ['a.py:1   y < 2   ->   y <= 2', 'a.py:1   y < 2   ->   y >= 2', 'a.py:1   2   ->   3']
    """
    found = []
    tree = ast.parse(source)
    skipped = _without_meaning(tree)
    for node in ast.walk(tree):
        if node in skipped:
            continue
        for new in wrong(node):
            wrong_source = ast.unparse(ast.fix_missing_locations(_replaced(tree, node, new)))
            change = f"{file}:{node.lineno}   {_short(node)}   ->   {_short(new)}"
            found.append(Mutant(file, wrong_source, change))
    return found


def wrong(node: ast.AST) -> Iterator[ast.AST]:
    """What a slip could have made of this node."""
    match node:
        case ast.BinOp(left, op, right):
            if type(op) in OPERATORS:
                yield ast.BinOp(left, OPERATORS[type(op)](), right)
            yield left
            yield right
        case ast.UnaryOp(_, operand):
            yield operand
        case ast.Compare(left, [op], right):
            for table in (BOUNDARIES, OPPOSITES):
                if type(op) in table:
                    yield ast.Compare(left, [table[type(op)]()], right)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.IfExp(_, body, orelse):
            yield body
            yield orelse
        case ast.If(test, body, orelse):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Constant(bool(value)):
            yield ast.Constant(not value)
        case ast.Constant(int(value) | float(value)):
            yield ast.Constant(value + 1)
        case ast.Call(ast.Attribute(value, "detach"), [], []):
            yield value
        case ast.Call(function, arguments, keywords):
            name = function.attr if isinstance(function, ast.Attribute) else _short(function)
            ordered = name not in SYMMETRIC and len(arguments) > 1
            if ordered:
                yield ast.Call(function, [arguments[1], arguments[0], *arguments[2:]], keywords)
            if isinstance(function, ast.Attribute) and function.attr in NAMES:
                other = ast.Attribute(function.value, NAMES[function.attr], function.ctx)
                yield ast.Call(other, arguments, keywords)
            for keyword in keywords:
                if keyword.arg != "strict":
                    yield ast.Call(function, arguments, [k for k in keywords if k is not keyword])


def _replaced(tree: ast.Module, old: ast.AST, new: ast.AST) -> ast.Module:
    """A copy of the tree with one node replaced."""
    if tree is old:
        return new
    copy = type(tree)(**dict(ast.iter_fields(tree)))
    for name, value in ast.iter_fields(tree):
        if isinstance(value, ast.AST):
            setattr(copy, name, _replaced(value, old, new))
        if isinstance(value, list):
            parts = [_replaced(x, old, new) if isinstance(x, ast.AST) else x for x in value]
            setattr(copy, name, parts)
    return copy


def _without_meaning(tree: ast.Module) -> set[ast.AST]:
    """The nodes that no number depends on: annotations, and the guard of zip(strict=True)."""
    roots = []
    for node in ast.walk(tree):
        roots += [getattr(node, "annotation", None), getattr(node, "returns", None)]
        if isinstance(node, ast.keyword) and node.arg == "strict":
            roots.append(node)
    return {node for root in roots if root for node in ast.walk(root)}


def _short(node: ast.AST) -> str:
    return ast.unparse(node).splitlines()[0][:90]


# --- running the tests ----------------------------------------------------------------------------


def copied(folder: str) -> Path:
    """A copy of the project's Python, in which files may be spoiled."""
    copy = Path(folder) / "project"
    ignored = shutil.ignore_patterns("__pycache__", ".*", "runs", "checkpoints")
    shutil.copytree(ROOT, copy, ignore=ignored)
    return copy


def load_libraries() -> None:
    """Imports what the tests import, and forgets what is ours: each test process imports that anew,
    in its spoiled form."""
    for name in (
        "minprm.arms.ladder",
        "hypothesis",
        "transformers.models.qwen3",
        "trl.trainer.grpo_trainer",
    ):
        with contextlib.suppress(ImportError):  # without trl its tests skip
            importlib.import_module(name)
    for name in list(sys.modules):
        if name.split(".")[0] == "minprm":
            del sys.modules[name]


def passes(tests: list[str], limit: float | None) -> bool:
    """Do all of these tests pass within so many seconds, in a process of their own?"""
    process = multiprocessing.get_context("fork").Process(target=_run, args=(tests,))
    process.start()
    process.join(limit)
    if process.is_alive():
        process.kill()
        process.join()
    return process.exitcode == 0


def _run(tests: list[str]) -> None:
    silence = os.open(os.devnull, os.O_WRONLY)
    os.dup2(silence, 1)
    os.dup2(silence, 2)
    os._exit(int(pytest.main(["-x", "-q", "-p", "no:cacheprovider", *tests])))


def tried(file: str, chosen: list[Mutant], copy: Path) -> list[Mutant]:
    """The survivors among the chosen mutants of a file."""
    tests = [file, *(f"tests/{name}" for name in TESTS[file])]  # the file itself for its doctests
    began = time.perf_counter()
    if not passes(tests, limit=None):
        raise SystemExit(f"{' '.join(tests)}: these fail before anything is changed")
    limit = 20 + 3 * (time.perf_counter() - began)
    right = (copy / file).read_text()
    survivors = []
    for mutant in chosen:
        (copy / file).write_text(mutant.source)
        if passes(tests, limit):
            survivors.append(mutant)
            print(mutant.change, flush=True)
    (copy / file).write_text(right)
    return survivors


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="*", metavar="FILE", help=", ".join(TESTS))
    parser.add_argument("--sample", type=int, default=0, help="so many mutants a file; 0: all")
    parser.add_argument("--seed", type=int, default=0, help="which ones")
    args = parser.parse_args()
    unknown = set(args.files) - set(TESTS)
    if unknown:
        parser.error(f"{', '.join(unknown)}: the files are {', '.join(TESTS)}")
    sys.dont_write_bytecode = True  # two mutants within a second would share their bytecode
    began = time.perf_counter()
    made = 0
    survived = 0
    with tempfile.TemporaryDirectory() as folder:
        copy = copied(folder)
        os.chdir(copy)
        sys.path[0] = str(copy)
        load_libraries()
        for file in args.files or TESTS:
            chosen = mutants(file, (copy / file).read_text())
            if 0 < args.sample < len(chosen):
                chosen = random.Random(f"{args.seed} {file}").sample(chosen, args.sample)
            made += len(chosen)
            survived += len(tried(file, chosen, copy))
    minutes = (time.perf_counter() - began) / 60
    print(f"{made - survived} of {made} noticed ({1 - survived / made:.1%}), {minutes:.1f} minutes")


if __name__ == "__main__":
    main()
