"""Which part of the rendered tree a command is about."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from loomgen.ir.kernel import KernelName, KernelSpec
from loomgen.render.paths import HEADERS, LEDGER, SOURCES, registry_path
from loomgen.target import TARGETS, Target, select_targets


@dataclass(frozen=True, slots=True, kw_only=True)
class Selection:
    """Targets, and stages or kernels by a glob. Targets that share sources are always selected together.

    What speaks of more than the selection (a registry when stages are left out, the manifest when anything is)
    is not part of it: only rendering everything can tell what it holds.
    """

    targets: tuple[Target, ...]
    stage_glob: str | None

    @classmethod
    def parse(cls, arch: str, stage_glob: str | None) -> Selection:
        """``arch`` is a target's name or ``all``; raises UnknownTarget."""
        groups = {target.source_group for target in select_targets(arch)}
        targets = tuple(target for target in TARGETS if target.source_group in groups)
        return cls(targets=targets, stage_glob=stage_glob)

    @property
    def is_everything(self) -> bool:
        return self.stage_glob is None and self.targets == TARGETS

    def has(self, kernel: KernelName) -> bool:
        """Whether the glob, where there is one, matches the kernel."""
        return self.stage_glob is None or kernel.matches(self.stage_glob)

    def kernels(self, specs: Sequence[KernelSpec]) -> tuple[KernelSpec, ...]:
        """The selected kernels that at least one selected target has."""
        names = {target.name for target in self.targets}
        return tuple(spec for spec in specs if self.has(spec.name) and names & set(spec.targets))

    def covers(self, path: str) -> bool:
        """Whether the file at ``path``, rendered or found on disk, is part of the selection."""
        if path.startswith(f"{LEDGER}/"):
            return False
        if self.is_everything or path.startswith(f"{HEADERS}/"):
            return True
        if path.startswith(f"{SOURCES}/"):
            return self._covers_source(PurePosixPath(path).relative_to(SOURCES))
        return self.stage_glob is None and path in {registry_path(target.name) for target in self.targets}

    def _covers_source(self, path: PurePosixPath) -> bool:
        if path.parts[0] not in {target.name for target in self.targets}:
            return False
        return self.stage_glob is None or self._has_named(path.stem)

    def _has_named(self, stem: str) -> bool:
        try:
            return self.has(KernelName.parse(stem))
        except ValueError:
            return False
