"""The support of each cell equals that of the same answers as labels."""

from dataclasses import fields

import numpy as np

from quality import simulate_multilabels, task_support, yes_no_labels
from quality.confidence.support import MAX_SHARED
from quality.multilabel.cell_pass import cells_of
from quality.multilabel.cell_support import cell_support


def test_it_is_the_support_of_yes_no_labels() -> None:
    rng = np.random.default_rng(0)
    crowd = simulate_multilabels(
        n_tasks=80, n_workers=12, answers_per_task=4, n_classes=6, others={"careless": 6}, rng=rng
    )
    gold = np.full(crowd.truth.shape, -1, dtype=np.int8)
    gold[:9] = crowd.truth[:9]
    cells = cells_of(crowd.table, gold)
    chance = rng.random(len(cells.label))
    found = cell_support(crowd.table, cells, chance)
    labels = yes_no_labels(crowd.table, cells)
    expected = task_support(labels, np.stack([1 - chance, chance], axis=1))
    assert expected.shared > 0
    assert np.isnan(found.reliability)
    for one in (one for one in fields(expected) if one.name != "reliability"):
        np.testing.assert_allclose(
            getattr(found, one.name), getattr(expected, one.name), rtol=1e-9, err_msg=one.name
        )


def test_where_no_task_has_two_answers_shared_errors_cannot_be_measured() -> None:
    """What is left of one answer's pairs is rounding: over itself it was any number up to the most."""
    for seed in range(30):
        rng = np.random.default_rng(seed)
        crowd = simulate_multilabels(
            n_tasks=40, n_workers=8, answers_per_task=1, n_classes=5, rng=rng
        )
        cells = cells_of(crowd.table)
        assert cell_support(crowd.table, cells, rng.random(len(cells.label))).shared == MAX_SHARED
