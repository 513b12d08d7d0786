"""One operation of a plan in device code: the table of contents of this package."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from loomgen.errors import InternalError
from loomgen.ir import plan
from loomgen.ir.device import CStmt, Do, call
from loomgen.ir.plan import Leaf
from loomgen.passes.lower import copies, direct, exchange, fragments, maps, products, roles, shared_maps
from loomgen.passes.lower.maps import MapContext

_LOWERINGS: Mapping[type, Callable[[Any, MapContext], list[CStmt]]] = {
    # global <-> shared
    plan.CopyIn: copies.lower_copy_in,
    plan.CopyOut: copies.lower_copy_out,
    plan.Commit: lambda op, context: [Do(call=call("cp_async_commit"))],
    plan.Arrive: lambda op, context: [],
    # global <-> registers
    plan.LoadStrip: direct.lower_load_strip,
    plan.StoreDirect: direct.lower_store_direct,
    plan.StoreScalars: direct.lower_store_scalars,
    # registers <-> shared
    plan.LoadFragment: fragments.lower_load_fragment,
    plan.StoreFragment: fragments.lower_store_fragment,
    plan.StoreRows: fragments.lower_store_rows,
    plan.Move: fragments.lower_move,
    # element by element
    plan.MapFragment: maps.lower_fragment,
    plan.MapRows: maps.lower_rows,
    plan.MapScalar: maps.lower_scalar,
    plan.MapShared: shared_maps.lower_shared,
    # sums
    plan.ReduceColumns: maps.lower_reduce_columns,
    plan.ReduceVector: maps.lower_reduce_vector,
    plan.ScanVector: shared_maps.lower_scan,
    plan.Mma: products.lower_mma,
    plan.ExchangeWrite: exchange.lower_exchange_write,
    plan.ExchangeRead: exchange.lower_exchange_read,
    plan.DiagonalBlocks: products.lower_diagonal_blocks,
    # between roles, and with the hardware beside them
    plan.BoxIn: roles.lower_box_in,
    plan.BoxOut: roles.lower_box_out,
    plan.BoxWait: roles.lower_box_wait,
    plan.RingWait: roles.lower_ring_wait,
    plan.RingFill: roles.lower_ring_fill,
    plan.RingRelease: roles.lower_ring_release,
    plan.WarpgroupMma: roles.lower_warpgroup_mma,
    plan.MmaWait: roles.lower_mma_wait,
    plan.ProxyFence: roles.lower_proxy_fence,
}
"""Every operation but Wait and Barrier, which are lowered with the block that they stand in."""


def lower_leaf(op: Leaf, context: MapContext) -> list[CStmt]:
    lowering = _LOWERINGS.get(type(op))
    if lowering is None:
        raise InternalError("lower", f"no device code for {type(op).__name__}")
    return lowering(op, context)
