"""Benchmarks of a run: reading, starting, tables larger than memory, reports, and a whole chain."""
