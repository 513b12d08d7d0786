"""Which mutants a source has, line by line."""

from __future__ import annotations

from loomgen.mutation import Kind, Mutant, mutants

SOURCE = """\
const int matrix_row = lane / 4;  // this lane's row
const int lane_row = lane % 16;
const SharedTile<bf16, C, K, K, 3> kc_ring{smem};
const SharedTile<float, 1, 64, 64, 0> g{smem + g_offset};
cp_async_commit();
const auto kc = kc_ring.at_slot(c_it % 3);
cp_async_wait<2>();  // write kc -> read kc
sync_block();  // write kc -> read kc
// sync_block() in a comment is no barrier
ldmatrix_x4(b, kc.at(16 * tile + pair_row, kc.at(0, 1)));
ld_shared<float>(g.at(0, row));
sync_warp();
sync_named(1, 64);
"""


def changed(mutant: Mutant) -> tuple[str, int, str]:
    return mutant.kind.value, mutant.line, mutant.replacement


def test_every_mutant_of_a_source() -> None:
    assert [changed(mutant) for mutant in mutants(SOURCE)] == [
        ("lanes", 1, "const int matrix_row = ((lane + 1) % 32) / 4;  // this lane's row"),
        ("lanes", 2, "const int lane_row = ((lane + 1) % 32) % 16;"),
        ("deleted", 5, ""),
        ("ring", 6, "const auto kc = kc_ring.at_slot((c_it + 1) % 3);"),
        ("deleted", 7, ""),
        ("weakened", 7, "cp_async_wait<3>();  // write kc -> read kc"),
        ("deleted", 8, ""),
        ("weakened", 8, "sync_warp();  // write kc -> read kc"),
        (
            "swizzle",
            10,
            "ldmatrix_x4(b, SharedTile<bf16, C, K, K, 2>{kc.base}.at(16 * tile + pair_row, "
            "SharedTile<bf16, C, K, K, 2>{kc.base}.at(0, 1)));",
        ),
        ("deleted", 12, ""),
        ("deleted", 13, ""),
    ]


def test_a_reversed_loop_may_go_the_other_way() -> None:
    source = "\n".join(
        [
            "const int c_chunk = c_count - 1;",
            "    const int next_chunk = c_count - 1 - next_it;",
            "const int c_first = seq_chunk - 1;",
        ]
    )
    assert [changed(mutant) for mutant in mutants(source)] == [
        ("order", 1, "const int c_chunk = 0;"),
        ("order", 2, "    const int next_chunk = next_it;"),
    ]


def test_a_mutant_keeps_the_numbers_of_all_other_lines() -> None:
    mutant = next(mutant for mutant in mutants(SOURCE) if mutant.kind is Kind.WEAKENED and mutant.line == 8)
    before, after = SOURCE.split("\n"), mutant.applied_to(SOURCE).split("\n")
    assert [n for n, (old, new) in enumerate(zip(before, after, strict=True), 1) if old != new] == [8]


def test_every_synchronisation_of_a_source_is_found() -> None:
    source = "\n".join(["sync_block();", "    cp_async_wait<0>();", "x_sync_block_y();", "cp_async_16(a, b);"])
    assert [mutant.line for mutant in mutants(source) if mutant.kind is Kind.DELETED] == [1, 2]
