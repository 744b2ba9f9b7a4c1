"""No draw can be seeded: every statistical test here fails by chance with
a probability of at most 1e-6 (its p-value must exceed 1e-6)."""

import ast
import itertools
import multiprocessing
import random
import subprocess
import sys

import numpy as np
import pytest
from scipy import stats

from privacy.noise import INTEGERS, SystemNoise, check_opendp, then_laplace

CHANCE = 1e-6
NOISE = SystemNoise()


def discrete_laplace_p_value(draws, scale):
    q, reach = np.exp(-1 / scale), int(4 * scale)
    law = (1 - q) / (1 + q) * q ** np.abs(np.arange(-reach, reach + 1))
    law = np.concatenate([[(1 - law.sum()) / 2], law, [(1 - law.sum()) / 2]])
    clipped = np.clip(draws, -reach - 1, reach + 1) + reach + 1
    observed = np.bincount(clipped, minlength=law.size)
    return stats.chisquare(observed, len(draws) * law).pvalue


@pytest.mark.long
@pytest.mark.parametrize("scale", [2.0, 6.666666666666667])
def test_discrete_laplace_draws_have_their_law(scale):
    """Acceptance A11; a scale wrong by 5 % is found out by the same test."""
    draws = NOISE.discrete_laplace(scale, 200_000)
    assert all(type(draw) is int for draw in draws[:10])
    assert discrete_laplace_p_value(draws, scale) > CHANCE
    assert discrete_laplace_p_value(draws, 1.05 * scale) < CHANCE


@pytest.mark.parametrize("epsilon", [0.1, 1.0])
def test_opendp_agrees_that_the_scale_costs_the_claim(epsilon):
    assert (INTEGERS >> then_laplace(scale=2 / epsilon)).map(2) <= np.nextafter(epsilon, 9)


@pytest.mark.parametrize(
    ("draw", "law"),
    [
        (lambda: NOISE.gamma(2.5, 3.0), stats.gamma(2.5, scale=3.0)),
        (lambda: NOISE.gamma(0.5, 3.0), stats.gamma(0.5, scale=3.0)),
        (lambda: NOISE.gamma(4, 3.0), stats.gamma(4, scale=3.0)),
    ],
)
def test_continuous_draws_have_their_law(draw, law):
    draws = np.array([draw() for _ in range(20_000)])
    assert stats.kstest(draws, law.cdf).pvalue > CHANCE
    assert stats.kstest(1.3 * draws, law.cdf).pvalue < CHANCE


@pytest.mark.parametrize("shape", [1.0, 2.0, 3.0, 40.0])
@pytest.mark.parametrize("uniform", [1e-9, 1.0 - 1e-9])
def test_the_tails_of_the_gamma_law_are_drawn(shape, uniform, monkeypatch):
    """Near 0 and far out; a sampler that throws such uniform numbers away asks for more of them."""
    numbers = itertools.repeat(uniform, 40)
    monkeypatch.setattr(random.SystemRandom, "random", lambda _: next(numbers))
    law = stats.gamma(shape)
    tail = law.cdf if uniform < 0.5 else law.sf
    assert tail(NOISE.gamma(shape, 1.0)) < 1.7e-9
    monkeypatch.setattr(random.SystemRandom, "random", lambda _: 1e-9)
    assert stats.gamma(shape + 0.5).cdf(NOISE.gamma(shape + 0.5, 1.0)) < 1.7e-9


def test_directions_are_uniform_on_the_sphere():
    """A coordinate's square is Beta(1/2, (d-1)/2), and its sign is fair."""
    points = np.array([NOISE.direction(4) for _ in range(20_000)])
    np.testing.assert_allclose(np.linalg.norm(points, axis=1), 1.0)
    for column in points.T:
        assert stats.kstest(column**2, stats.beta(0.5, 1.5).cdf).pvalue > CHANCE / 8
        assert stats.binomtest(int((column > 0).sum()), len(column)).pvalue > CHANCE / 8


def test_no_draw_is_an_empty_list():
    assert NOISE.discrete_laplace(2.0, 0) == NOISE.discrete_gaussian(2.0, 0) == []


def test_integers_are_uniform():
    draws = [NOISE.uniform_integer(7) for _ in range(20_000)]
    assert stats.chisquare(np.bincount(draws, minlength=7)).pvalue > CHANCE
    assert NOISE.uniform_integer(1) == 0


@pytest.mark.parametrize("parameter", [0.0, -1.0, float("nan"), float("inf")])
def test_noise_needs_a_positive_finite_parameter(parameter):
    calls = [
        lambda: NOISE.discrete_laplace(parameter, 1),
        lambda: NOISE.discrete_gaussian(parameter, 1),
        lambda: NOISE.gamma(parameter, 1.0),
        lambda: NOISE.gamma(1.0, parameter),
    ]
    for call in calls:
        with pytest.raises(ValueError, match="> 0"):
            call()
    with pytest.raises(ValueError, match="dimension"):
        NOISE.direction(0)
    with pytest.raises(ValueError, match="below"):
        NOISE.uniform_integer(0)


@pytest.mark.refusal
@pytest.mark.parametrize("number", [-1, 2.0, True, None])
def test_numbers_of_draws_are_integers(number):
    for call in (NOISE.discrete_laplace, NOISE.discrete_gaussian):
        with pytest.raises(ValueError, match=f"size must be an integer >= 0, got size={number}"):
            call(1.0, number)
    with pytest.raises(ValueError, match=f"below must be an integer >= 1, got below={number}"):
        NOISE.uniform_integer(number)
    with pytest.raises(ValueError, match="dimension must be an integer >= 1"):
        NOISE.direction(number)


def draw_into(pipe):
    pipe.send((NOISE.discrete_laplace(1e9, 2), NOISE.discrete_gaussian(1e9, 2)))


def test_both_sides_of_a_fork_draw_apart():
    """The child has the parent's generator, which is seeded anew before it is read."""
    NOISE.discrete_laplace(1e9, 2)
    forked = multiprocessing.get_context("fork")
    found = []
    for _ in range(2):
        here, there = forked.Pipe()
        child = forked.Process(target=draw_into, args=(there,))
        child.start()
        found += [(NOISE.discrete_laplace(1e9, 2), NOISE.discrete_gaussian(1e9, 2)), here.recv()]
        child.join()
    for kind in zip(*found, strict=True):
        assert len({str(drawn) for drawn in kind}) == len(found)


@pytest.mark.parametrize("version", ["0.14.1", "0.13.9", "0.9.0", "unknown"])
def test_an_opendp_with_biased_noise_is_refused(version):
    """opendp issue 2638: additive noise was biased before 0.14.2."""
    with pytest.raises(ImportError, match=r"0\.14\.2"):
        check_opendp(version)


@pytest.mark.parametrize("version", ["0.14.2", "0.16.0", "1.0.0", "0.15.1-dev"])
def test_an_opendp_with_unbiased_noise_is_taken(version):
    check_opendp(version)


def test_importing_the_room_does_not_import_the_samplers():
    code = "import sys, privacy; print([name for name in sys.modules if 'opendp' in name])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


DRAWS = """
import random, numpy
from privacy.noise import SystemNoise
random.seed(0), numpy.random.seed(0)
noise = SystemNoise()
drawn = [
    noise.discrete_laplace(1e9, 2), noise.discrete_gaussian(1e9, 2), noise.uniform_integer(10**18),
    noise.gamma(2.0, 1.0), noise.direction(2).tolist(),
]
"""


def test_no_draw_comes_again_in_this_process_or_another():
    """Whatever is seeded: a generator made with a seed at each draw, or once, would repeat itself."""
    here = []
    for _ in range(2):
        names = {}
        exec(DRAWS, names)
        here.append(names["drawn"])
    command = [sys.executable, "-c", f"{DRAWS}print(drawn)"]
    there = [
        ast.literal_eval(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
        for _ in range(2)
    ]
    for kind in zip(*here, *there, strict=True):
        assert len({str(draw) for draw in kind}) == len(here) + len(there)


def test_on_a_line_there_are_two_directions():
    assert abs(SystemNoise().direction(1)[0]) == 1.0
    with pytest.raises(ValueError, match="dimension must be an integer >= 1, got dimension=0"):
        SystemNoise().direction(0)
