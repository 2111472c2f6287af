"""Plant faults in the source and count those that tests find: ``python -m tests.mutants``.

    python -m tests.mutants shared/privacy --tests tests/shared/privacy --count 20
    python -m tests.mutants shared/privacy --tests tests/shared/privacy --count 20 --revision main~5

A seed chooses the faults: a comparison, an operator, a number or a condition that is another. Each
is planted in a copy of the tree. ``--revision`` takes the tests of an earlier commit, so that a
change of tests can be judged by the faults that both find.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
_OTHERS: dict[type[ast.AST], type[ast.AST]] = {
    **{ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt},
    **{ast.Eq: ast.NotEq, ast.NotEq: ast.Eq, ast.Is: ast.IsNot, ast.IsNot: ast.Is},
    **{ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.FloorDiv, ast.FloorDiv: ast.Mult},
    **{ast.And: ast.Or, ast.Or: ast.And, ast.In: ast.NotIn, ast.NotIn: ast.In},
}


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """A stretch of a file, and the text that replaces it."""

    file: str
    line: int
    old: str
    new: str
    begin: int
    end: int


def list_mutants(path: Path, name: str) -> Iterator[Mutant]:
    """Yield every fault that can be planted in a file."""
    text = path.read_bytes()
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    tree = ast.parse(text)
    types = {
        id(inner)
        for node in ast.walk(tree)
        for part in (getattr(node, "annotation", None), getattr(node, "returns", None))
        if part is not None
        for inner in ast.walk(part)
    }
    for node in ast.walk(tree):
        if id(node) in types or not isinstance(node, ast.expr):
            continue
        begin = starts[node.lineno - 1] + node.col_offset
        end = starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        old = text[begin:end].decode()
        if (new := _change(node)) is not None:
            yield Mutant(file=name, line=node.lineno, old=old, new=new, begin=begin, end=end)


def _change(node: ast.expr) -> str | None:
    match node:
        case ast.Compare(ops=[op]) if type(op) in _OTHERS:
            other = ast.Compare(node.left, [_OTHERS[type(op)]()], node.comparators)  # type: ignore[list-item]
        case ast.BinOp() if type(node.op) in _OTHERS:
            other = ast.BinOp(node.left, _OTHERS[type(node.op)](), node.right)  # type: ignore[assignment, arg-type]
        case ast.BoolOp():
            other = ast.BoolOp(_OTHERS[type(node.op)](), node.values)  # type: ignore[assignment, arg-type]
        case ast.UnaryOp(op=ast.Not()):
            other = node.operand  # type: ignore[assignment]
        case ast.Constant(value=bool() | int()):
            value = node.value
            other = ast.Constant(not value if isinstance(value, bool) else value + 1)  # type: ignore[assignment, operator]
        case _:
            return None
    return f"({ast.unparse(other)})"


def copy_tree(place: Path, revision: str | None) -> None:
    """Copy what git knows of the tree, with the kernel; the tests of a revision if one is named."""
    listed = subprocess.run(
        ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
    )
    kernels = [str(path.relative_to(ROOT)) for path in ROOT.glob("shared/core/engines/*.so")]
    for name in [*filter(None, listed.stdout.split("\0")), *kernels]:
        if (ROOT / name).exists() and not (revision and name.startswith("tests/")):
            (place / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, place / name, follow_symlinks=False)
    if revision:
        archive = place / "tests.tar"
        command = ["git", "archive", f"--output={archive}", revision, "tests"]
        subprocess.run(command, cwd=ROOT, check=True)
        shutil.unpack_archive(archive, place, filter="data")


def is_found(place: Path, tests: Sequence[str], workers: str) -> bool:
    """Run tests in a copy; return whether one fails."""
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-n", workers, "--dist", "worksteal"]
    done = subprocess.run(
        [*command, "-p", "no:cacheprovider", *tests],
        cwd=place,
        env=os.environ | {"PYTHONDONTWRITEBYTECODE": "1"},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=False,
    )
    return done.returncode != 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Plant faults one by one; print each with whether it was found, and how many were."""
    parser = argparse.ArgumentParser(
        prog="python -m tests.mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("paths", nargs="+", help="files and folders of the source")
    parser.add_argument("--tests", nargs="+", required=True, help="what pytest runs")
    parser.add_argument("--count", type=int, default=20, help="default: %(default)s")
    parser.add_argument("--seed", default="1", help="chooses the faults (default: %(default)s)")
    parser.add_argument("--revision", help="take the tests of this commit")
    parser.add_argument("--workers", default="0", help="processes of pytest (default: %(default)s)")
    parser.add_argument("--json", action="store_true", help="a JSON object per line")
    options = parser.parse_args(arguments)
    files = sorted(
        file
        for path in options.paths
        for file in ([ROOT / path] if (ROOT / path).is_file() else (ROOT / path).rglob("*.py"))
    )
    listed = [
        mutant for file in files for mutant in list_mutants(file, str(file.relative_to(ROOT)))
    ]
    chosen = random.Random(options.seed).sample(listed, min(options.count, len(listed)))
    found = 0
    with tempfile.TemporaryDirectory(prefix="sfumato-mutants-") as name:
        place = Path(name)
        copy_tree(place, options.revision)
        if is_found(place, options.tests, options.workers):
            print("mutants: the tests fail without a fault; run them first", file=sys.stderr)
            return 1
        for mutant in chosen:
            path = place / mutant.file
            text = path.read_bytes()
            path.write_bytes(text[: mutant.begin] + mutant.new.encode() + text[mutant.end :])
            was_found = is_found(place, options.tests, options.workers)
            path.write_bytes(text)
            found += was_found
            if options.json:
                row = {"file": mutant.file, "line": mutant.line, "old": mutant.old}
                print(json.dumps({**row, "new": mutant.new, "found": was_found}), flush=True)
            else:
                verdict = "found  " if was_found else "MISSED "
                print(
                    f"{verdict} {mutant.file}:{mutant.line}  {mutant.old} -> {mutant.new}",
                    flush=True,
                )
    if not options.json:
        print(f"{found} of {len(chosen)} found")
    return 0


if __name__ == "__main__":
    sys.exit(main())
