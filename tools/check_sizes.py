"""Keep files and functions small: `python tools/check_sizes.py` prints what is too long and exits 1.

What must be longer is listed in EXCEPTIONS with its reason.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

MAX_FUNCTION_LINES = 40

MAX_FILE_LINES = {
    "examples/**/*.py": 400,
    "loomgen/**/*.py": 400,
    "tools/**/*.py": 400,
    "loomgen/include/**/*.cuh": 250,
    "loomgen/include/**/*.hpp": 250,
    "loomgen/emulator/csrc/*": 400,
    "loomgen/emit/templates/*.j2": 80,
    "generated/csrc/**/*.cu": 1500,
}

EXCEPTIONS: dict[str, str] = {}
"""``path`` or ``path:function`` to the reason why it may be longer."""


def too_long(root: Path) -> Iterator[str]:
    """What is longer than it may be, one line each."""
    for pattern, limit in MAX_FILE_LINES.items():
        for path in sorted(path for path in root.glob(pattern) if path.is_file()):
            name = path.relative_to(root).as_posix()
            text = path.read_text(encoding="utf-8")
            n_lines = text.count("\n")
            if n_lines > limit and name not in EXCEPTIONS:
                yield f"{name}: {n_lines} lines, at most {limit}"
            if path.suffix == ".py":
                yield from _long_functions(name, ast.parse(text))


def _long_functions(name: str, tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        n_lines = _code_lines(node)
        if n_lines > MAX_FUNCTION_LINES and f"{name}:{node.name}" not in EXCEPTIONS:
            yield f"{name}:{node.lineno}: {node.name} has {n_lines} lines, at most {MAX_FUNCTION_LINES}"


def _code_lines(function: ast.FunctionDef | ast.AsyncFunctionDef) -> int:
    """The lines of a function from ``def`` to its end, without its docstring."""
    whole = (function.end_lineno or function.lineno) - function.lineno + 1
    first = function.body[0]
    if ast.get_docstring(function) is None or first.end_lineno is None:
        return whole
    return whole - (first.end_lineno - first.lineno + 1)


def main() -> int:
    found = list(too_long(Path(__file__).resolve().parents[1]))
    print("\n".join(found) if found else "no file or function is too long")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
