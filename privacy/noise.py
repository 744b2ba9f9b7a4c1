"""The noise source: draws from two generators of random bytes, for the ledger alone to import.

Discrete Laplace and Gaussian integers come from OpenDP's samplers, which compute in exact rationals. They
read OpenSSL's generator, which OpenDP's wheels contain. It is deterministic (a DRBG [2]_) and each process
has its own. It seeds itself from the operating system at its first use, in the child of a fork, and from
time to time.
Uniform integers and the continuous draws read the operating system's own generator (`os.urandom`), by
`secrets` and `random.SystemRandom`. "Exactly" means: given uniform bytes. Both generators are trusted to
give bytes that no observer can distinguish from uniform ones; no test here can show it.

The continuous draws, which only training uses, are computed in double precision. They follow their laws up
to rounding. A proof about real numbers does not cover the rounding: the doubles that can occur depend on
the parameters, and attacks on naive floating-point noise exist [1]_. Counts, choices, scores and the
holdout draw integers, and are exact.

>>> SystemNoise().uniform_integer(1)
0

References
----------
.. [1] Mironov, "On significance of the least significant bits for differential privacy", CCS
   (2012).
.. [2] NIST SP 800-90A Rev. 1, "Recommendation for random number generation using deterministic random
   bit generators" (2015).
"""

import math
import random
import re
import secrets
from importlib.metadata import version
from numbers import Integral

import numpy as np
from jaxtyping import Float, Int

# imported from their own modules: opendp.prelude loads scikit-learn and pandas too
from opendp.domains import atom_domain, vector_domain
from opendp.measurements import then_gaussian, then_laplace
from opendp.metrics import l1_distance, l2_distance
from opendp.mod import enable_features

__all__ = ["SystemNoise"]

MIN_OPENDP = (0, 14, 2)


def check_opendp(installed: str) -> None:
    """Raise ImportError for an OpenDP whose additive noise was biased (opendp#2638, fixed in 0.14.2).

    Raises
    ------
    ImportError
        If the version is older, or cannot be read.
    """
    found = re.match(r"(\d+)\.(\d+)\.(\d+)", installed)
    if found is None or not tuple(map(int, found.groups())) >= MIN_OPENDP:
        raise ImportError(f"opendp must be >= 0.14.2, whose noise is unbiased, got {installed}")


check_opendp(version("opendp"))
enable_features("contrib")  # upstream has not vetted the samplers as of 0.16; tested here
INTEGERS = vector_domain(atom_domain(T="i64")), l1_distance(T="i64")
INTEGERS_L2 = vector_domain(atom_domain(T="i64")), l2_distance(T="f64")


class SystemNoise:
    """Fresh draws from the generators of OpenSSL and of the operating system; it takes no seed.

    Notes
    -----
    **Guarantees.** Draws are fresh in this process, in another, and on both sides of a fork, even if
    other generators are seeded.

    Examples
    --------
    >>> len(SystemNoise().discrete_laplace(2.0, 3))
    3
    """

    def discrete_laplace(self, scale: float, size: int) -> list[int]:
        """Draw independent integers, P(z) ~ exp(-|z| / scale), exactly; they saturate at 64 bits."""
        _check_positive(scale)
        _check_whole("size", size, least=0)
        drawn: list[int] = (INTEGERS >> then_laplace(scale=float(scale)))(_zeros(size))
        return drawn

    def discrete_gaussian(self, scale: float, size: int) -> list[int]:
        """Draw independent integers, P(z) ~ exp(-z^2 / (2 scale^2)), exactly; they saturate at 64 bits."""
        _check_positive(scale)
        _check_whole("size", size, least=0)
        drawn: list[int] = (INTEGERS_L2 >> then_gaussian(scale=float(scale)))(_zeros(size))
        return drawn

    def uniform_integer(self, below: int) -> int:
        """Draw an integer, uniform on 0, ..., below - 1, exactly."""
        _check_whole("below", below, least=1)
        return secrets.randbelow(below)

    def gamma(self, shape: float | int, scale: float) -> float:
        """Draw a number >= 0 with density ~ z^(shape - 1) exp(-z / scale), in floating point.

        It is the sum of exponential draws and one of a shape below 1. For larger shapes `gammavariate` leaves
        out the tails: it throws away uniform numbers within 1e-7 of 0 and of 1.
        """
        _check_positive(shape)
        _check_positive(scale)
        system, whole = random.SystemRandom(), int(shape)
        drawn = math.fsum(system.expovariate(1.0) for _ in range(whole))
        return scale * (drawn + (system.gammavariate(shape - whole, 1.0) if shape > whole else 0.0))

    def direction(self, dimension: int) -> Float[np.ndarray, " dimension"]:
        """Draw a point, uniform on the unit sphere, in floating point."""
        _check_whole("dimension", dimension, least=1)
        system = random.SystemRandom()
        normal = np.array([system.normalvariate(0.0, 1.0) for _ in range(dimension)])
        return np.asarray(normal / np.linalg.norm(normal))


def _zeros(size: int) -> Int[np.ndarray, " size"]:
    """Return the zeros that noise is added to: OpenDP copies an array at once, a list number by number."""
    return np.zeros(size, dtype=np.int64)


def _check_whole(what: str, number: int, *, least: int) -> None:
    if isinstance(number, bool) or not (isinstance(number, Integral) and number >= least):
        raise ValueError(f"{what} must be an integer >= {least}, got {what}={number}")


def _check_positive(parameter: float | int) -> None:
    if not 0 < parameter < math.inf:
        raise ValueError(f"a noise parameter must be > 0 and finite, got {parameter}")
