import math
from itertools import combinations, permutations

import numpy as np
import pytest
from scipy.sparse import csr_array
from scipy.special import betaln

from learners.topics.concept_slots import Slots
from learners.topics.topic_counts import (
    Counts,
    documents_of,
    law_of,
    refresh_row,
    shuffle_orders,
    sort_orders,
    swap_log_ratio,
)

EACH = pytest.mark.parametrize("closed", [False, True], ids=["open", "closed"])


def log_order(n, alpha, beta, closed):
    """Log probability of counts in stick order, every stick integrated out: the slow and obvious way."""
    tail = n.sum() - np.cumsum(n)
    sticks = range(len(n) - 1 if closed else len(n))
    return sum(betaln(alpha + n[j], beta + tail[j]) - betaln(alpha, beta) for j in sticks)


def counted(n, alpha, beta, closed):
    """A root with so many documents on each way on."""
    slots = Slots.of((1, len(n) - 1))
    documents = documents_of(csr_array(np.ones((1, 2))))
    law = law_of(
        slots, documents, 2, alpha=alpha, beta=beta, eta=0.1, tau_prior=(1.0, 1.0), closed=closed
    )
    m = len(n)
    edges = np.zeros((m, m), np.int64)
    edges[0] = n
    order = np.tile(np.arange(m), (m, 1))
    zeros = np.zeros((2, m), np.int32), np.zeros(m, np.int64)
    counts = Counts(*zeros, edges, order, np.zeros((m, m)))
    refresh_row(counts, law, 0)
    return counts, law


@EACH
@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (10.0, 10.0), (0.3, 2.5)])
def test_the_ratio_of_any_swap_is_that_of_the_enumerated_posterior(rng, closed, alpha, beta):
    for m in range(2, 7):
        n = rng.integers(0, 30, m)
        for i, j in combinations(range(m), 2):
            swapped = n.copy()
            swapped[[i, j]] = n[[j, i]]
            wanted = log_order(swapped, alpha, beta, closed) - log_order(n, alpha, beta, closed)
            assert swap_log_ratio(n, i, j, alpha, beta, closed) == pytest.approx(wanted, abs=1e-10)


@pytest.mark.parametrize(("alpha", "beta"), [(1.0, 1.0), (0.2, 5.0), (5.0, 0.2)])
def test_with_open_sticks_the_likeliest_order_is_that_of_falling_counts(rng, alpha, beta):
    n = rng.integers(0, 40, 5)
    best = max(
        permutations(n.tolist()), key=lambda one: log_order(np.array(one), alpha, beta, False)
    )
    counts, law = counted(n, alpha, beta, False)
    sort_orders(counts, law)
    assert n[counts.order[0]].tolist() == list(best) == sorted(n.tolist(), reverse=True)


@EACH
def test_rows_of_edges_sum_to_one_but_for_what_open_sticks_leave(rng, closed):
    """Equation (E): closed rows sum to 1, open ones to 1 minus the rest of the stick."""
    n = rng.integers(0, 50, 6)
    counts, _ = counted(n, 0.7, 1.9, closed)
    tail = n.sum() - np.cumsum(n)
    left = 0.0 if closed else math.prod((1.9 + tail) / (2.6 + n + tail))
    assert np.exp(counts.log_edge[0]).sum() + left == pytest.approx(1, abs=1e-12)


@EACH
def test_swaps_visit_orders_as_often_as_their_posterior_says(rng, closed):
    """Total variation of 6 orders over 4000 sweeps: below .05 for all but 1e-6 of seeds, by 40 tried."""
    n = np.array([3, 1, 4])
    counts, law = counted(n, 1.0, 2.0, closed)
    seen = dict.fromkeys(permutations(range(3)), 0)
    for _ in range(4000):
        shuffle_orders(counts, law, rng)
        seen[tuple(counts.order[0].tolist())] += 1
    log = np.array([log_order(n[list(one)], 1.0, 2.0, closed) for one in seen])
    wanted = np.exp(log - log.max())
    wanted /= wanted.sum()
    assert np.abs(np.array(list(seen.values())) / 4000 - wanted).sum() / 2 < 0.05
