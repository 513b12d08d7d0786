"""The page about the language: its complete stages load, and it names all that there is to name."""

from __future__ import annotations

import re
from pathlib import Path

from loomgen.ir import tile
from loomgen.spec.declarations import FUNCTIONS, OWN_WORDS
from loomgen.spec.model import ScheduleModel, SpecModel, TensorModel
from tests.spec.support import kernels_of

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text(encoding="utf-8")


def test_the_stages_on_the_page_load(tmp_path: Path) -> None:
    stages = [block for block in re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL) if block.startswith("stage:")]
    assert stages
    for text in stages:
        assert kernels_of(tmp_path, text)


def test_every_key_is_on_the_page() -> None:
    for model in (SpecModel, TensorModel, ScheduleModel):
        for key in model.model_fields:
            assert f"`{key}" in PAGE, key


def test_every_word_of_the_language_is_on_the_page() -> None:
    words = set(re.findall(r"\w+", PAGE))
    assert {*FUNCTIONS, *OWN_WORDS} - {"bool"} <= words


def test_every_tile_ir_node_is_on_the_page() -> None:
    kinds = [kind.__name__ for union in (tile.Stmt, tile.Expr) for kind in union.__args__]
    assert [kind for kind in kinds if f"`{kind}`" not in PAGE] == []
