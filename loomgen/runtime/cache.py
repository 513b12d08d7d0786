"""The cache of cubins on disk: shared by every process of a user, safe against any of them being killed.

An entry is one file that appears under its final name by an atomic rename and carries the checksum of its cubin, so a
reader takes no lock. Who builds holds a lock that the system drops with its process; scratch folders belong to the
holder alone, so the next one clears away what a killed builder left.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

_MAGIC = b"loomgen cubin 1\n"
_DIGEST_BYTES = 32
_SCRATCH = "building-"
_LOCK = "lock"


class CubinWarning(UserWarning):
    """A cubin that could not be used or kept; another one takes its place."""


def default_cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """``LOOMGEN_CACHE_DIR``, or ``loomgen`` in the user's cache folder (``XDG_CACHE_HOME``, ``~/.cache``)."""
    named = environ.get("LOOMGEN_CACHE_DIR")
    if named:
        return Path(named).expanduser()
    base = environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "loomgen"


@dataclass(frozen=True, slots=True)
class CubinCache:
    """The entries of one target, in ``folder``, which need not exist yet."""

    folder: Path

    def read(self, name: str) -> bytes | None:
        """The cubin called ``name``; None where there is none, or, with a warning, where it is damaged."""
        path = self._path(name)
        try:
            entry = path.read_bytes()
        except OSError:
            return None
        checksum, cubin = entry[len(_MAGIC) : len(_MAGIC) + _DIGEST_BYTES], entry[len(_MAGIC) + _DIGEST_BYTES :]
        if entry.startswith(_MAGIC) and hashlib.sha256(cubin).digest() == checksum:
            return cubin
        warnings.warn(f"{path}: damaged (its checksum does not fit); building it again", CubinWarning, stacklevel=2)
        return None

    def write(self, name: str, cubin: bytes, scratch: Path) -> None:
        """Keeps ``cubin`` as ``name``; ``scratch`` is a folder from :meth:`locked`."""
        whole = scratch / f"{name}.entry"
        with whole.open("wb") as file:
            file.write(_MAGIC + hashlib.sha256(cubin).digest() + cubin)
            file.flush()
            os.fsync(file.fileno())
        whole.replace(self._path(name))

    @contextmanager
    def locked(self) -> Iterator[Path]:
        """Waits until no other process builds here, and yields a scratch folder for as long as the context lasts.

        Raises OSError where nothing can be written.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / _LOCK).open("ab") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            self._clear_scratch()
            scratch = Path(tempfile.mkdtemp(prefix=_SCRATCH, dir=self.folder))
            try:
                yield scratch
            finally:
                shutil.rmtree(scratch, ignore_errors=True)

    def _clear_scratch(self) -> None:
        """Only the lock's holder has a scratch folder, so what is there was left by a builder that was killed."""
        for path in self.folder.glob(f"{_SCRATCH}*"):
            shutil.rmtree(path, ignore_errors=True)

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.cubin"
