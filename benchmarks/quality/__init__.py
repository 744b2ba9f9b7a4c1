"""TODO face of benchmarks/quality."""
