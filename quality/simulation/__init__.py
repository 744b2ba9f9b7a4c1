"""Simulated crowds and campaigns, whose truth is known: for tests, benchmarks and the sample data.

Draw an assignment with :func:`power_law_assignment` or :func:`regular_assignment`, and the labels
with :func:`simulate_crowd`; :func:`simulate_campaign` makes a whole campaign with groups, features,
gold and times.

>>> import numpy as np
>>> rng = np.random.default_rng(0)
>>> assignment = regular_assignment(n_tasks=8, n_workers=6, labels_per_task=3, rng=rng)
>>> crowd = simulate_crowd(assignment, np.zeros(8, int), n_classes=2, adversaries={}, rng=rng)
>>> crowd
SimulatedCrowd(24 labels, 8 tasks, 6 workers, 0 adversaries)
"""

from quality.simulation.campaign import Campaign, simulate_campaign
from quality.simulation.crowds import (
    Assignment,
    SimulatedCrowd,
    power_law_assignment,
    regular_assignment,
    simulate_crowd,
)

__all__ = [
    "Assignment", "Campaign", "SimulatedCrowd", "power_law_assignment", "regular_assignment",
    "simulate_campaign", "simulate_crowd",
]  # fmt: skip
