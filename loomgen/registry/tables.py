"""The names of the window tables, which say where the sequences and chunks of a packed, ragged batch lie.

Every argument of kind ``table`` has one of them; :class:`~loomgen.runtime.tables.WindowTables` says what they hold.
"""

from __future__ import annotations

CU_SEQLENS = "cu_seqlens"
SEQ_CHUNK_START = "seq_chunk_start"
CHUNK_START = "chunk_start"
CHUNK_LEN = "chunk_len"

WINDOW_TABLES = (CU_SEQLENS, SEQ_CHUNK_START, CHUNK_START, CHUNK_LEN)
"""In the order in which kernels take them."""
