"""Cubins: bundled, cached, built; and what happens to them on disk."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import time
import warnings
from collections.abc import Callable
from multiprocessing.synchronize import Barrier
from pathlib import Path

import pytest

from loomgen.registry import KernelEntry, Registry
from loomgen.root import kernel_root
from loomgen.runtime.bundle import Bundle
from loomgen.runtime.cache import CubinCache, CubinWarning, default_cache_folder
from loomgen.runtime.content import StaleRegistry, content_keys
from loomgen.runtime.cubins import CubinStore, NoCubin
from loomgen.target import SM_90A, SM_100A
from loomgen.toolchain.errors import BuildFailed
from tests.runtime.projects import HEADER, NAMES, cubin_of, source_path, write_nvcc, write_project

EXPECTED = {name: cubin_of(name) for name in NAMES}


class Place:
    """A project, an empty cache, no bundle, and a compiler that logs what it compiles."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root, self.folder, self.monkeypatch = folder / "project", folder, monkeypatch
        self.registry: Registry = write_project(self.root)
        self.use_nvcc()

    def use_nvcc(self, *, seconds: float = 0.0, version: str = "13.0.88") -> None:
        nvcc, self.log = write_nvcc(self.folder / "tools", seconds=seconds, version=version)
        self.monkeypatch.setenv("LOOMGEN_NVCC", str(nvcc))

    @property
    def kernels(self) -> tuple[KernelEntry, ...]:
        return self.registry.kernels

    def store(self, cache: Path | None = None) -> CubinStore:
        return CubinStore(
            root=self.root,
            cache=cache or self.folder / "cache",
            bundle=Bundle(self.folder / "bundle"),
            n_parallel=2,
            on_progress=lambda done, total: None,
        )

    def compiled(self) -> list[str]:
        return sorted(self.log.read_text().split())

    def entries(self) -> list[Path]:
        return sorted((self.folder / "cache" / "cubin" / "sm_90a").glob("*.cubin"))

    def cubins(self) -> dict[str, bytes]:
        return self.store().cubins(self.kernels, SM_90A)


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    return Place(tmp_path, monkeypatch)


def test_a_kernel_is_compiled_once(place: Place) -> None:
    seen: list[tuple[int, int]] = []
    store = CubinStore(
        root=place.root,
        cache=place.folder / "cache",
        bundle=Bundle(place.folder / "bundle"),
        on_progress=lambda done, total: seen.append((done, total)),
    )
    assert store.cubins(place.kernels[:1], SM_90A) == {NAMES[0]: cubin_of(NAMES[0])}
    assert seen == [(1, 1)]
    assert place.cubins() == EXPECTED
    assert place.cubins() == EXPECTED
    assert place.compiled() == sorted(NAMES)
    assert [path.name.split("-")[0] for path in place.entries()] == sorted(NAMES)


def test_folders_may_be_relative(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(place.folder)
    store = CubinStore(root=Path("project"), cache=Path("cache"), bundle=Bundle(Path("bundle")))
    assert store.cubins(place.kernels, SM_90A) == EXPECTED
    assert len(place.entries()) == len(EXPECTED)


def test_another_source_header_target_or_compiler_is_another_cubin(place: Place) -> None:
    place.cubins()
    place.registry = write_project(place.root, "changed")
    assert place.cubins() == {name: cubin_of(name, "changed") for name in NAMES}
    assert len(place.compiled()) == 4
    (place.root / HEADER).write_text("another header")
    place.cubins()
    assert len(place.compiled()) == 6
    place.store().cubins(place.kernels, SM_100A)
    assert len(place.compiled()) == 8
    place.use_nvcc(version="13.1.2")
    place.cubins()
    assert len(place.compiled()) == 10
    place.cubins()
    assert len(place.compiled()) == 10


def test_a_source_that_the_registry_does_not_describe_is_refused(place: Place) -> None:
    (place.root / source_path(NAMES[1])).write_text("edited by hand")
    with pytest.raises(StaleRegistry, match=r"second__c64__base\.cu: not the source .* `loomgen render --arch sm_90a`"):
        place.cubins()
    (place.root / source_path(NAMES[1])).unlink()
    with pytest.raises(StaleRegistry, match=r"second__c64__base\.cu: no such source"):
        place.cubins()


def _truncate(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-3])


def _empty(path: Path) -> None:
    path.write_bytes(b"")


def _flip_last(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 0x10
    path.write_bytes(data)


def _flip_checksum(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[20] ^= 0x01
    path.write_bytes(data)


@pytest.mark.parametrize("damage", [_truncate, _empty, _flip_last, _flip_checksum])
def test_a_damaged_entry_is_told_of_and_built_again(place: Place, damage: Callable[[Path], None]) -> None:
    place.cubins()
    path = place.entries()[0]
    whole = path.read_bytes()
    damage(path)
    with pytest.warns(CubinWarning, match=r"first__c64__base-\w+\.cubin: damaged .*; building it again"):
        assert place.cubins() == EXPECTED
    assert path.read_bytes() == whole
    assert place.compiled() == sorted([*NAMES, NAMES[0]])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert place.cubins() == EXPECTED


def test_a_cache_that_cannot_be_written_is_replaced_for_the_process(place: Place) -> None:
    file = place.folder / "a file"
    file.touch()
    store = place.store(cache=file / "cache")
    for _ in range(2):
        with pytest.warns(CubinWarning, match=r"a file/cache/.*: cannot be written .*LOOMGEN_CACHE_DIR"):
            assert store.cubins(place.kernels, SM_90A) == EXPECTED
    assert place.compiled() == sorted(NAMES)
    assert store.temporary.is_dir()


def test_a_read_only_cache_is_read(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is there is used without a warning; what is not goes to the temporary folder."""
    place.store().cubins(place.kernels[:1], SM_90A)
    entries = place.entries()
    read_only = place.folder / "cache" / "cubin" / "sm_90a"
    locked = CubinCache.locked

    def refuse(cache: CubinCache) -> object:
        if cache.folder == read_only:
            raise PermissionError(13, "Permission denied")
        return locked(cache)

    monkeypatch.setattr(CubinCache, "locked", refuse)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert place.store().cubins(place.kernels[:1], SM_90A) == {NAMES[0]: cubin_of(NAMES[0])}
    with pytest.warns(CubinWarning, match="cannot be written"):
        assert place.cubins() == EXPECTED
    assert place.entries() == entries
    assert place.compiled() == sorted(NAMES)


@pytest.mark.skipif(os.geteuid() == 0, reason="root writes to read-only folders")
def test_a_folder_without_write_permission(place: Place) -> None:
    (place.folder / "cache").mkdir(mode=0o500)
    with pytest.warns(CubinWarning, match="cannot be written"):
        assert place.cubins() == EXPECTED


def _build(registry: Registry, root: Path, folder: Path, barrier: Barrier) -> None:
    barrier.wait()
    store = CubinStore(
        root=root, cache=folder / "cache", bundle=Bundle(folder / "bundle"), on_progress=lambda done, total: None
    )
    assert store.cubins(registry.kernels, SM_90A) == EXPECTED


def test_two_builders_at_once_build_each_kernel_once(place: Place) -> None:
    place.use_nvcc(seconds=0.3)
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(2)
    builders = [
        spawn.Process(target=_build, args=(place.registry, place.root, place.folder, barrier)) for _ in range(2)
    ]
    for builder in builders:
        builder.start()
    for builder in builders:
        builder.join(40)
    assert [builder.exitcode for builder in builders] == [0, 0]
    assert place.compiled() == sorted(NAMES)


def test_a_killed_builder_leaves_nothing_half_written(place: Place) -> None:
    place.use_nvcc(seconds=5)
    spawn = multiprocessing.get_context("spawn")
    barrier = spawn.Barrier(1)
    builder = spawn.Process(target=_build, args=(place.registry, place.root, place.folder, barrier))
    builder.start()
    assert builder.pid is not None
    folder = place.folder / "cache" / "cubin" / "sm_90a"
    deadline = time.monotonic() + 30
    while not list(folder.glob("building-*/*.cubin")) and time.monotonic() < deadline:
        time.sleep(0.02)
    os.kill(builder.pid, signal.SIGKILL)
    builder.join(10)
    assert len(list(folder.glob("building-*/*.cubin"))) > 0
    assert place.entries() == []
    place.use_nvcc()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert place.cubins() == EXPECTED
    assert sorted(path.name for path in folder.iterdir()) == sorted(["lock", *(path.name for path in place.entries())])


def test_what_nvcc_says_of_a_source_is_shown_and_nothing_is_kept(place: Place, tmp_path: Path) -> None:
    nvcc = tmp_path / "tools" / "nvcc"
    nvcc.write_text('#!/bin/sh\n[ "$1" = --version ] && exit\necho "error: no such operand"; exit 1\n')
    with pytest.raises(BuildFailed, match="error: no such operand"):
        place.cubins()
    assert place.entries() == []
    assert list((tmp_path / "cache" / "cubin" / "sm_90a").glob("building-*")) == []


def _bundle(place: Place, names: tuple[str, ...] = NAMES) -> Bundle:
    bundle = Bundle(place.folder / "bundle")
    paths = {name: place.folder / f"{name}.cubin" for name in names}
    for name, path in paths.items():
        path.write_bytes(b"bundled " + name.encode())
    bundle.write(place.registry, SM_90A, place.root, paths, "13.0.88")
    return bundle


def _without_nvcc(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOOMGEN_NVCC", "/nowhere/nvcc")


def test_a_bundle_needs_no_compiler_and_no_checkout(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    bundle = _bundle(place)
    _without_nvcc(monkeypatch)
    expected = {name: b"bundled " + name.encode() for name in NAMES}
    assert place.cubins() == expected
    root = kernel_root(place.folder / "no checkout", bundle.folder)
    assert root == bundle.folder
    assert CubinStore(root=root, bundle=bundle).cubins(place.kernels, SM_90A) == expected
    assert kernel_root(place.root, bundle.folder) == place.root


def test_what_a_bundle_lacks_is_built(place: Place) -> None:
    _bundle(place, NAMES[:1])
    assert place.cubins() == {NAMES[0]: b"bundled " + NAMES[0].encode(), NAMES[1]: cubin_of(NAMES[1])}
    assert place.compiled() == [NAMES[1]]


def test_a_bundle_of_other_sources_is_not_used(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    _bundle(place)
    place.registry = write_project(place.root, "changed")
    assert place.cubins() == {name: cubin_of(name, "changed") for name in NAMES}
    _bundle(place)
    assert set(place.cubins().values()) == {b"bundled " + name.encode() for name in NAMES}


def test_a_damaged_bundle_is_told_of_and_not_used(place: Place) -> None:
    bundle = _bundle(place)
    folder = bundle.folder / "cubin" / "sm_90a"
    (folder / f"{NAMES[0]}.cubin").write_bytes(b"bundled")
    with pytest.warns(CubinWarning, match=r"first__c64__base\.cubin: damaged"):
        assert place.cubins()[NAMES[0]] == cubin_of(NAMES[0])
    (folder / "manifest.json").write_text("{")
    with pytest.warns(CubinWarning, match=r"manifest\.json: damaged"):
        assert place.cubins() == EXPECTED


def test_the_manifest_says_what_the_cubins_were_made_from(place: Place) -> None:
    bundle = _bundle(place)
    manifest = json.loads((bundle.folder / "cubin" / "sm_90a" / "manifest.json").read_text())
    assert manifest["nvcc"] == "13.0.88"
    contents = content_keys(place.kernels, SM_90A, place.root)
    assert {name: entry["content"] for name, entry in manifest["cubins"].items()} == contents


def test_neither_bundle_nor_compiler_says_how_to_get_either(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    _without_nvcc(monkeypatch)
    with pytest.raises(NoCubin) as caught:
        place.cubins()
    message = str(caught.value)
    assert "no cubin for sm_90a of first__c64__base, second__c64__base" in message
    assert "pip install 'loomgen[nvcc]'" in message
    assert "`loomgen build --arch sm_90a --bundle`" in message


def test_where_the_cache_is() -> None:
    assert default_cache_folder({"LOOMGEN_CACHE_DIR": "/c"}) == Path("/c")
    assert default_cache_folder({"XDG_CACHE_HOME": "/x"}) == Path("/x/loomgen")
    assert default_cache_folder({}) == Path.home() / ".cache" / "loomgen"
