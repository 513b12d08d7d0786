"""The size check finds long files and functions."""

from __future__ import annotations

from pathlib import Path

from tools.check_sizes import too_long


def write(root: Path, path: str, text: str) -> None:
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text(text)


def test_files_at_the_limit_pass_and_one_line_more_does_not(tmp_path: Path) -> None:
    write(tmp_path, "loomgen/ir/fine.py", "x = 1\n" * 400)
    write(tmp_path, "loomgen/ir/long.py", "x = 1\n" * 401)
    write(tmp_path, "loomgen/emit/templates/long.j2", "x\n" * 81)
    assert list(too_long(tmp_path)) == [
        "loomgen/ir/long.py: 401 lines, at most 400",
        "loomgen/emit/templates/long.j2: 81 lines, at most 80",
    ]


def test_a_docstring_does_not_make_a_function_long(tmp_path: Path) -> None:
    docstring = '    """One.\n' + "    More.\n" * 20 + '    """\n'
    write(tmp_path, "loomgen/fine.py", "def fine():\n" + docstring + "    x = 1\n" * 39)
    write(tmp_path, "loomgen/long.py", "\n\ndef long():\n" + "    x = 1\n" * 40)
    assert list(too_long(tmp_path)) == ["loomgen/long.py:3: long has 41 lines, at most 40"]
