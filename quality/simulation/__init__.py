"""TODO face of quality.simulation."""

from quality.simulation.campaign import Campaign, simulate_campaign
from quality.simulation.crowds import (
    Assignment,
    SimulatedCrowd,
    power_law_assignment,
    regular_assignment,
    simulate_crowd,
)

__all__ = [
    "Assignment",
    "Campaign",
    "SimulatedCrowd",
    "power_law_assignment",
    "regular_assignment",
    "simulate_campaign",
    "simulate_crowd",
]
