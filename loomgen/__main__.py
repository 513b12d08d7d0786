"""``python -m loomgen`` is the ``loomgen`` command."""

from loomgen.cli import main

if __name__ == "__main__":
    main()
