"""TODO face of benchmarks/privacy."""
