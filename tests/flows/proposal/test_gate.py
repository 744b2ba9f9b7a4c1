"""The gate's numbers that are proposed, and the sample's: a model that does not overfit passes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from flows.proposal import gate_for
from flows.settings import GateSettings, ModelSettings, load_settings

SAMPLE = Path(__file__).resolve().parents[3] / "sample_data" / "settings.toml"
TIMES = 400_000


def refuted(
    gate: GateSettings,
    model: ModelSettings,
    *,
    n_labelled: int,
    right: float,
    rng: np.random.Generator,
) -> float:
    """Share of first questions that are refuted, with training and holdout equally right in truth."""
    n_holdout = round(n_labelled * gate.holdout)
    n_scored = round((n_labelled - n_holdout) * model.validation)
    holdout = rng.binomial(n_holdout, right, TIMES) / n_holdout
    scored = rng.binomial(n_scored, right, TIMES) / n_scored
    scored = np.clip(scored + rng.laplace(0, 1 / (model.epsilon_score * n_scored), TIMES), 0, 1)
    threshold = gate.threshold + rng.laplace(0, 2 * gate.sigma, TIMES)
    return float(
        (np.abs(holdout - scored) + rng.laplace(0, 4 * gate.sigma, TIMES) > threshold).mean()
    )


@pytest.mark.parametrize("n_labelled", [3000, 4000, 20_000, 200_000])
@pytest.mark.parametrize("right", [0.5, 0.8])
def test_a_model_that_does_not_overfit_passes_the_proposed_gate(
    n_labelled: int, right: float, rng: np.random.Generator
) -> None:
    found = gate_for(n_labelled)
    assert found is not None
    gate = GateSettings(threshold=found.threshold, sigma=found.sigma, budget=found.budget)
    model = ModelSettings(norm_bound=1.0)
    assert refuted(gate, model, n_labelled=n_labelled, right=right, rng=rng) < 0.01


def test_a_model_that_does_not_overfit_passes_the_samples_gate_99_times_in_100(
    rng: np.random.Generator,
) -> None:
    chosen = load_settings(SAMPLE)
    assert chosen.model is not None
    assert refuted(chosen.gate, chosen.model, n_labelled=4000, right=0.76, rng=rng) < 0.01


def test_the_fewest_tasks_for_which_a_gate_is_proposed() -> None:
    fewest = next(n for n in range(100, 4000) if gate_for(n) is not None)
    found = gate_for(fewest)
    assert found is not None
    assert math.isclose(found.threshold, 0.15)
    assert found.budget == 1
