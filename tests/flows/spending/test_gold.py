"""How many gold tasks a price asks for, how the price is divided, and of which groups a correction is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from flows.settings import SettingsError
from flows.spending import (
    Correction,
    gold_needed,
    plan_correction,
    propose_gold,
    split_price,
    why_not_corrected,
)
from privacy import LatticeCorrection, LatticeLaplace
from quality import gold_for_width
from tests.flows.campaign import toy_crowd, toy_settings

ASKED = {"accuracy": 0.8, "n_tasks": 5_000, "n_classes": 4, "level": 0.9}


def test_no_other_division_of_the_price_leaves_a_shrunk_share_less_noise() -> None:
    """Which has the noise of the counts, and an eighth of the variance of the correction's."""
    counts, correction = split_price(1.0, n_tasks=5_000, n_gold=300)
    assert counts + correction == pytest.approx(1.0)

    def noise(first: float) -> float:
        return (2 / first / 5_000) ** 2 + (4 / (1 - first) / 300) ** 2 / 8

    assert all(noise(counts) <= noise(other / 100) for other in range(1, 100))


def test_a_group_without_gold_is_never_corrected_by_itself_however_little_the_noise() -> None:
    assert LatticeCorrection(300.0).law(4).variance == 0.0
    assert gold_needed(LatticeCorrection(300.0), 4) == 1


def test_without_a_price_the_sample_alone_counts() -> None:
    found = propose_gold(0.1, **ASKED)  # type: ignore[arg-type]
    assert found.n_gold == gold_for_width(0.1, **ASKED).n_gold  # type: ignore[arg-type]
    assert (found.proportions_epsilon, found.correction_epsilon, found.n_each) == (None, None, None)


def test_what_is_proposed_has_the_width_at_the_prices_proposed() -> None:
    found = propose_gold(0.1, price=1.0, **ASKED)  # type: ignore[arg-type]
    assert found.proportions_epsilon is not None
    assert found.correction_epsilon is not None
    again = gold_for_width(
        0.1,
        count_variance=LatticeLaplace(found.proportions_epsilon).law(4).variance,
        difference_variance=LatticeCorrection(found.correction_epsilon).law(4).variance,
        **ASKED,  # type: ignore[arg-type]
    )
    assert again.n_gold == found.n_gold
    assert found.n_gold is not None
    prices = split_price(1.0, n_tasks=5_000, n_gold=found.n_gold)
    assert prices == (found.proportions_epsilon, found.correction_epsilon)
    assert again.width <= 0.1


def test_a_lower_price_asks_for_more_gold() -> None:
    few, many = (propose_gold(0.1, price=price, **ASKED).n_gold for price in (3.0, 0.5))  # type: ignore[arg-type]
    assert few is not None
    assert many is not None
    assert few < many


def test_a_width_below_the_noise_has_no_number() -> None:
    found = propose_gold(0.001, price=0.1, **ASKED)  # type: ignore[arg-type]
    assert found.n_gold is None
    assert found.width > 0.001


def test_numbers_out_of_range_are_mistakes_of_the_caller() -> None:
    with pytest.raises(SettingsError, match="width must be in"):
        propose_gold(2.0, **ASKED)  # type: ignore[arg-type]
    with pytest.raises(SettingsError, match="must be >= 1, got n_tasks=0, max_tasks=1"):
        propose_gold(0.1, price=1.0, **(ASKED | {"n_tasks": 0}))  # type: ignore[arg-type]


# which groups a correction is of ---------------------------------------------------------------

UNCORRECTED = "shares are the crowd's: a correction has no price (privacy.correction_epsilon)"


@pytest.mark.parametrize(
    ("privacy", "sampling", "why_not"),
    [
        (None, "random", UNCORRECTED),
        ({"epsilon": 4.0}, "random", UNCORRECTED),
        ({"epsilon": 4.0, "correction_epsilon": 1.0}, "chosen", "gold that was chosen"),
        ({"epsilon": 4.0, "correction_epsilon": 1.0}, "random", None),
        ({"epsilon": 4.0, "correction_epsilon": 1.0}, "stratified", None),
    ],
)
def test_a_correction_is_paid_for_at_a_price_and_of_gold_that_is_a_sample(
    tmp_path: Path, privacy: dict[str, float] | None, sampling: str, why_not: str | None
) -> None:
    settings = toy_settings(tmp_path, privacy=privacy, input={"gold_sampling": sampling})
    found = why_not_corrected(settings)
    assert (found is None) == (why_not is None)
    assert (found or "").startswith(why_not or "")
    if settings.privacy is not None:
        planned = planned_correction(tmp_path, "nn", "ab", privacy=privacy, sampling=sampling)
        assert isinstance(planned, Correction) if why_not is None else planned == found


def planned_correction(
    folder: Path, groups: str, gold: str, *, published: str = "ns", sampling: str = "random",
    privacy: dict[str, Any] | None = None, subjects: str = "",
) -> Correction | str:  # fmt: skip
    """The correction of a toy crowd whose consensus is all of the first class."""
    settings = toy_settings(
        folder, privacy=privacy or {"epsilon": 9.0, "correction_epsilon": PRICE},
        input={"gold_sampling": sampling} | ({"subject": "who"} if subjects else {}),
    )  # fmt: skip
    assert settings.privacy is not None
    label, crowd = np.zeros(len(groups), np.int64), toy_crowd(groups, gold=gold, subjects=subjects)
    there = tuple(sorted(set(published) & set(groups)))
    return plan_correction(label, crowd, settings, settings.privacy, there)


PRICE = 4.0  # at which two gold tasks are needed in a group that is corrected by itself


def test_so_many_gold_tasks_are_needed_that_the_noise_is_below_any_samples_error() -> None:
    """Its standard deviation over n is at most 1 / (2 sqrt(n)), and of one task fewer it is above."""
    for price in (0.5, 2.0, PRICE):
        noise = LatticeCorrection(price)
        n, variance = gold_needed(noise, 2), noise.law(2).variance
        assert variance**0.5 / n <= 0.5 / n**0.5
        assert n == 1 or variance**0.5 / (n - 1) > 0.5 / (n - 1) ** 0.5
    assert gold_needed(LatticeCorrection(PRICE), 2) == 2


@pytest.mark.parametrize(
    ("groups", "gold", "apart"),
    [
        ("nnnn", "a---", ("n",)),  # one group is all tasks
        ("nnnnssss", "ab--ba--", ("n", "s")),  # two each, which is just enough
        ("nnnnssss", "ab--b---", ()),
        ("nnnnssss", "ab------", ()),
        ("nnnnuuuu", "ab--ab--", ("n",)),  # u is not published
    ],
)
def test_groups_are_corrected_one_by_one_where_each_has_gold_enough(
    tmp_path: Path, groups: str, gold: str, apart: tuple[str, ...]
) -> None:
    found = planned_correction(tmp_path, groups, gold)
    assert isinstance(found, Correction)
    assert found.groups == apart
    assert len(found.queries) == max(1, len(apart))
    n_gold = sum(one != "-" for one, group in zip(gold, groups, strict=True) if group != "u")
    assert sum(query.n for query in found.queries) == n_gold


def test_gold_of_the_first_class_alone_is_gold_and_of_no_published_group_is_none(
    tmp_path: Path,
) -> None:
    assert isinstance(planned_correction(tmp_path, "nnss", "aa--"), Correction)
    for groups, gold in (("nnss", "----"), ("nnuu", "--ab")):
        none = planned_correction(tmp_path, groups, gold)
        assert none == "no task of a published group has gold"


SUBJECTS = {
    "unit": "subject", "max_tasks_per_subject": 2, "epsilon": 9.0, "correction_epsilon": PRICE
}  # fmt: skip


def test_stratified_gold_is_refused_where_groups_cannot_be_corrected_one_by_one(
    tmp_path: Path,
) -> None:
    """It is a sample of each group; of all groups together it is none."""
    for gold, refused in (("ab--ba--", False), ("ab--b---", True)):
        found = planned_correction(tmp_path, "nnnnssss", gold, sampling="stratified")
        assert isinstance(found, str) is refused
    assert isinstance(found, str)
    assert found == (
        "stratified gold corrects each group by itself, which takes 2 gold tasks in every group at this price"
    )
    found = planned_correction(
        tmp_path, "nnnnssss", "abababab", sampling="stratified", privacy=SUBJECTS,
        subjects="pqrspqrs",
    )  # fmt: skip
    assert isinstance(found, str)
    assert found.endswith("and another unit than subjects")


def test_subjects_are_corrected_together_and_priced_for_all_their_tasks(tmp_path: Path) -> None:
    for sampling in ("random", "stratified"):
        found = planned_correction(
            tmp_path, "nnnn", "abab", sampling=sampling, privacy=SUBJECTS, subjects="pqrs"
        )
        assert isinstance(found, Correction)
        assert found.groups == ()
        assert [query.l1 for query in found.queries] == [8.0]
        assert found.n_needed == gold_needed(LatticeCorrection(PRICE), 2, l1=8.0) > 2
