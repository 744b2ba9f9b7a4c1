"""Mutants that survive, each with the reason why it may.

A name on this list that is no mutant's any more, or whose mutant is caught, makes ``make mutants`` fail.
"""

__all__ = ["SURVIVORS"]

SAME_AT_STEEP = (
    "at that very number the leading term and the whole function agree to the last digits"
)

SURVIVORS: dict[str, str] = {
    "flows/spending/cohorts.py join_cohorts: True: True becomes False": (
        "whether the record of cohorts is compressed, which no reader sees"
    ),
    "flows/spending/partitions.py _write: True: True becomes False": (
        "whether the record of partitions is compressed, which no reader sees"
    ),
    "flows/spending/without_run/set_shares.py publish_set_shares: False: False becomes True": (
        "the unit is the consensus label, for which a consensus may be local or not"
    ),
    "learners/holdout/candidate_gate.py CandidateGate.event: each < MAX_SCALE: < becomes <=": (
        "at that very scale the sampler draws, so that a gate may be had or refused"
    ),
    "learners/holdout/metric_gate.py MetricGate.answer: math.floor(value * GRID): floor becomes ceil": (
        "a replaced record moves either by no more than is paid for, and a step is 2**-30"
    ),
    "privacy/accounting/composition.py Composition.epsilon: delta > self.slack: > becomes >=": (
        "at that very delta what is composed is no less than what the claims add up to"
    ),
    "privacy/corrections.py gold_corrections: max_tasks >= 1: >= becomes >": (
        "1 is let through by what stands before it"
    ),
    "privacy/ledger/spending.py check_slots: raise UnitError(f\"plan {number} protects the unit '{unit}', "
    "which a gu: raise is dropped": (
        "a plan protects its budget's unit, which every query was compared with before; a second lock"
    ),
    "privacy/ledger/sqlite.py _write_schema: connection.exec_driver_sql('BEGIN IMMEDIATE'): "
    "call is dropped": (
        "one transaction is quicker than one a table; nobody sees the draft before it is whole"
    ),
    "privacy/mechanisms/choice.py _largest_share: high <= MAX_EPSILON: <= becomes <": (
        "at that very number the search stops one doubling earlier, at the same end"
    ),
    "privacy/mechanisms/dirichlet.py _loss: delta(np.array([middle]))[0] <= NEGLIGIBLE: <= becomes <": (
        "where the curve is cut moves by one double of the search"
    ),
    "privacy/mechanisms/dirichlet_pairs.py _beta_cdf: t < -STEEP: < becomes <=": SAME_AT_STEEP,
    "privacy/mechanisms/dirichlet_pairs.py _beta_cdf: t > STEEP: > becomes >=": SAME_AT_STEEP,
    "privacy/mechanisms/dirichlet_pairs.py _gamma_cdf: log_x < -STEEP: < becomes <=": SAME_AT_STEEP,
    "privacy/mechanisms/dirichlet_pairs.py _gamma_tail: log_x < -STEEP: < becomes <=": SAME_AT_STEEP,
    "privacy/mechanisms/dirichlet_pairs.py smallest_floor: math.exp(-middle * epsilon) / (2 * middle + 1) < "
    "delta: < becomes <=": (
        "the last of 200 halvings ends at the same double on either side of equality"
    ),
    "privacy/mechanisms/gaussian.py analytic_gaussian_scale: "
    "analytic_gaussian_delta(math.exp(log_scale), epsilon) <= delta: <= becomes <": (
        "the last of 60 halvings ends at the same double, or at the next one up"
    ),
    "privacy/mechanisms/lattice_laplace.py _marginal: size <= MAX_GRID: <= becomes <": (
        "how large a grid memory may hold is no promise"
    ),
    "privacy/mechanisms/lattice_laplace.py _marginal: weight > TINY * weight[0]: > becomes >=": (
        "where a law's tail is cut, at 1e-17 of its largest probability"
    ),
    "privacy/mechanisms/exact_law.py _convolved: one.probability.size * other.probability.size <= "
    "MAX_PRODUCTS: <= becomes <": "both ways of adding up give the same law",
    "privacy/mechanisms/lattice_laplace.py _ways: others <= apart: <= becomes <": (
        "both ways of counting give the same proportion"
    ),
    "privacy/mechanisms/partial_sums.py _one_class: REACH * law.scale <= MAX_GRID: <= becomes <": (
        "how large a grid memory may hold is no promise"
    ),
    "privacy/mechanisms/partial_sums.py _one_release: abs(total) <= furthest: <= becomes <": (
        "a total there is refused as too unlikely in any case"
    ),
    "privacy/mechanisms/partial_sums.py _one_release: size <= MAX_GRID: <= becomes <": (
        "how large a grid memory may hold is no promise"
    ),
    "privacy/mechanisms/partial_sums.py _Release.first: weight > 1e-18 * weight.max(): > becomes >=": (
        "where a law's tail is cut, at 1e-18 of its largest probability"
    ),
    "privacy/mechanisms/partial_sums.py _Release.first: weight.sum() > UNLIKELY: > becomes >=": (
        "no total has that very probability"
    ),
}
