"""TODO face of benchmarks/peers."""
