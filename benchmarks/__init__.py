"""Benchmarks: each is a command that prints a table and writes it as a page under docs/results/.

`python -m benchmarks.gates` fails where a promised ratio is missed; the sub-folders are those of the rooms,
and `benchmarks.peers` holds what other libraries run in environments of their own.
"""
