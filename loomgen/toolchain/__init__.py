"""The programs that loomgen runs: finding them, compiling to cubins, reading what they print."""
