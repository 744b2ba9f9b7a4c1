"""The paper's own solve of mean matching: weights of bags first, class ratios from them."""

import numpy as np
from jaxtyping import Float

from privacy import project_to_simplex

__all__ = ["span_matching"]


def span_matching(
    gram: Float[np.ndarray, "bags bags"],
    linear: Float[np.ndarray, " bags"],
    mixture: Float[np.ndarray, "bags classes"],
) -> Float[np.ndarray, " classes"]:
    """Match an unlabelled bag's mean by any combination of the bags' means, then read off classes.

    a = argmin over R^bags of || sum_i a_i Phi_i - Phi_U ||^2, and the class ratio is the Euclidean
    projection of P'a on the simplex.

    Parameters
    ----------
    gram
        G, inner products of the labelled bags' means.
    linear
        g, inner products of the unlabelled bag's mean with them.
    mixture
        P, proportions of the labelled bags.

    Returns
    -------
    Float[np.ndarray, " classes"]
        On the simplex.

    Notes
    -----
    Kept for comparison: with more bags than classes the weights are held by sampling error alone, since
    the means of all bags lie in the span of the classes'. `KernelMatching` solves for the classes.

    **Guarantees.** A bag that is a mixture of labelled bags gets that mixture of their proportions.

    References
    ----------
    .. [1] Iyer, Nath, Sarawagi, "Privacy-preserving class ratio estimation", KDD (2016).

    Examples
    --------
    >>> mixture = np.array([[0.9, 0.1], [0.1, 0.9]])
    >>> span_matching(np.eye(2), np.array([0.5, 0.5]), mixture).round(6)
    array([0.5, 0.5])
    """
    weight = np.linalg.lstsq(gram, linear)[0]
    return project_to_simplex(mixture.T @ weight)
