"""The layout of a source file: templates put the emitted text in its place and decide nothing."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined

from loomgen.emit.describe import description
from loomgen.ir.kernel import KernelSpec
from loomgen.ir.schedule import ProductAtom, Schedule


def kernel_source(kernel: KernelSpec, body: str) -> str:
    """The text of a ``.cu`` file: what the kernel is, includes and ``body``, the kernel's signature and statements.

    It says nothing of the target, so targets whose bodies agree share a file.
    """
    template = _environment().get_template("kernel.cu.j2")
    return template.render(
        spec_path=kernel.spec_path,
        spec_digest=kernel.spec_digest,
        headers=_headers(kernel.schedule),
        description=description(kernel),
        body=body.strip("\n"),
    )


def _headers(schedule: Schedule) -> tuple[str, ...]:
    """The primitives that every kernel uses, and those of the asynchronous hardware."""
    is_asynchronous = schedule.atom is ProductAtom.WGMMA or schedule.boxes
    return ("hopper.cuh", "loom.cuh") if is_asynchronous else ("loom.cuh",)


def _environment() -> Environment:
    return Environment(
        loader=PackageLoader("loomgen.emit", "templates"),
        undefined=StrictUndefined,
        keep_trailing_newline=True,
        autoescape=False,
    )
