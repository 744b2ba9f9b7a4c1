"""Class shares that cover the truth: what a consensus counts, corrected by gold on a random sample.

:func:`corrected_shares` takes counts of consensus labels and, for the gold tasks, the table of
consensus and truth. Its point is shrunk; its interval is not, so that it covers.
:func:`noisy_shares` does the same for counts released under noise. :func:`gold_for_width` returns
how many gold tasks an interval of a given width needs. :func:`unmixed_shares` corrects groups by the
errors of all of them together. :func:`cumulative_band` and :func:`normal_band` add up the shares of
ordered classes. For comparison there are :func:`gold_alone`, :func:`rogan_gladen`, and PPI++ as
published, :func:`prediction_powered` and :func:`prediction_powered_infinite`.

>>> import numpy as np
>>> counts, table = np.array([[60, 40]]), np.array([[[11, 1], [3, 5]]])
>>> corrected_shares(counts, table).share.round(2)
array([[0.61, 0.39]])
"""

from quality.shares.corrected import CorrectedShares, corrected_shares
from quality.shares.cumulative import CumulativeShares, cumulative_band, normal_band
from quality.shares.gold_plan import GoldPlan, gold_for_width
from quality.shares.ppi import (
    PredictionPowered,
    prediction_powered,
    prediction_powered_infinite,
)
from quality.shares.released import NoisyShares, noisy_shares
from quality.shares.rivals import gold_alone, rogan_gladen
from quality.shares.unmixed import UnmixedShares, unmixed_shares

__all__ = [
    "CorrectedShares", "CumulativeShares", "GoldPlan", "NoisyShares", "PredictionPowered",
    "UnmixedShares", "corrected_shares", "cumulative_band", "gold_alone", "gold_for_width",
    "noisy_shares", "normal_band", "prediction_powered", "prediction_powered_infinite",
    "rogan_gladen", "unmixed_shares",
]  # fmt: skip
