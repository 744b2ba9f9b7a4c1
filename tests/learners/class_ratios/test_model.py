import gzip
import pickle
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from learners import learn_ratios, learn_streamed_ratios
from learners.class_ratios.bags import LabelledBags
from learners.class_ratios.boosted_trees import N_BINS, BoostedTrees
from learners.class_ratios.kernel_matching import KernelMatching
from learners.class_ratios.kernel_witness import KernelWitness
from learners.class_ratios.model import FEW_VALUES, diagnose

METHODS = [KernelMatching(), KernelWitness(), BoostedTrees()]
QUICK = (KernelMatching(), KernelWitness())
by_method = pytest.mark.parametrize("method", METHODS, ids=lambda method: method.name)
DATA = Path(__file__).resolve().parents[3].parent / "shared" / "data" / "ml"


def drawn_bag(rng, share, size, separation=1.5):
    """Points of Gaussian classes on a line, their labels drawn with these shares; and the labels."""
    label = rng.choice(len(share), size=size, p=share)
    return rng.normal(size=(size, 2)) + separation * label[:, None] * [1.0, 0.0], label


def three_class_bags(seed, n_bags=7, size=60):
    """Bags and their own proportions; no two rows of them equal, so that parts have no ties."""
    rng = np.random.default_rng(seed)
    bags, proportions = [], []
    for share in rng.dirichlet([1.0, 1.0, 1.0], size=n_bags):
        bag, label = drawn_bag(rng, share, size, separation=3.0)
        bags.append(bag)
        proportions.append(np.bincount(label, minlength=3) / size)
    return bags, np.array(proportions), drawn_bag(rng, [0.2, 0.5, 0.3], 80, separation=3.0)[0]


def fitted(seed=0, **parameters):
    bags, proportions, unlabelled = three_class_bags(seed)
    return learn_ratios(bags, proportions, **{"methods": QUICK} | parameters), unlabelled


@by_method
@pytest.mark.parametrize("seed", range(2))
def test_ratio_is_on_the_simplex_in_its_interval_in_the_unit_interval(seed, method):
    model, unlabelled = fitted(seed, methods=[method])
    found = model.ratio(unlabelled)
    low, high = found.interval.T
    assert found.ratio.sum() == pytest.approx(1, abs=1e-12)
    assert (low >= 0).all()
    assert (low <= found.ratio).all()
    assert (found.ratio <= high).all()
    assert (high <= 1).all()
    assert found.level == 0.9
    assert found.method == model.method.name == method.name
    assert (found.bandwidth is None) == (method == BoostedTrees())


@by_method
def test_the_order_of_the_bags_does_not_matter(method):
    bags, proportions, unlabelled = three_class_bags(1, n_bags=5)
    order = np.random.default_rng(1).permutation(len(bags))
    shuffled = learn_ratios([bags[i] for i in order], proportions[order], methods=[method])
    plain = learn_ratios(bags, proportions, methods=[method])
    assert (shuffled.ratio(unlabelled).ratio == plain.ratio(unlabelled).ratio).all()
    assert shuffled.trials[0].mean_error == plain.trials[0].mean_error


@by_method
def test_relabelling_the_classes_relabels_the_ratio(method):
    bags, proportions, unlabelled = three_class_bags(1, n_bags=5)
    order = np.random.default_rng(1).permutation(3)
    relabelled = learn_ratios(bags, proportions[:, order], methods=[method])
    plain = learn_ratios(bags, proportions, methods=[method])
    np.testing.assert_allclose(
        relabelled.ratio(unlabelled).ratio, plain.ratio(unlabelled).ratio[order], atol=1e-6
    )


@pytest.mark.parametrize("seed", [1, 3])
def test_relabelling_the_classes_changes_no_part_that_is_left_out(seed):
    # more bags than parts: which bags go together must not hang on the classes' numbers
    bags, proportions, unlabelled = three_class_bags(seed, n_bags=8)
    order = np.random.default_rng(seed).permutation([1, 2, 0])
    relabelled = learn_ratios(bags, proportions[:, order], methods=[KernelMatching()])
    plain = learn_ratios(bags, proportions, methods=[KernelMatching()])
    assert relabelled.trials[0].mean_error == pytest.approx(plain.trials[0].mean_error, abs=1e-9)
    np.testing.assert_allclose(
        relabelled.ratio(unlabelled).ratio, plain.ratio(unlabelled).ratio[order], atol=1e-6
    )


@pytest.mark.parametrize("order", [[1, 2, 0], [2, 1, 0], [1, 0, 2]])
def test_relabelling_classes_that_the_proportions_do_not_tell_apart_relabels_the_ratio(order):
    rng = np.random.default_rng(3)
    proportions = np.repeat(0.1 + 0.7 * np.eye(3), [2, 2, 2], axis=0)
    bags = [drawn_bag(rng, share, 40)[0] for share in proportions]
    unlabelled = drawn_bag(rng, [0.2, 0.5, 0.3], 80)[0]
    plain = learn_ratios(bags, proportions, methods=[KernelMatching()])
    relabelled = learn_ratios(bags, proportions[:, order], methods=[KernelMatching()])
    shuffled = learn_ratios(bags[::-1], proportions[::-1], methods=[KernelMatching()])
    found, error = plain.ratio(unlabelled).ratio, plain.trials[0].mean_error
    np.testing.assert_allclose(relabelled.ratio(unlabelled).ratio, found[order], atol=1e-6)
    assert relabelled.trials[0].mean_error == pytest.approx(error, abs=1e-9)
    assert (shuffled.ratio(unlabelled).ratio == found).all()
    assert shuffled.trials[0].mean_error == error


@by_method
def test_the_units_of_the_features_do_not_matter(method):
    bags, proportions, unlabelled = three_class_bags(1, n_bags=5)
    unit, origin = np.array([1024.0, 0.01]), np.array([-5.0, 2.0])
    rescaled = learn_ratios([bag * unit + origin for bag in bags], proportions, methods=[method])
    plain = learn_ratios(bags, proportions, methods=[method])
    np.testing.assert_allclose(
        rescaled.ratio(unlabelled * unit + origin).ratio,
        plain.ratio(unlabelled).ratio,
        atol=1e-6,
    )


def test_a_feature_that_never_varies_does_not_matter():
    bags, proportions, unlabelled = three_class_bags(1)
    wider = [np.hstack([bag, np.full((len(bag), 1), 7.0)]) for bag in bags]
    found = learn_ratios(wider, proportions, methods=QUICK)
    more = np.hstack([unlabelled, np.full((len(unlabelled), 1), 7.0)])
    plain = learn_ratios(bags, proportions, methods=QUICK)
    np.testing.assert_allclose(found.ratio(more).ratio, plain.ratio(unlabelled).ratio, atol=1e-6)


def test_a_rare_value_of_a_feature_weighs_no_more_than_a_common_one():
    """Two values at equal shares are half of their difference from their mean: so are rare ones."""
    rng = np.random.default_rng(0)
    rare, even = rng.random(1000) < 0.01, np.arange(1000) % 2
    bag = np.column_stack([3.0 * rare, 5.0 * even, rng.normal(size=1000)])
    model = learn_ratios([bag, bag], np.eye(2), bandwidth=1.0)
    np.testing.assert_allclose(model.scale, [1.5, 2.5, bag[:, 2].std()])


def test_the_same_arguments_give_the_same_bytes_on_any_threads_and_are_left_as_they_were():
    bags, proportions, unlabelled = three_class_bags(2)
    noise = np.broadcast_to(1e-4 * (3 * np.eye(3) - 1), (7, 3, 3))
    kept = [bag.copy() for bag in bags], proportions.copy(), unlabelled.copy()
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            model = learn_ratios(bags, proportions, noise=noise, methods=METHODS)
            found.append(model.ratio(unlabelled))
    assert found[0].ratio.tobytes() == found[1].ratio.tobytes()
    assert found[0].interval.tobytes() == found[1].interval.tobytes()
    assert all((bag == copy).all() for bag, copy in zip(bags, kept[0], strict=True))
    assert (proportions == kept[1]).all()
    assert (unlabelled == kept[2]).all()


def test_results_are_read_only():
    model, unlabelled = fitted()
    found = model.ratio(unlabelled)
    for array in (model.scale, found.ratio, found.interval, found.diagnostics.effective_points):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0.0


@pytest.mark.parametrize("position", range(3))
def test_a_labelled_bag_handed_in_as_unlabelled_gets_nearly_its_own_proportions(position):
    bags, proportions, _ = three_class_bags(3, n_bags=7, size=200)
    found = learn_ratios(bags, proportions, methods=QUICK).ratio(bags[position])
    np.testing.assert_allclose(found.ratio, proportions[position], atol=0.05)


def test_pure_bags_of_distant_classes_count_the_points_of_each():
    """Three of ten points lie where class 1 does: with disjoint classes nothing is left to estimate."""
    near, far = np.linspace(0, 1, 50)[:, None], np.linspace(100, 101, 50)[:, None]
    model = learn_ratios([near, far], np.eye(2), bandwidth=0.2)
    found = model.ratio(np.vstack([near[:35], far[:15]]))
    np.testing.assert_allclose(found.ratio, [0.7, 0.3], atol=0.05)


def mean_coverage(noise_sd, method, n_trainings):
    """Share of 90 % intervals that hold the population's ratio: 4 bags for each training.

    Given the model covers at 0.9 the share has a standard deviation of at most 0.042 (intervals
    of 50 trainings wholly dependent), about 0.025 as they are: the seeds are fixed, so that the
    accepted range is a regression bound, not a test that may fail by chance.
    """
    held = []
    for seed in range(n_trainings):
        rng = np.random.default_rng([seed, 71])
        bags, proportions = [], []
        for share in np.linspace(0.15, 0.85, 6):
            bag, label = drawn_bag(rng, [1 - share, share], 120)
            bags.append(bag)
            shown = np.clip(label.mean() + noise_sd * rng.normal(), 0, 1)
            proportions.append([1 - shown, shown])
        noise = noise_sd**2 * np.tile([[1.0, -1.0], [-1.0, 1.0]], (6, 1, 1)) if noise_sd else None
        model = learn_ratios(bags, np.array(proportions), noise=noise, methods=[method])
        for share in rng.uniform(0.02, 0.98, size=4):
            found = model.ratio(drawn_bag(rng, [1 - share, share], 150)[0])
            if found.diagnostics.is_mixture:
                held.append(found.interval[1, 0] <= share <= found.interval[1, 1])
    assert len(held) >= 0.98 * 4 * n_trainings  # the test of fit refuses one mixture of a hundred
    return np.mean(held)


@pytest.mark.long
@pytest.mark.parametrize("noise_sd", [0.0, 0.08])
def test_ninety_percent_intervals_cover_the_population_ratio(noise_sd):
    assert 0.85 <= mean_coverage(noise_sd, KernelMatching(), 50) <= 0.96


@pytest.mark.slow
@pytest.mark.parametrize("noise_sd", [0.0, 0.08])
@pytest.mark.parametrize("method", METHODS[1:], ids=lambda method: method.name)
def test_ninety_percent_intervals_of_score_matching_cover_the_population_ratio(method, noise_sd):
    assert 0.85 <= mean_coverage(noise_sd, method, 100) <= 0.97


def test_noise_in_the_proportions_widens_the_intervals():
    bags, proportions, unlabelled = three_class_bags(4)
    widths = []
    for variance in (0.0, 1e-3, 1e-2):
        noise = np.broadcast_to(variance * (np.eye(3) - 1 / 3), (7, 3, 3))
        found = learn_ratios(bags, proportions, noise=noise, bandwidth=1.0)
        found = found.ratio(unlabelled)
        widths.append((found.interval[:, 1] - found.interval[:, 0]).sum())
    assert widths == sorted(widths)


@pytest.mark.long
def test_bags_whose_shares_are_noise_do_not_choose_the_bandwidth_once_it_is_given():
    """Thirty bags of ten with shares 0 or 1 at random, four of 200 known exactly: 8 draws, seeds fixed."""
    size, exact = [200] * 4 + [10] * 30, [0.1, 0.35, 0.65, 0.9]
    swap = np.array([[1.0, -1.0], [-1.0, 1.0]])
    noise = np.concatenate([np.zeros((4, 2, 2)), np.tile(swap, (30, 1, 1))])
    off = {True: [], False: []}
    for seed in range(8):
        rng = np.random.default_rng(seed)
        true = np.concatenate([exact, rng.uniform(0.2, 0.8, 30)])
        bags = [drawn_bag(rng, [1 - s, s], n)[0] for s, n in zip(true, size, strict=True)]
        shown = np.concatenate([exact, rng.integers(0, 2, 30)])
        unlabelled, label = drawn_bag(rng, [0.4, 0.6], 400)
        for told in off:
            model = learn_ratios(
                bags,
                np.column_stack([1 - shown, shown]),
                noise=noise if told else None,
                methods=(KernelMatching(),),
            )
            off[told].append(abs(model.ratio(unlabelled).ratio[1] - label.mean()))
    assert np.mean(off[True]) < np.mean(off[False]) / 2


def test_no_noise_and_noise_of_zero_agree():
    bags, proportions, unlabelled = three_class_bags(4)
    exact = learn_ratios(bags, proportions, methods=QUICK).ratio(unlabelled)
    zero = learn_ratios(bags, proportions, noise=np.zeros((7, 3, 3)), methods=QUICK)
    assert (zero.ratio(unlabelled).ratio == exact.ratio).all()
    np.testing.assert_allclose(zero.ratio(unlabelled).interval, exact.interval, atol=0.02)


def test_a_higher_level_gives_wider_intervals():
    widths = []
    for level in (0.5, 0.9, 0.99):
        model, unlabelled = fitted(level=level)
        interval = model.ratio(unlabelled).interval
        widths.append((interval[:, 1] - interval[:, 0]).sum())
    assert widths == sorted(set(widths))


def test_magic_gamma_share_is_found_from_four_bags():
    """Binary protocol of Iyer, Nath, Sarawagi (2016) with disjoint bags: mean L1 error about .036.

    Four bags of 600 with shares .1 and .9; bags of 600 with shares .1 to .9. Kernel mean matching alone
    has .061. The mean over three repetitions has a standard error of .007: the seeds are fixed, the bound
    is one of regression.
    """
    path = DATA / "magic.csv.gz"
    if not path.exists():
        pytest.skip("magic.csv.gz is not beside the project")
    with gzip.open(path, "rt") as file:
        rows = [line.strip().split(",") for line in file]
    x = np.array([row[:10] for row in rows], dtype=np.float64)
    is_hadron = np.array([row[10] == "h" for row in rows])
    errors = []
    for seed in range(3):
        rng = np.random.default_rng(seed)
        hadron = list(rng.permutation(np.flatnonzero(is_hadron)))
        gamma = list(rng.permutation(np.flatnonzero(~is_hadron)))

        def bag(n_hadron, hadron=hadron, gamma=gamma):
            return x[
                [hadron.pop() for _ in range(n_hadron)]
                + [gamma.pop() for _ in range(600 - n_hadron)]
            ]

        bags = [bag(k) for k in (60, 540, 60, 540)]
        model = learn_ratios(bags, np.array([[0.9, 0.1], [0.1, 0.9]] * 2))
        for n_hadron in range(60, 600, 60):
            share = n_hadron / 600
            errors.append(np.abs(model.ratio(bag(n_hadron)).ratio - [1 - share, share]).sum())
    assert np.mean(errors) < 0.045


def test_a_given_bandwidth_needs_no_bag_to_leave_out():
    bags, proportions, unlabelled = three_class_bags(0)
    model = learn_ratios(bags[:3], proportions[:3], bandwidth=0.5)
    found = model.ratio(unlabelled)
    assert found.bandwidth == 0.5
    assert found.diagnostics.bags_left_out == 0
    assert np.isnan(found.diagnostics.error_left_out)
    assert found.method == "kernel mean matching"


def tried_on(values):
    """What is tried by default where a last feature takes so many values; and an answer."""
    bags, proportions, unlabelled = three_class_bags(0)
    last = np.arange(len(bags) * len(bags[0])) % values
    wider = [
        np.column_stack([bag, part])
        for bag, part in zip(bags, np.split(last, len(bags)), strict=True)
    ]
    model = learn_ratios(wider, proportions)
    found = model.ratio(np.column_stack([unlabelled, np.arange(len(unlabelled)) % values]))
    return model.trials, found


def test_every_method_is_tried_and_the_one_taken_is_named():
    trials, found = tried_on(5)
    tried = [trial.method.name for trial in trials]
    assert tried == [method.name for method in METHODS]
    taken = trials[tried.index(found.method)]
    assert found.diagnostics.error_left_out == taken.mean_error
    assert found.diagnostics.bags_left_out == len(taken.error) == 7


@pytest.mark.parametrize("values", [1, 2, 63, 64])
def test_trees_are_tried_where_a_feature_takes_2_to_63_values(values):
    names = [trial.method.name for trial in tried_on(values)[0]]
    assert names == [method.name for method in (METHODS if 2 <= values <= 63 else QUICK)]


def test_trees_are_not_tried_where_they_take_minutes(monkeypatch):
    monkeypatch.setattr("learners.class_ratios.model.MAX_TREE_CELLS", 1000)
    assert [trial.method.name for trial in tried_on(5)[0]] == [method.name for method in QUICK]


def test_what_trees_see_of_a_feature_of_few_values_is_all_of_it():
    assert FEW_VALUES == N_BINS


def test_too_few_bags_to_choose_a_bandwidth_are_refused_with_what_is_needed():
    bags, proportions, _ = three_class_bags(0)
    with pytest.raises(
        ValueError, match=r"at least one more than the classes.* 3 bags of 3 classes"
    ):
        learn_ratios(bags[:3], proportions[:3])


def test_points_that_coincide_are_refused():
    with pytest.raises(ValueError, match="points that differ"):
        learn_ratios([np.ones((4, 1))] * 3, np.array([[1, 0], [0, 1], [0.5, 0.5]]))


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"level": 0.0}, "level must be in"),
        ({"level": np.nan}, "level must be in"),
        ({"bandwidth": 0.0}, "bandwidth must be > 0"),
        ({"bandwidth": np.nan}, "bandwidth must be > 0"),
        ({"methods": ()}, "one method at least"),
    ],
)
def test_parameters_out_of_range_are_refused(parameters, message):
    bags, proportions, _ = three_class_bags(0)
    with pytest.raises(ValueError, match=message):
        learn_ratios(bags, proportions, **parameters)


@pytest.mark.parametrize(
    ("bag", "message"),
    [
        (np.zeros((0, 2)), "at least 2 points"),
        (np.zeros((1, 2)), "at least 2 points"),
        (np.zeros((5, 3)), "must have 2 features, got 3"),
        (np.full((5, 2), np.nan), "finite"),
    ],
)
def test_an_unlabelled_bag_that_does_not_fit_is_refused(bag, message):
    model, _ = fitted()
    with pytest.raises(ValueError, match=message):
        model.ratio(bag)


@pytest.mark.parametrize("value", [0.0, -1.0, np.nan, np.inf])
def test_methods_with_parameters_out_of_range_are_refused(value):
    for make in (KernelMatching, KernelWitness):
        with pytest.raises(ValueError, match="bandwidth must be > 0"):
            make(bandwidth=value)
    with pytest.raises(ValueError, match="ridge must be > 0"):
        KernelWitness(bandwidth=1.0, ridge=value)


def test_what_a_witness_is_given_is_kept_and_the_rest_is_chosen():
    bags, proportions, _ = three_class_bags(0)
    labelled = LabelledBags.of(bags, proportions)
    for given in (KernelWitness(ridge=0.5), KernelWitness(bandwidth=2.0)):
        found = given.trial(labelled).method
        assert found.ridge == (given.ridge or found.ridge)
        assert found.bandwidth == (given.bandwidth or found.bandwidth)
        assert None not in (found.ridge, found.bandwidth)


@pytest.mark.parametrize("method", QUICK, ids=lambda method: method.name)
def test_a_method_with_something_left_to_choose_does_not_fit(method):
    bags, proportions, _ = three_class_bags(0)
    with pytest.raises(ValueError, match="chosen by trial"):
        method.fit(LabelledBags.of(bags, proportions))


SOUND = {
    "mixture": np.eye(2),
    "hessian": np.eye(2),
    "reliability": 0.9,
    "effective_points": np.array([400.0, 300.0]),
    "bags_left_out": 6,
    "error_left_out": 0.05,
    "expected_left_out": 0.03,
    "width": 0.1,
}


def test_sound_evidence_has_no_warnings():
    found = diagnose(**SOUND)
    assert found.warnings == ()
    assert found.identifiable
    assert (found.mixing_condition, found.kernel_condition) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("doubtful", "words"),
    [
        ({"mixture": np.array([[0.51, 0.49], [0.5, 0.5]])}, "nearly the same class proportions"),
        ({"hessian": np.diag([1.0, 1e-9])}, "little more than chance"),
        ({"reliability": 0.4}, "little more than chance"),
        ({"effective_points": np.array([400.0, 29.0])}, "Class 1: fewer than 30"),
        ({"bags_left_out": 2}, "2 left-out groups only"),
        ({"width": 0.51}, "0.51 wide"),
        ({"fit": 0.004}, "not a mixture of what was seen"),
        ({"error_left_out": 0.2, "expected_left_out": 0.1}, "off by 0.20 where 0.10 is expected"),
    ],
)
def test_each_doubt_is_one_sentence(doubtful, words):
    found = diagnose(**(SOUND | doubtful))
    assert len(found.warnings) == 1
    assert words in found.warnings[0]
    assert found.identifiable == ("chance" not in words)


def test_a_bag_of_a_class_never_seen_has_no_interval_and_says_so():
    bags, proportions, unlabelled = three_class_bags(0)
    model = learn_ratios(bags, proportions, bandwidth=1.0)
    strange = unlabelled + 3.0 * model.scale
    found, known = model.ratio(strange), model.ratio(unlabelled)
    assert found.interval is None
    assert not found.diagnostics.is_mixture
    assert "not a mixture of what was seen" in found.diagnostics.warnings[0]
    assert known.interval is not None
    assert known.diagnostics.fit > 0.005


def test_a_class_that_looks_different_from_bag_to_bag_is_said():
    rng = np.random.default_rng(0)
    shares = np.tile([0.2, 0.5, 0.8], 3)
    steady, drifting = [], []
    for position, share in enumerate(shares):
        label = np.arange(300) < round(300 * share)
        point = rng.normal(size=(300, 2)) + 3.0 * label[:, None]
        steady.append(point)
        drifting.append(point + 0.8 * (position % 2))
    mixture = np.column_stack([1 - shares, shares])
    said = [
        any("looks different" in text for text in model.ratio(bags[1]).diagnostics.warnings)
        for bags in (steady, drifting)
        for model in [learn_ratios(bags, mixture, methods=[KernelMatching()])]
    ]
    assert said == [False, True]


@by_method
def test_a_model_can_be_pickled_whichever_method_was_chosen(method, rng):
    shares = np.array([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8], [0.4, 0.6]])
    bags = [drawn_bag(rng, share, 80)[0] for share in shares]
    model = learn_ratios(bags, shares, methods=[method])
    bag = drawn_bag(rng, [0.3, 0.7], 60)[0]
    again = pickle.loads(pickle.dumps(model))
    assert np.array_equal(again.ratio(bag).ratio, model.ratio(bag).ratio)


def test_classes_may_be_an_array_and_are_checked_before_training(rng):
    shares = np.array([[0.8, 0.2], [0.5, 0.5], [0.2, 0.8]])
    bags = [drawn_bag(rng, share, 60)[0] for share in shares]
    model = learn_ratios(bags, shares, methods=QUICK, classes=np.array(["cat", "dog"]))
    assert model.classes == ("cat", "dog")
    assert model.ratio(bags[0]).ratio.sum() == pytest.approx(1)
    blocks = [[bag] for bag in bags]
    for learn, given in ((learn_ratios, bags), (learn_streamed_ratios, blocks)):
        with pytest.raises(ValueError, match="classes must be 2 names, one per class, got 1"):
            learn(given, shares, classes=["cat"])
        with pytest.raises(ValueError, match="classes must be a list of names, got the text 'no'"):
            learn(given, shares, classes="no")
