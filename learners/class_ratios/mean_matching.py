"""The algebra of mean matching: class means from bag means, their errors, and redrawn ratios.

Bags with mean embeddings Phi_i and proportions P (bags by classes) give the class means mu = Phi B.
Every function here uses inner products of embeddings alone, the Gram matrix G of the bag means, so that
it serves kernels and the outputs of classifiers alike.

Noise in the proportions spreads them out, which brings the estimated class means nearer to each other
and pushes ratios to the ends; `NoisyShares` corrects for it by the noise's covariance.

>>> mixture = np.array([[0.75, 0.25], [0.25, 0.75]])
>>> weights = class_weights(mixture, np.array([10, 10]))
>>> class_gram(mixture @ mixture.T, weights).diagonal().round(6)  # unit vectors as class means
array([1., 1.])
"""

import math
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int
from scipy.special import ndtr, ndtri

from learners.class_ratios.bags import MAX_MIXING_CONDITION
from learners.class_ratios.simplex_qp import simplex_minima, simplex_qp

__all__ = [
    "DRAWS",
    "NoisyShares",
    "class_gram",
    "class_weights",
    "corrected_class_gram",
    "effective_points",
    "errors_left_out",
    "normal_nodes",
    "parts_left_out",
    "range_of_draws",
    "redrawn_ratios",
    "squares_tail",
    "within_class_covariance",
]

RIDGE = 1e-12  # times the largest entry: above rounding, and too small to matter
ROUNDING = 1e-12
FOLDS = 5
DRAWS = 1024
SHOWN = 0.998  # highest level of which a draw lies beyond either end
MIN_RELIABILITY = 0.5  # share of the distance between classes that the correction leaves
MIN_KEPT = 0.5  # share of a contrast's spread; a larger correction would leave mostly chance


def class_weights(
    mixture: Float[np.ndarray, "bags classes"],
    size: Int[np.ndarray, " bags"] | Float[np.ndarray, " bags"],
) -> Float[np.ndarray, "bags classes"]:
    """Return B = W P (P'W P)^-1, W the bag sizes: the weights that make class means out of bag means.

    Least squares of the bag means on their proportions, bags weighted by their points.

    Examples
    --------
    >>> class_weights(np.array([[0.75, 0.25], [0.25, 0.75]]), np.array([10, 10])).round(6)
    array([[ 1.5, -0.5],
           [-0.5,  1.5]])
    """
    weighted = mixture * size[:, None]
    normal = weighted.T @ mixture
    return np.asarray(weighted @ np.linalg.pinv(normal, hermitian=True))


@dataclass(frozen=True, slots=True, eq=False)
class NoisyShares:
    """Weights that make class means out of bag means whose proportions are noisy: errors in variables.

    Parameters
    ----------
    weights
        B = W P N^-1, W the bags' weights and N = P'WP less the noise's part in it.
    drift
        W_i C_i N^-1 for every bag, C_i its noise's covariance. Times a ratio, it is the shift of that
        ratio by the square of the bag's noise.

    Notes
    -----
    With P = P* + E and means mu P*_i of the bags, B = W P (P'WP)^-1 gives a bag of ratio r the ratio
    (I - E'B)^-1 r. Its expectation to second order in E is

        r + sum_i W_i (1 - h_i) C_i (P'WP)^-1 r,  h_i = W_i P_i' (P'WP)^-1 P_i:

    The term W_i C_i comes from E'B r. Because (P'WP)^-1 depends on E too, its share h_i is taken back (the
    fit follows the bag); the rest of that dependence cancels with the term of (E'B)^2 r. So N is P'WP less
    sum_i W_i (1 - h_i) C_i, or less such a part of it that every contrast of classes keeps half of its
    spread.

    **Guarantees.** Noise of zero changes no weight; a bag of the mean proportions keeps its ratio;
    every contrast keeps half of its spread; unless that limit binds, the mean ratio is right to second
    order in the noise.

    References
    ----------
    .. [1] Fuller, "Measurement error models", Wiley (1987): the correction by known error covariances,
       and why to stop short of all of it.
    .. [2] Nagar, "The bias and moment matrix of the general k-class estimators", Econometrica 27
       (1959): the same count of degrees of freedom for another estimator.

    Examples
    --------
    >>> swap = np.array([[1.0, -1.0], [-1.0, 1.0]])
    >>> mixture = np.array([[0.9, 0.1], [0.1, 0.9]] * 2)
    >>> exact = NoisyShares.of(mixture, np.ones(4), np.zeros((4, 2, 2)))
    >>> noisy = NoisyShares.of(mixture, np.ones(4), np.tile(0.01 * swap, (4, 1, 1)))
    >>> exact.weights[0].round(3), noisy.weights[0].round(3)
    (array([ 0.562, -0.062]), array([ 0.573, -0.073]))
    """

    weights: Float[np.ndarray, "bags classes"]
    drift: Float[np.ndarray, "bags classes classes"]

    @classmethod
    def of(
        cls,
        mixture: Float[np.ndarray, "bags classes"],
        weight: Float[np.ndarray, " bags"],
        noise: Float[np.ndarray, "bags classes classes"],
    ) -> "NoisyShares":
        """Build from proportions, the bags' weights and the covariances of the proportions' noise."""
        centre = np.eye(mixture.shape[1]) - 1.0 / mixture.shape[1]
        scaled = weight[:, None, None] * (centre @ noise @ centre)  # shares add up to 1, noise to 0
        normal = (mixture.T * weight) @ mixture
        leverage = weight * np.einsum("bc,cb->b", mixture, np.linalg.solve(normal, mixture.T))
        owed = np.tensordot(1.0 - leverage, scaled, 1)
        root = np.linalg.cholesky(normal)
        half = np.linalg.solve(root, owed)
        largest = float(np.linalg.eigvalsh(np.linalg.solve(root, half.T))[-1])
        part = (1.0 - MIN_KEPT) / max(largest, 1.0 - MIN_KEPT)
        inverse = np.linalg.inv(normal - part * owed)
        return cls(mixture * weight[:, None] @ inverse, scaled @ inverse)


def effective_points(
    mixture: Float[np.ndarray, "bags classes"], size: Int[np.ndarray, " bags"]
) -> Float[np.ndarray, " classes"]:
    """Return 1 / diag (P'W P)^-1: the points of each class that would estimate its mean equally well.

    Bag i's mean has variance proportional to 1 / n_i, so a class's has sum_i B_iy^2 / n_i, which is
    that diagonal.

    Examples
    --------
    >>> effective_points(np.eye(2), np.array([40, 60]))
    array([40., 60.])
    """
    return 1.0 / np.linalg.inv((mixture.T * size) @ mixture).diagonal()


def class_gram(
    gram: Float[np.ndarray, "*stack bags bags"], weights: Float[np.ndarray, "bags classes"]
) -> Float[np.ndarray, "*stack classes classes"]:
    """Return H = B'G B, the inner products of the classes' means; symmetric to the last bit.

    Examples
    --------
    >>> class_gram(np.eye(2), np.array([[2.0, 0.0], [0.0, 1.0]]))
    array([[4., 0.],
           [0., 1.]])
    """
    product = weights.T @ gram @ weights
    return np.asarray((product + product.swapaxes(-1, -2)) / 2)


def corrected_class_gram(
    gram: Float[np.ndarray, "bags bags"],
    weights: Float[np.ndarray, "bags classes"],
    size: Int[np.ndarray, " bags"],
    own: Float[np.ndarray, " bags"],
    dimension: float = math.inf,
) -> tuple[Float[np.ndarray, "classes classes"], float]:
    """Return `class_gram` without the sampling error that comes from pairs of a point with itself.

    A bag's own entry of G counts each point with itself, which adds (own_i - G_ii) / (n_i - 1) to its
    expectation, where own is the mean inner product of a point with itself, 1 for a Gaussian kernel.
    That adds to the distance between classes but not to f, and so pulls ratios towards equal shares.
    But the inverse of H is convex in the sampling error along the classes' contrasts, which pushes
    ratios outwards. So for an embedding of D equal directions and c classes the share 1 - c / D of the
    excess is subtracted: all of it for a kernel; with as few directions as contrasts, some is added.
    Each contrast of classes keeps at least half of its size.

    The count is that of least squares on p = c - 1 regressors with independent errors in D rows: with
    H = (M + e)'(M + e) and f = (M + e)'M r the expectation of H^-1 f is, to second order in e, r less
    (D - p - 1) (M'M)^-1 cov(e) r: D from e'e, less p + 1 from the correlation of H^-1 with what it
    multiplies.

    Parameters
    ----------
    gram, own
        Inner products of the bags' means; mean inner product of a point with itself, per bag.
    weights, size
        B, and the bags' points.
    dimension
        D, number of directions of the embedding; infinite for a kernel.

    Returns
    -------
    hessian
        H, positive definite on contrasts of classes.
    reliability
        Share of the squared distance between classes that is not sampling error, for the contrast
        where it is least; at most 1.

    Examples
    --------
    >>> gram = np.array([[1.0, 0.0], [0.0, 0.5]])
    >>> size, own = np.array([11, 11]), np.ones(2)
    >>> hessian, reliability = corrected_class_gram(gram, np.eye(2), size, own)
    >>> hessian, round(reliability, 3)
    (array([[1.  , 0.  ],
           [0.  , 0.45]]), 0.967)
    """
    hessian, owed, shares = _sampling_shares(gram, weights, size, own)
    largest = float(shares[-1])
    most = (1.0 - MIN_RELIABILITY) / max(largest, 1.0 - MIN_RELIABILITY)
    part = min(most, 1.0 - weights.shape[1] / dimension)
    return hessian - part * owed, 1.0 - largest


def best_reliability(
    gram: Float[np.ndarray, "bags bags"],
    weights: Float[np.ndarray, "bags classes"],
    size: Int[np.ndarray, " bags"],
    own: Float[np.ndarray, " bags"],
) -> float:
    """Return the reliability of `corrected_class_gram` for the contrast where it is most, not least.

    Examples
    --------
    >>> round(best_reliability(np.diag([1.0, 0.5]), np.eye(2), np.array([11, 11]), np.ones(2)), 3)
    0.967
    """
    return 1.0 - float(_sampling_shares(gram, weights, size, own)[2][0])


def _sampling_shares(
    gram: Float[np.ndarray, "bags bags"],
    weights: Float[np.ndarray, "bags classes"],
    size: Int[np.ndarray, " bags"],
    own: Float[np.ndarray, " bags"],
) -> tuple[
    Float[np.ndarray, "classes classes"],
    Float[np.ndarray, "classes classes"],
    Float[np.ndarray, " contrasts"],
]:
    """Return H, the part that sampling adds, and that part's share of each contrast, in increasing order."""
    hessian = class_gram(gram, weights)
    owed = class_gram(np.diag((own - gram.diagonal()) / (size - 1)), weights)
    contrast = np.linalg.svd(np.ones((1, weights.shape[-1])))[2][1:].T
    largest_entry = max(np.abs(hessian).max(), np.finfo(float).tiny / RIDGE)
    rounding = RIDGE * largest_entry * np.eye(contrast.shape[1])
    root = np.linalg.cholesky(contrast.T @ hessian @ contrast + rounding)
    half = np.linalg.solve(root, contrast.T @ owed @ contrast)
    return hessian, owed, np.linalg.eigvalsh(np.linalg.solve(root, half.T))


def parts_left_out(mixture: Float[np.ndarray, "bags classes"]) -> list[Int[np.ndarray, " part"]]:
    """Return the parts of the bags to leave out in turn: single bags, or five parts of more than five.

    A part is skipped if the proportions of the other bags are singular. Bags are dealt to the parts in
    order of their proportions, so that neither the order in which they are given nor that of the classes
    matters; where classes have the same proportions, each in another bag, the bags' order decides.

    Examples
    --------
    >>> parts_left_out(np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]))
    [array([0]), array([2]), array([1])]
    """
    order = np.lexsort(_classes_in_order(mixture).T)
    n_parts = min(FOLDS, len(order))
    parts = [order[first::n_parts] for first in range(n_parts)]
    return [part for part in parts if _tells_apart(mixture[np.setdiff1d(order, part)])]


def errors_left_out(
    gram: Float[np.ndarray, "bandwidths bags bags"],
    mixture: Float[np.ndarray, "bags classes"],
    evidence: Int[np.ndarray, " bags"] | Float[np.ndarray, " bags"],
) -> Float[np.ndarray, "bandwidths left"]:
    """Return the L1 error of the proportions of every bag left out, for each bandwidth.

    Bags are left out, and ordered, as in `parts_left_out`. No kernel is computed again: a left-out
    bag is predicted from its row of G. H is not corrected for pairs of a point with itself: the bias
    counts against bandwidths at which classes hardly differ by more than sampling error. `evidence`,
    such as their numbers of points, weighs the bags in the class means.

    Examples
    --------
    >>> gram = np.array([[[1.0, 0.0, 0.5], [0.0, 1.0, 0.5], [0.5, 0.5, 0.5]]])
    >>> errors_left_out(gram, np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]]), np.array([9, 9, 9]))
    array([[0., 0., 0.]])
    """
    columns = [np.zeros((len(gram), 0))]
    for fold in parts_left_out(mixture):
        rest = np.setdiff1d(np.arange(len(mixture)), fold)
        weights = class_weights(mixture[rest], evidence[rest])
        hessian = class_gram(gram[:, rest[:, None], rest], weights)
        linear = gram[:, fold[:, None], rest] @ weights
        ratio = np.array(
            [[simplex_qp(H, f).point for f in row] for H, row in zip(hessian, linear, strict=True)]
        )
        columns.append(np.abs(ratio - mixture[fold]).sum(axis=2))
    return np.hstack(columns)


def within_class_covariance(
    covariance: Float[np.ndarray, "classes classes"],
    share: Float[np.ndarray, " classes"],
    hessian: Float[np.ndarray, "classes classes"],
) -> Float[np.ndarray, "classes classes"]:
    """Return the covariance within classes of features B'k(x), from that in a bag of known class shares.

    Class y's mean feature is column y of H, so the shares alone give the covariance between classes;
    the rest is within classes. Sampling error may make it slightly indefinite.

    Examples
    --------
    >>> feature = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    >>> covariance = np.cov(feature, rowvar=False, bias=True)
    >>> within_class_covariance(covariance, np.array([0.5, 0.5]), np.eye(2))
    array([[0., 0.],
           [0., 0.]])
    """
    between = hessian @ (np.diag(share) - np.outer(share, share)) @ hessian
    return np.asarray(covariance - between)


def normal_nodes(n_dimensions: int) -> Float[np.ndarray, "draws dimensions"]:
    """Return 1024 standard normal nodes of an integral, from Richtmyer's sequence: the same in every run.

    The k-th point of the unit cube is the fractional part of 1/2 + k sqrt(p), one prime p a dimension.

    References
    ----------
    .. [1] Richtmyer, "The evaluation of definite integrals, and a quasi-Monte-Carlo method based on the
       properties of algebraic numbers", Los Alamos report LA-1342 (1951).

    Examples
    --------
    >>> nodes = normal_nodes(3)
    >>> nodes.shape, bool(np.abs(nodes.mean(axis=0)).max() < 0.01)
    ((1024, 3), True)
    """
    step = np.arange(1, DRAWS + 1)[:, None]
    return np.asarray(ndtri((0.5 + step * np.sqrt(_primes(n_dimensions))) % 1))


def redrawn_ratios(
    hessian: Float[np.ndarray, "classes classes"],
    linear: Float[np.ndarray, " classes"],
    error: Float[np.ndarray, "*draws classes classes"],
    nodes: Float[np.ndarray, "draws classes"],
) -> Float[np.ndarray, "draws classes"]:
    """Return minima of the quadratic program, `linear` perturbed by `error`: one covariance, or one a draw.

    Examples
    --------
    >>> ratios = redrawn_ratios(np.eye(2), np.array([0.6, 0.4]), np.zeros((2, 2)), np.zeros((1, 2)))
    >>> ratios.round(6)
    array([[0.6, 0.4]])
    """
    shifted = linear + (nodes[:, None] @ _roots(error))[:, 0]
    return simplex_minima(hessian, shifted)


def range_of_draws(
    drawn: Float[np.ndarray, "draws shares"], share: Float[np.ndarray, " shares"], level: float
) -> Float[np.ndarray, "shares ends"]:
    """Return the range that holds this part of the draws of each share, and the estimated share.

    Above a level of .998, of which the draws show no more, it is that of .998, its ends moved away from
    the estimate as the quantiles of a normal law are: too little for draws with heavier tails.

    Examples
    --------
    >>> range_of_draws(np.linspace(0.2, 0.8, 1024)[:, None], np.array([0.5]), 0.9)
    array([[0.23, 0.77]])
    """
    held = min(level, SHOWN)
    low, high = np.quantile(drawn, [(1 - held) / 2, (1 + held) / 2], axis=0)
    ends = np.stack([np.minimum(low, share), np.maximum(high, share)], axis=1)
    if level > held:
        tail = max((1 - level) / 2, float(np.finfo(float).tiny))
        ends = share[:, None] + ndtri(tail) / ndtri((1 - held) / 2) * (ends - share[:, None])
    return np.asarray(ends)


def squares_tail(weight: Float[np.ndarray, " squares"], value: float) -> float:
    """Return the chance that a weighted sum of squared standard normals exceeds `value`, by saddlepoint.

    Weights are >= 0; those below 1e-12 of the largest count as zero.

    Notes
    -----
    With K(s) = -1/2 sum log(1 - 2 s w) and K'(s) = value, the tail is Phi(-(a + log(v / a) / a)) for
    a = sign(s) sqrt(2 (s value - K(s))) and v = s sqrt(K''(s)) [1]_.
    **Guarantees.** Within a tenth of the probability, wherever that is from 1e-7 to 0.5; below, at most a
    sixth too large.

    References
    ----------
    .. [1] Kuonen, "Saddlepoint approximations for distributions of quadratic forms in normal
       variables", Biometrika 86 (1999), in Barndorff-Nielsen's form.

    Examples
    --------
    >>> round(squares_tail(np.ones(3), 7.815), 4)  # chi-square, three degrees: 0.05
    0.0505
    """
    largest = float(weight.max())
    if not value > 0 or not largest > 0:
        return float(value <= 0)
    share, target = weight[weight > ROUNDING * largest] / largest, value / largest
    spread = math.sqrt(2 * float(share @ share))
    if abs(target - share.sum()) < 1e-3 * spread:  # the formula's quotient of two zeros
        return float(ndtr(-4 * float((share**3).sum()) / (3 * spread**3)))

    def slope(s: float) -> float:
        return float((share / (1 - 2 * s * share)).sum()) - target

    low, high = -len(share) / target, 0.5 * (1 - ROUNDING)
    if slope(high) < 0:  # beyond what doubles separate from zero
        return 0.0
    for _ in range(80):
        s = (low + high) / 2
        low, high = (s, high) if slope(s) < 0 else (low, s)
    cumulant = -0.5 * float(np.log1p(-2 * s * share).sum())
    a = math.copysign(math.sqrt(2 * (s * target - cumulant)), s)
    v = s * math.sqrt(2 * float(np.square(share / (1 - 2 * s * share)).sum()))
    return float(ndtr(-(a + math.log(v / a) / a)))


def _classes_in_order(
    mixture: Float[np.ndarray, "bags classes"],
) -> Float[np.ndarray, "bags classes"]:
    """Return the shares, but for rounding, with the class of least largest share first, and so on."""
    share = np.round(mixture, 9)
    return share[:, np.lexsort(np.vstack([share, np.sort(share, axis=0)]))]


def _tells_apart(mixture: Float[np.ndarray, "bags classes"]) -> bool:
    enough = len(mixture) >= mixture.shape[1]
    return enough and bool(np.linalg.cond(mixture) <= MAX_MIXING_CONDITION)


def _roots(
    covariance: Float[np.ndarray, "*stack classes classes"],
) -> Float[np.ndarray, "*stack classes classes"]:
    """Return symmetric square roots; negative eigenvalues, a result of sampling error, count as zero."""
    value, vector = np.linalg.eigh(covariance)
    scaled = vector * np.sqrt(np.maximum(value, 0.0))[..., None, :]
    return np.asarray(scaled @ vector.swapaxes(-1, -2))


def _primes(n: int) -> Int[np.ndarray, " primes"]:
    """Return the first n primes, by trial division."""
    found: list[int] = []
    candidate = 2
    while len(found) < n:
        if all(candidate % prime for prime in found):
            found.append(candidate)
        candidate += 1
    return np.array(found)
