import dataclasses
import math

import numpy as np
import pytest

from privacy import Cost, LatticeLaplace, Query, Unit
from privacy.accounting import event_json, exact, six_digits_down
from privacy.accounting.composition import compose
from privacy.mechanisms.choice import (
    _largest_share,
    _projected_laplace,
    choose_mechanism,
    crossover_delta,
)
from privacy.mechanisms.gaussian import (
    DiscreteGaussian,
    DiscreteGaussianLaw,
    analytic_gaussian_delta,
)

EPSILONS = (0.05, 0.1, 0.5, 1.0, 2.0)
CROSSOVERS = {
    2: (0.0021, 0.0042, 0.029, 0.106, 0.65),
    3: (0.0012, 0.0024, 0.016, 0.051, 0.34),
    5: (0.00078, 0.0016, 0.0103, 0.032, 0.18),
    10: (0.00058, 0.0012, 0.0077, 0.023, 0.12),
    20: (0.00051, 0.0010, 0.0067, 0.020, 0.10),
    50: (0.00047, 0.00096, 0.0061, 0.018, 0.094),
}


@pytest.mark.parametrize("n_classes", CROSSOVERS)
def test_the_crossover_has_its_golden_value(n_classes):
    """Table T7 of the privacy specification, two digits, within 5 %. The table is of continuous
    noise; at epsilon 2 the scale is below one, and discrete noise is another matter there."""
    for epsilon, expected in zip(EPSILONS, CROSSOVERS[n_classes], strict=True):
        error = LatticeLaplace(epsilon).law(n_classes).expected_l1
        scale = error / (n_classes * math.sqrt(2 * (1 - 1 / n_classes) / math.pi))
        assert analytic_gaussian_delta(scale, epsilon) == pytest.approx(expected, rel=0.05)
        if epsilon <= 1:
            assert crossover_delta(n_classes, epsilon) == pytest.approx(expected, rel=0.05)


@pytest.mark.parametrize("n_classes", [2, 3, 5, 20])
@pytest.mark.parametrize("epsilon", [0.05, 0.3, 1.0])
def test_the_mechanism_chosen_errs_no_more_than_the_other(n_classes, epsilon):
    crossover = crossover_delta(n_classes, epsilon)
    lattice = LatticeLaplace(epsilon).law(n_classes).expected_l1
    for factor in (0.1, 0.9, 1.1, 5.0):
        delta = factor * crossover
        choice = choose_mechanism(n_classes, epsilon, delta)
        gaussian = DiscreteGaussian(epsilon, delta).law(n_classes).projected_l1
        assert choice.expected_l1 == min(lattice, gaussian)
        assert isinstance(choice.mechanism, LatticeLaplace) == (factor < 1)


def exact_gaussian_error(n_classes, scale):
    """Oracle: E||z - mean of z||_1 = E|(c - 1) z_1 - S|, S the sum of the c - 1 others, over the integers."""
    reach = math.ceil(12 * scale) + 2
    z = np.arange(-reach, reach + 1)
    one = np.exp(-((z / scale) ** 2) / 2)
    one /= one.sum()
    others = reach * (n_classes - 1)
    size = 1 << (2 * others + 1).bit_length()
    wave = np.fft.rfft(np.roll(np.pad(one, (0, size - one.size)), -reach))
    law = np.fft.irfft(wave ** (n_classes - 1), size)
    s = np.arange(-others, others + 1)
    law = np.maximum(law[s % size], 0.0)
    return sum(
        p * (law * np.abs((n_classes - 1) * x - s)).sum() for x, p in zip(z, one, strict=True)
    )


@pytest.mark.parametrize("n_classes", [2, 3, 5, 20, 1000])
def test_gaussian_noise_errs_less_than_continuous_noise_and_by_a_tenth_at_most(n_classes):
    """At scales of 1 or more; below it the formula says much more than what the noise errs by."""
    for scale in (0.3, 0.6, 1.0, 1.3, 2.0, 5.0):
        law = DiscreteGaussianLaw(scale, n_classes, np.array([0]), np.array([1.0]))
        ratio = exact_gaussian_error(n_classes, scale) / law.projected_l1
        assert ratio < 1 + 1e-9
        assert ratio > 0.9 or scale < 1.0


@pytest.mark.parametrize(
    ("n_classes", "epsilon", "delta", "n_releases", "kind"),
    [
        (2, 0.5, 0.028, 1, LatticeLaplace),
        (5, 1.0, 0.031, 1, LatticeLaplace),
        (5, 1.0, 0.033, 1, DiscreteGaussian),
        (5, 4.0, 1e-6, 16, DiscreteGaussian),
        (5, 20.0, 1e-6, 16, LatticeLaplace),
    ],
)
def test_the_others_errors_are_no_smaller_but_a_gaussians_that_was_not_chosen_by_a_tenth(
    n_classes, epsilon, delta, n_releases, kind
):
    """Against exact laws, on both sides of a crossover and with plans."""
    choice, share = choose_mechanism(n_classes, epsilon, delta, n_releases=n_releases), delta
    assert isinstance(choice.mechanism, kind)
    one = {LatticeLaplace: epsilon, DiscreteGaussian: epsilon}
    if n_releases > 1:
        share = six_digits_down(exact(delta) / n_releases)
        makes = {
            LatticeLaplace: LatticeLaplace,
            DiscreteGaussian: lambda e: DiscreteGaussian(e, share),
        }
        one = {
            name: _largest_share(make, n_classes, (epsilon, delta), n_releases, 2.0)
            for name, make in makes.items()
        }
    lattice = LatticeLaplace(one[LatticeLaplace]).law(n_classes).expected_l1
    scale = DiscreteGaussian(one[DiscreteGaussian], share).scale
    gaussian = exact_gaussian_error(n_classes, scale)
    if kind is DiscreteGaussian:
        assert gaussian <= choice.expected_l1 <= lattice
    else:
        assert choice.expected_l1 == lattice
        assert scale >= 1
        assert gaussian >= 0.9 * lattice


def test_no_delta_is_lattice_laplace():
    assert choose_mechanism(3, 0.5, 0.0).mechanism == LatticeLaplace(0.5)


def test_the_paper_settings_go_to_the_gaussian():
    """Acceptance A13 in expectation: 28.3 labels of a thousand at five classes."""
    choice = choose_mechanism(5, 0.05, 0.05)
    assert choice.mechanism == DiscreteGaussian(0.05, 0.05)
    assert choice.expected_l1 == pytest.approx(28.3, rel=2e-3)
    assert choice.reason == (
        "discrete Gaussian errs by 28.3 labels on average, lattice Laplace by 160; above delta = "
        "0.000778 Gaussian noise errs less"
    )


def test_a_modern_price_goes_to_the_lattice():
    """Acceptance A14, a single release: 7.5 labels."""
    choice = choose_mechanism(5, 1.0, 1e-6)
    assert choice.mechanism == LatticeLaplace(1.0)
    assert choice.expected_l1 == pytest.approx(7.53, rel=1e-3)


@pytest.mark.parametrize("n_classes", [2, 5, 50])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0])
def test_any_usual_delta_goes_to_the_lattice(n_classes, epsilon):
    """Below table T7: any delta of at most 1e-4 at epsilon from 0.05."""
    assert isinstance(choose_mechanism(n_classes, epsilon, 1e-4).mechanism, LatticeLaplace)


def test_gaussian_noise_wider_than_is_summed_leaves_the_choice_to_the_others(monkeypatch):
    """Its refusal named a share of the price that nobody had given."""
    monkeypatch.setattr("privacy.mechanisms.gaussian.MAX_SCALE", 40.0)
    choice = choose_mechanism(3, 0.4321, 1e-6, n_releases=4)
    assert type(choice.mechanism) is LatticeLaplace
    assert "Gaussian" not in choice.reason
    monkeypatch.setattr("privacy.mechanisms.gaussian.MAX_SCALE", 400.0)
    assert "Gaussian" in choose_mechanism(3, 0.4322, 1e-6, n_releases=4).reason


def test_a_crossover_is_for_the_prices_that_deltas_are_computed_for():
    for wrong in (100.5, 1e300):
        with pytest.raises(
            ValueError, match=f"at most 100, got epsilon={wrong}".replace("+", r"\+")
        ):
            crossover_delta(3, wrong)


def test_a_delta_that_cannot_be_shared_leaves_the_gaussian_out():
    reason = choose_mechanism(3, 1.0, 5e-324, n_releases=16).reason
    assert "Gaussian" not in reason


@pytest.mark.parametrize(
    ("n_classes", "epsilon", "delta"),
    [(1, 1.0, 0.0), (2, 0.0, 0.0), (2, math.nan, 0.0), (2, 1.0, -0.1), (2, 1.0, 1.0)],
)
def test_what_cannot_be_chosen_for_is_refused(n_classes, epsilon, delta):
    with pytest.raises(ValueError, match="must be"):
        choose_mechanism(n_classes, epsilon, delta)


@pytest.mark.parametrize(
    ("n_classes", "lattice", "laplace", "gaussian"),
    [(2, 7.90, 9.55, 7.62), (5, 26.4, 30.0, 24.1), (10, 57.8, 62.5, 51.1)],
)
def test_sixteen_releases_go_to_the_gaussian(n_classes, lattice, laplace, gaussian):
    """Acceptance A14 and below table T7: 16 releases within (4, 1e-6), labels per release. The
    discrete Laplace figures there are means of samples; within 1 %."""
    choice = choose_mechanism(n_classes, 4.0, 1e-6, n_releases=16)
    assert isinstance(choice.mechanism, DiscreteGaussian)
    assert choice.expected_l1 == pytest.approx(gaussian, rel=2e-3)
    figures = [float(word) for word in choice.reason.replace(",", "").split() if word[0].isdigit()]
    assert figures == pytest.approx([16, gaussian, lattice, laplace], rel=0.01)


@pytest.mark.parametrize(
    ("epsilon", "delta", "n_releases", "kind"),
    [
        (1.0, 1e-6, 2, LatticeLaplace),
        (4.0, 1e-6, 16, DiscreteGaussian),
        (0.05, 0.05, 3, DiscreteGaussian),
        (1.0, 0.0, 3, LatticeLaplace),
    ],
)
def test_a_plan_costs_no_more_than_what_was_asked_for(epsilon, delta, n_releases, kind):
    choice = choose_mechanism(5, epsilon, delta, n_releases=n_releases)
    assert isinstance(choice.mechanism, kind)
    assert choice.plan.cost().within(Cost(exact(epsilon), exact(delta)))
    query = Query("toy", "counts", np.array([9, 1, 0, 0, 0]), Unit.CONSENSUS_LABEL, n=10, l1=2.0)
    assert choice.plan.events == ((event_json(choice.mechanism.event(query)), n_releases),)
    slot = choice.mechanism.event(query)
    noisier = dataclasses.replace(choice.mechanism, epsilon=choice.mechanism.epsilon * 1.001)
    more = compose({noisier.event(query): n_releases}).delta(epsilon)
    assert more > delta  # a thousandth less noise would not fit
    assert compose({slot: n_releases}).delta(epsilon) <= delta


@pytest.mark.parametrize(
    ("n_classes", "golden"),
    [(2, (60.0, 2.92, 0.49)), (5, (188, 9.28, 1.73)), (10, (392, 19.3, 3.52))],
)
def test_projected_laplace_noise_errs_by_its_golden_labels(n_classes, golden):
    """Below table T7: independent discrete Laplace and projection at epsilon .05, 1, 4."""
    for epsilon, labels in zip((0.05, 1.0, 4.0), golden, strict=True):
        assert _projected_laplace(n_classes, 2 / epsilon) == pytest.approx(labels, rel=0.01)


@pytest.mark.refusal
@pytest.mark.parametrize("n_classes", [1, 2.5, math.nan, math.inf, 2**70])
@pytest.mark.parametrize("n_releases", [1, 2])
def test_a_mechanism_is_chosen_for_a_possible_number_of_classes(n_classes, n_releases):
    with pytest.raises(ValueError, match="n_classes must be an integer from 2 to 1000000, got"):
        choose_mechanism(n_classes, 1.0, 1e-6, n_releases=n_releases)
    with pytest.raises(ValueError, match="n_classes must be an integer from 2 to 1000000, got"):
        crossover_delta(n_classes, 1.0)


@pytest.mark.refusal
@pytest.mark.parametrize("wrong", [0, -1, True, 1.5])
def test_the_number_of_releases_is_an_integer_from_one(wrong):
    with pytest.raises(ValueError, match="n_releases"):
        choose_mechanism(5, 1.0, 1e-6, n_releases=wrong)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"epsilon": 100.5}, "epsilon must be > 0 and at most 100, got epsilon=100.5"),
        ({"l1": 1.5}, "l1 must be >= 2, got l1=1.5"),
        ({"l1": math.nan}, "l1 must be >= 2, got l1=nan"),
        ({"delta": 1.0}, r"delta must be in \[0, 1\), got delta=1.0"),
    ],
)
def test_a_price_or_a_sensitivity_out_of_range_is_named(wrong, sentence):
    with pytest.raises(ValueError, match=sentence):
        choose_mechanism(2, **({"epsilon": 1.0, "delta": 0.0, "l1": 4.0} | wrong))


def test_at_the_crossover_the_mechanism_without_a_delta_is_chosen():
    crossover = crossover_delta(5, 1.0)
    assert choose_mechanism(5, 1.0, crossover).mechanism == LatticeLaplace(1.0)
    above = choose_mechanism(5, 1.0, math.nextafter(crossover, 1.0)).mechanism
    assert isinstance(above, DiscreteGaussian)


@pytest.mark.parametrize("epsilon", [39.0, 50.0, 100.0])
def test_lattice_noise_is_chosen_at_prices_at_which_it_is_hardly_ever_there(epsilon):
    assert isinstance(choose_mechanism(3, epsilon, 1e-6).mechanism, LatticeLaplace)
    assert crossover_delta(3, epsilon) <= 1.0


@pytest.mark.refusal
def test_a_number_of_releases_of_numpy_is_one():
    assert choose_mechanism(3, 1.0, 1e-6, n_releases=np.int64(2)) == choose_mechanism(
        3, 1.0, 1e-6, n_releases=2
    )
