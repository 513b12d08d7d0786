"""The name of what a build is made from: under it a result is kept and found again."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable


def texts_digest(texts: Iterable[str]) -> str:
    """The SHA-256 of a sequence of texts, each told apart from its neighbours; 64 hexadecimal digits."""
    sha = hashlib.sha256()
    for text in texts:
        data = text.encode()
        sha.update(len(data).to_bytes(8, "little"))
        sha.update(data)
    return sha.hexdigest()
