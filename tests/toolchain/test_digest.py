"""Digests of sequences of texts."""

from __future__ import annotations

import hashlib

from loomgen.toolchain.digest import texts_digest


def test_the_digest_is_of_each_text_with_its_length() -> None:
    data = b"\x02" + bytes(7) + b"ab" + b"\x02" + bytes(7) + "é".encode()
    assert texts_digest(["ab", "é"]) == hashlib.sha256(data).hexdigest()


def test_neighbours_are_told_apart() -> None:
    assert len({texts_digest(texts) for texts in ([], [""], ["ab"], ["a", "b"], ["", "ab"], ["ab", ""])}) == 6
