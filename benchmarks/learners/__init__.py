"""TODO face of benchmarks/learners."""
