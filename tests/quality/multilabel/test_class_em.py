"""The iterations: where they lead, and how soon."""

import numpy as np
import pytest

from quality import encode_multilabels, simulate_multilabels
from quality.multilabel import class_em
from quality.multilabel.cell_pass import cells_of
from quality.multilabel.class_em import fit_cells


def test_the_secant_ends_where_plain_iterations_end_and_sooner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A crowd in which most guess: 17 iterations instead of 27, and 94 instead of 184 to seven digits."""
    crowd = simulate_multilabels(
        n_tasks=400, n_workers=40, answers_per_task=5, n_classes=10, max_labels=3,
        others={"spammer": 24}, rng=np.random.default_rng(1001),
    )  # fmt: skip
    cells = cells_of(crowd.table)
    soon, close = (fit_cells(crowd.table, cells, 300, tol, None) for tol in (5e-3, 1e-7))
    monkeypatch.setattr(class_em._Secant, "next_start", lambda _, start, end: end)
    late, plain = (fit_cells(crowd.table, cells, 300, tol, None) for tol in (5e-3, 1e-7))
    assert soon.n_iter < 0.75 * late.n_iter
    assert close.n_iter < 0.75 * plain.n_iter
    # the strengths were fitted on the way, from a little other counts
    np.testing.assert_allclose(close.chance, plain.chance, atol=0.01)


def test_tasks_that_nobody_answered_change_nothing() -> None:
    crowd = simulate_multilabels(
        n_tasks=120, n_workers=20, answers_per_task=2, n_classes=5, max_labels=1,
        rng=np.random.default_rng(0),
    )  # fmt: skip
    left = crowd.table.keep_workers(np.arange(20) >= 8)
    some = np.diff(left.task_start) > 0
    assert 0 < some.sum() < 120
    bounds = zip(left.label_start[:-1], left.label_start[1:], strict=True)
    alone = encode_multilabels(
        left.worker, left.task, [left.label[first:last] for first, last in bounds], classes=range(5)
    )
    found, expected = (fit_cells(one, cells_of(one), 50, 1e-6, None) for one in (left, alone))
    assert found.weight.max() > 1.5  # sizes say something here
    np.testing.assert_allclose(found.chance, expected.chance, atol=1e-9)
