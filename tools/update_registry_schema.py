"""Write the registry's published schema from its model: `python tools/update_registry_schema.py`."""

from __future__ import annotations

from pathlib import Path

from loomgen.registry import canonical_json, registry_schema


def main() -> None:
    path = Path(__file__).resolve().parents[1] / "loomgen" / "registry" / "schema.json"
    path.write_bytes(canonical_json(registry_schema()))


if __name__ == "__main__":
    main()
