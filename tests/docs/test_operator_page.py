"""The operator's page quotes what the package says."""

from __future__ import annotations

import re

from loomgen.cli.project import default_root
from loomgen.ops import training_bytes
from loomgen.ops.workspace import SAVES

PAGE = (default_root() / "docs" / "operator.md").read_text()
ROW = re.compile(r"\| `(minimal|states)` \| (\d+) \| (\d+) \| (\d+) \|")


def test_the_bytes_of_training_are_those_that_the_package_tells() -> None:
    told = {
        save: training_bytes(
            n_tokens=16384, n_sequences=4, key_heads=16, value_heads=32, n_chunks=256, use_qk_l2norm_in_kernel=True,
            save=save,
        )
        for save in SAVES
    }  # fmt: skip
    quoted = {save: tuple(map(int, numbers)) for save, *numbers in ROW.findall(PAGE)}
    assert quoted == {save: tuple(round(n / 2**20) for n in of) for save, of in told.items()}
