"""Measurements of `learners`; each command prints a table and writes it to ``docs/results/``.

Commands, each run as ``python -m benchmarks.learners.<name>``: `class_ratios`, `noisy_proportions`,
`mmd_speed`, `private_training`, `stability`, `histogram_density`, `thresholdout`, `thresholdout_speed`,
`generalisation_bounds`, `streamed_ratios`. The other files serve them: data sets and protocol
(`ratio_sets`), two circles, and rival estimates that only a measurement uses (`set_likelihood`,
`span_matching`).
"""
