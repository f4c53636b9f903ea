"""The command line: parse, call, print; no numerics."""
