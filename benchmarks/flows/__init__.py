"""TODO face of benchmarks/flows."""
