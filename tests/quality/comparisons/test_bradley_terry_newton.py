"""Bradley and Terry's model: closed forms, stationarity, ties, and what has no estimate."""

import numpy as np
import pytest
from scipy.optimize import linprog, minimize

from quality import Comparisons, bradley_terry, encode_comparisons
from quality.comparisons import TIE


def table_of(seed: int = 0, ties: float = 0.2, n: int = 400) -> Comparisons:
    rng = np.random.default_rng(seed)
    score = rng.normal(size=6)
    left = rng.integers(6, size=n)
    right = (left + rng.integers(1, 6, n)) % 6
    half = (score[left] - score[right]) / 2
    weights = np.exp(np.column_stack([half, -half, np.full(n, np.log(ties + 1e-300))]))
    chance = (weights / weights.sum(axis=1, keepdims=True)).cumsum(axis=1)
    said = (rng.random(n)[:, None] > chance).sum(axis=1)
    worker = rng.integers(5, size=n)
    return encode_comparisons(worker, left, right, np.array(["left", "right", "tie"])[said])


def test_three_wins_of_four_are_odds_of_three() -> None:
    found = bradley_terry(encode_comparisons(["w"] * 4, list("xxxx"), list("yyyy"), list("xxxy")))
    assert found.score[0] - found.score[1] == pytest.approx(np.log(3))
    # the variance of a log odds is 1/3 + 1/1
    variance = found.covariance[0, 0] + found.covariance[1, 1] - 2 * found.covariance[0, 1]
    assert variance == pytest.approx(4 / 3)


def test_at_maximum_likelihood_expected_wins_equal_wins() -> None:
    table = table_of(ties=0)
    found = bradley_terry(table)
    chance = 1 / (1 + np.exp(found.score[table.right] - found.score[table.left]))
    won = np.where(table.outcome == 0, table.left, table.right)
    expected = np.bincount(table.left, chance, 6) + np.bincount(table.right, 1 - chance, 6)
    assert expected == pytest.approx(np.bincount(won, minlength=6), abs=1e-6)


def test_davidsons_ties_are_those_of_a_general_optimiser() -> None:
    table = table_of()
    found = bradley_terry(table)

    def loss(x: np.ndarray) -> float:
        half = (x[table.left] - x[table.right]) / 2
        logits = np.column_stack([half, -half, np.full(len(half), x[6])])
        norm = np.logaddexp.reduce(logits, axis=1)
        return float((norm - logits[np.arange(len(half)), table.outcome]).sum())

    best = minimize(loss, np.zeros(7), method="BFGS", options={"gtol": 1e-7}).x
    assert found.score == pytest.approx(best[:6] - best[:6].mean(), abs=1e-5)
    assert found.tie == pytest.approx(best[6], abs=1e-5)
    assert found.log_likelihood == pytest.approx(-loss(best), abs=1e-6)


@pytest.mark.parametrize("max_iter", [1, 2, 100])
def test_the_log_likelihood_is_that_of_the_scores_returned_also_before_they_settle(
    max_iter: int,
) -> None:
    """It was that of the scores before the last step."""
    table = table_of()
    found = bradley_terry(table, prior_sd=2.0, max_iter=max_iter)
    half = (found.score[table.left] - found.score[table.right]) / 2
    logits = np.column_stack([half, -half, np.full(len(half), found.tie)])
    chance = logits[np.arange(len(half)), table.outcome] - np.logaddexp.reduce(logits, axis=1)
    assert found.log_likelihood == pytest.approx(chance.sum(), abs=1e-9)


@pytest.mark.parametrize("prior_sd", [None, 1.0])
def test_the_covariance_is_of_scores_and_tie_parameter_together(prior_sd: float | None) -> None:
    """The block of the scores in the inverse of all seven parameters' information."""
    table = table_of(ties=0.8)
    found = bradley_terry(table, prior_sd=prior_sd)
    row = np.arange(400)
    slope = np.zeros((400, 3, 7))
    slope[row, :2, table.left] = 0.5, -0.5
    slope[row, :2, table.right] = -0.5, 0.5
    slope[:, 2, 6] = 1.0
    weight = np.exp(slope @ [*found.score, found.tie])
    chance = weight / weight.sum(axis=1, keepdims=True)
    mean = np.einsum("rk,rkp->rp", chance, slope)
    information = np.einsum("rk,rkp,rkq->pq", chance, slope, slope) - mean.T @ mean
    information[:6, :6] += np.eye(6) * (0.0 if prior_sd is None else prior_sd**-2)
    centred = np.eye(6) - 1 / 6
    expected = centred @ np.linalg.pinv(information)[:6, :6] @ centred
    assert found.covariance == pytest.approx(expected, abs=1e-7)


def test_half_ties_are_half_a_win_of_each() -> None:
    columns = ["w"] * 4, list("xxxx"), list("yyyy")
    tied = bradley_terry(encode_comparisons(*columns, ["x", "x", "y", "tie"]), ties="half")
    assert tied.score[0] - tied.score[1] == pytest.approx(np.log(2.5 / 1.5))
    assert tied.tie == -np.inf


def test_dropped_ties_do_not_count() -> None:
    columns = ["w"] * 4, list("xxxx"), list("yyyy")
    found = bradley_terry(encode_comparisons(*columns, ["x", "x", "y", "tie"]), ties="drop")
    assert found.score[0] - found.score[1] == pytest.approx(np.log(2))


def test_an_item_that_never_lost_needs_a_prior() -> None:
    table = encode_comparisons(["w"] * 2, ["x", "y"], ["y", "z"], ["x", "y"])
    with pytest.raises(ValueError, match="is not linked so: give prior_sd"):
        bradley_terry(table)
    score = bradley_terry(table, prior_sd=1.0).score
    assert score[0] > score[1] > score[2]


def test_a_group_that_repeats_itself_counts_once() -> None:
    alone = encode_comparisons(list("ab"), list("xx"), list("yy"), list("xy"))
    copied = encode_comparisons(list("abcc"), list("xxxx"), list("yyyy"), list("xyxx"))
    found = bradley_terry(copied, groups=np.array([0, -1, 0]))
    assert found.score == pytest.approx(bradley_terry(alone).score, abs=1e-9)


@pytest.mark.refusal
def test_what_is_not_a_choice_is_refused() -> None:
    table = table_of()
    with pytest.raises(ValueError, match="ties must be one of davidson, half, drop"):
        bradley_terry(table, ties="twice")  # type: ignore[arg-type]
    for wrong in (
        0.0,
        1e-200,
        1e9,
        np.inf,
        np.nan,
    ):  # squares overflow, or nothing settles the level
        with pytest.raises(ValueError, match=r"prior_sd must be in \[1e-06, 1000000.0\] or None"):
            bradley_terry(table, prior_sd=wrong)
    assert np.isfinite(bradley_terry(table, prior_sd=1e6).covariance).all()
    with pytest.raises(ValueError, match="max_iter must be >= 1"):
        bradley_terry(table, max_iter=0)
    only = encode_comparisons(["w"], ["x"], ["y"], ["tie"])
    assert only.outcome.tolist() == [TIE]
    with pytest.raises(ValueError, match="got ties alone"):
        bradley_terry(only, ties="drop", prior_sd=1.0)


@pytest.mark.parametrize("ties", ["davidson", "drop"])
def test_ties_alone_are_refused_in_a_sentence(ties: str) -> None:
    table = encode_comparisons(["a", "b"], ["x", "y"], ["y", "x"], ["tie", "tie"])
    for prior in (0.0, 1.0):
        with pytest.raises(ValueError, match="there must be a comparison that is no tie"):
            bradley_terry(table, ties=ties, prior_sd=prior or None)


def of_rows(rows: list[str]) -> Comparisons:
    """Comparisons written as x>y and x=y."""
    outcome = {">": "left", "=": "tie"}
    left, said, right = zip(*rows, strict=True)
    winner = [outcome[one] for one in said]
    return encode_comparisons(["w"] * len(rows), list(left), list(right), winner)


@pytest.mark.parametrize("rows", [["x>y", "x=y"], ["x>y", "y=z", "z=x"]])
def test_wins_that_run_one_way_have_no_estimate_beside_ties(rows: list[str]) -> None:
    """The likelihood rises for ever as the winner's score and the tie parameter do."""
    table = of_rows(rows)
    with pytest.raises(ValueError, match="there must be a cycle of wins"):
        bradley_terry(table)
    assert bradley_terry(table, prior_sd=1.0).converged
    assert bradley_terry(table, ties="half").converged


def test_a_circle_of_more_wins_than_ties_has_an_estimate() -> None:
    assert bradley_terry(of_rows(["x>y", "y>z", "x=z"])).converged


def test_what_has_no_estimate_is_what_a_linear_programme_finds() -> None:
    """Oracle: is there a direction along which no outcome gets unlikelier, and some likelier?"""
    rng, refused = np.random.default_rng(0), 0
    for _ in range(60):
        n, m = int(rng.integers(2, 5)), int(rng.integers(3, 9))
        left = rng.integers(n, size=m)
        right = (left + rng.integers(1, n, size=m)) % n
        forward = rng.random(m) < 0.85  # wins run mostly one way
        said = np.where(rng.random(m) < 0.45, 2, np.where(forward, left > right, left <= right))
        said[0], chain = 2, np.arange(n - 1)
        left, right = np.append(left, chain), np.append(right, chain + 1)
        said = np.append(said, np.full(n - 1, 2))  # a chain of ties links all items
        if (said == 2).all():
            continue
        table = encode_comparisons(
            ["w"] * len(left), left.tolist(), right.tolist(),
            np.array(["left", "right", "tie"])[said].tolist(),
        )  # fmt: skip
        worse = []
        for one, other, outcome in zip(table.left, table.right, table.outcome, strict=True):
            logits = np.zeros((3, n + 1))
            logits[0, [one, other]], logits[1, [one, other]] = (0.5, -0.5), (-0.5, 0.5)
            logits[2, n] = 1.0
            worse.append(np.delete(logits, outcome, axis=0) - logits[outcome])
        bound = np.concatenate(worse)
        level = np.append(np.ones(n), 0.0)[None]
        best = linprog(bound.sum(axis=0), bound, np.zeros(len(bound)), level, [0.0], bounds=(-1, 1))
        if best.fun < -1e-7:
            refused += 1
            with pytest.raises(ValueError, match="no finite estimate"):
                bradley_terry(table)
        else:
            assert bradley_terry(table).converged
    assert 10 < refused < 50
