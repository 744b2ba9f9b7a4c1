"""Print as JSON what OpenDP answers to each probe of `benchmarks.peers.comparison`.

An interpreter that has OpenDP runs this script.
"""

import importlib.metadata
import json
import pickle
import sys

import opendp.prelude as dp

dp.enable_features("contrib")
COUNTS = dp.vector_domain(dp.atom_domain(T=int)), dp.l1_distance(T=int)
DATA = [400, 350, 250]
LAPLACE = COUNTS >> dp.m.then_laplace(scale=20.0)


def odometer():
    """One that has paid for a release; and what that release cost."""
    space = dp.c.make_fully_adaptive_composition(*COUNTS, dp.max_divergence())
    queryable = space(DATA)
    queryable(LAPLACE)
    return queryable, queryable.privacy_loss(2)


def same_release_again() -> str:
    draws = {tuple(LAPLACE(DATA)) for _ in range(5)}
    if len(draws) == 1:
        return "the stored one"
    queryable, once = odometer()
    queryable(LAPLACE)
    return "drawn again, and paid" if queryable.privacy_loss(2) > once else "drawn again, unpaid"


def spending_outlives_the_process() -> str:
    queryable, _ = odometer()
    try:
        pickle.dumps(queryable)
    except (TypeError, ValueError, AttributeError):
        return "no"
    return "yes"


def command_that_tries_to_refute() -> str:
    commands = importlib.metadata.distribution("opendp").entry_points
    return ", ".join(sorted(command.name for command in commands)) or "no"


PROBES = (
    same_release_again,
    spending_outlives_the_process,
    command_that_tries_to_refute,
)

if __name__ == "__main__":
    json.dump({probe.__name__: probe() for probe in PROBES}, sys.stdout)
