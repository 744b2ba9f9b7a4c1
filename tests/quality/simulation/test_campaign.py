"""The campaign of the sample data: sizes, names, signal, and nothing given away."""

from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from quality import Campaign, encode, simulate_campaign


@pytest.fixture
def campaign(rng: np.random.Generator) -> Campaign:
    """The default campaign."""
    return simulate_campaign(rng=rng)


def test_the_default_campaign_has_its_sizes(campaign: Campaign) -> None:
    assert len(campaign.label) == 20_000
    assert np.count_nonzero(campaign.labelled) == 4000
    assert np.count_nonzero(~campaign.labelled) == 1500
    assert len(set(campaign.group[campaign.labelled])) == 12
    names, sizes = np.unique(campaign.group[~campaign.labelled], return_counts=True)
    assert (len(names), set(sizes.tolist())) == (6, {250})
    kinds, counts = np.unique(campaign.worker_kind, return_counts=True)
    assert dict(zip(kinds.tolist(), counts.tolist(), strict=True)) == {
        "colluding": 6, "honest": 96, "malicious": 6, "random": 6, "uniform": 6,
    }  # fmt: skip
    assert campaign.gold.sum() == 300
    assert campaign.labelled[campaign.gold].all()
    assert len(campaign.features) == len(campaign.tasks) == 5500
    assert campaign.classes.tolist() == ["benign", "suspicious", "toxic"]


def test_its_labels_can_be_encoded_and_are_of_labelled_tasks(campaign: Campaign) -> None:
    labels = encode(campaign.label_worker, campaign.label_task, campaign.classes[campaign.label])
    assert np.array_equal(labels.tasks, campaign.tasks[campaign.labelled])
    assert (np.diff(labels.task_start) == 5).all()


def test_names_look_like_names_and_are_sorted(campaign: Campaign) -> None:
    assert (campaign.workers[37], campaign.tasks[412]) == ("w037", "t00412")
    assert sorted(set(campaign.group)) == [f"site-{letter}" for letter in "abcdefghijklmnopqr"]
    for names in (campaign.workers, campaign.tasks):
        assert np.array_equal(np.unique(names), names)


def test_labels_come_in_the_order_of_their_times(campaign: Campaign) -> None:
    assert campaign.label_time.dtype == np.int64
    assert campaign.label_time[0] >= 0
    assert (np.diff(campaign.label_time) >= 0).all()
    assert campaign.label_time[-1] < 90 * 24 * 3600
    names, counts = np.unique(campaign.label_worker, return_counts=True)
    busiest = names[counts.argmax()]
    assert (np.diff(campaign.label_time[campaign.label_worker == busiest]) > 0).mean() > 0.9


def test_activity_is_spread_as_a_power_law(campaign: Campaign) -> None:
    counts = np.sort(np.unique(campaign.label_worker, return_counts=True)[1])[::-1]
    assert len(counts) == 120
    assert counts[0] > 10 * np.median(counts)


def test_every_feature_has_mean_0_and_standard_deviation_1(campaign: Campaign) -> None:
    n_features = campaign.features.shape[1]
    assert campaign.features.mean(axis=0) == pytest.approx(np.zeros(n_features), abs=1e-12)
    assert campaign.features.std(axis=0) == pytest.approx(np.ones(n_features))
    norm = np.linalg.norm(campaign.features, axis=1)
    assert norm.mean() == pytest.approx(np.sqrt(n_features), rel=0.05)


def test_a_linear_model_gets_about_85_percent_right(campaign: Campaign) -> None:
    features, truth = campaign.features[campaign.labelled], campaign.truth[campaign.labelled]
    model = LogisticRegression(max_iter=500).fit(features[::2], truth[::2])
    assert 0.81 < model.score(features[1::2], truth[1::2]) < 0.90


def test_features_given_the_class_have_the_same_law_in_every_group(campaign: Campaign) -> None:
    """Means of labelled and unlabelled tasks of a class differ by noise only.

    Beyond 6 standard errors has probability 2e-9 for one mean, so below 1e-6 for three classes of
    up to 160 features.
    """
    for truth in range(3):
        known = campaign.features[campaign.labelled & (campaign.truth == truth)]
        other = campaign.features[~campaign.labelled & (campaign.truth == truth)]
        error = np.sqrt(known.var(axis=0) / len(known) + other.var(axis=0) / len(other))
        assert (abs(known.mean(axis=0) - other.mean(axis=0)) < 6 * error).all()


def test_groups_mix_the_classes_differently(campaign: Campaign) -> None:
    mix = np.array([
        np.bincount(campaign.truth[campaign.group == group], minlength=3)
        / np.count_nonzero(campaign.group == group)
        for group in np.unique(campaign.group)
    ])  # fmt: skip
    assert np.linalg.svd(mix[:12], compute_uv=False)[-1] > 0.2
    assert mix[12:].mean(axis=0)[0] < mix[:12].mean(axis=0)[0]


def test_the_same_generator_gives_the_same_campaign() -> None:
    one, other = (simulate_campaign(rng=np.random.default_rng(7)) for _ in range(2))
    for field in fields(Campaign):
        assert getattr(one, field.name).tobytes() == getattr(other, field.name).tobytes()
        assert not getattr(one, field.name).flags.writeable


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"n_groups": 0}, r"n_groups must be in \[1, n_tasks=40\], got n_groups=0"),
        (
            {"n_tasks": 1, "n_groups": 1, "n_gold": 1, "n_unlabelled_groups": 0},
            "tasks must be 2 or more, so that features have a spread, got n_tasks=1",
        ),
        ({"n_gold": 41}, r"n_gold must be in \[0, n_tasks=40\], got n_gold=41"),
        ({"n_unlabelled_groups": -1}, "the unlabelled groups must have sizes >= 0"),
        ({"adversaries_per_kind": 30}, "adversaries must be at most all 20 workers"),
        ({"labels_per_task": 21}, "labels_per_task must be in"),
    ],
)
def test_sizes_out_of_range_are_refused(
    change: dict[str, Any], message: str, rng: np.random.Generator
) -> None:
    sizes: dict[str, Any] = {
        "n_tasks": 40, "n_groups": 4, "n_gold": 5, "n_workers": 20, "adversaries_per_kind": 1,
    } | change  # fmt: skip
    with pytest.raises(ValueError, match=message):
        simulate_campaign(**sizes, rng=rng)


def test_more_groups_than_two_letters_name_have_names(rng: np.random.Generator) -> None:
    campaign = simulate_campaign(
        n_tasks=710, n_groups=710, n_unlabelled_groups=0, n_gold=0, labels_per_task=1, rng=rng
    )
    names = set(campaign.group.tolist())
    assert len(names) == 710
    assert {"site-a", "site-z", "site-aa", "site-zz", "site-aaa", "site-aah"} <= names


def test_a_small_campaign_without_unlabelled_groups_works(rng: np.random.Generator) -> None:
    campaign = simulate_campaign(
        n_tasks=40, n_groups=4, n_gold=5, n_workers=20, adversaries_per_kind=0,
        n_unlabelled_groups=0, rng=rng,
    )  # fmt: skip
    assert campaign.labelled.all()
    assert len(campaign.label) == 200
