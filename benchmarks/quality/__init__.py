"""Benchmarks of `quality`: aggregators, penalties and filters on public sets and simulated crowds."""
