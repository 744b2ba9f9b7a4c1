"""Benchmarks of `privacy`: the error of its mechanisms, and the speed of the ledger and of publication."""
