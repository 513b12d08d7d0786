"""The spec front end: YAML stage specs to kernels in Tile IR, with every mistake at its place."""

from loomgen.spec.load import load
from loomgen.spec.model import json_schema
from loomgen.spec.render_error import render_error

__all__ = ["json_schema", "load", "render_error"]
