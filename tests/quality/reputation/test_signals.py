"""The study of signals: its measure, and what it says of mirrors."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.quality.signals import SIGNALS, auc, measure

QUICK = settings(max_examples=60, deadline=None, derandomize=True)


@QUICK
@given(st.lists(st.tuples(st.integers(0, 4), st.booleans()), min_size=2, max_size=12))
def test_auc_is_the_share_of_pairs_in_order_with_ties_half(rows: list[tuple[int, bool]]) -> None:
    """Oracle: every pair of an adversary and an honest worker; both kinds are added once."""
    rows = [*rows, (2, True), (1, False)]
    score, adversary = (np.array(column) for column in zip(*rows, strict=True))
    pairs = [
        (bad > good) + (bad == good) / 2 for bad in score[adversary] for good in score[~adversary]
    ]
    assert abs(auc(score, adversary) - np.mean(pairs)) < 1e-12


def test_the_pair_test_finds_mirrors_as_far_as_their_models_let_it() -> None:
    """54 honest workers, 6 of them mirrored: a signal that gives both one score is right on
    1 - 6 / 54 / 2 of the pairs at most; the soft penalty ranks the honest as worse."""
    found = dict(zip(SIGNALS, measure("sophisticated", 0.1, 9, "regular", 2), strict=True))
    assert 0.9 < found["pair test"] <= 1 - 6 / 54 / 2 + 0.02
    assert found["soft"] < 0.3


def test_the_same_seeds_give_the_same_figures() -> None:
    one, other = (measure("colluding", 0.3, 3, "power law", 1) for _ in range(2))
    assert one.tobytes() == other.tobytes()
