"""Agreement of labels beyond chance: Krippendorff's alpha, kappas, AC1; people against models.

:func:`alpha_interval` gives Krippendorff's alpha with Hughes' jackknife interval, for nominal, ordinal and
interval labels; :func:`alpha_by_class` and :func:`alpha_by_group` show where workers disagree.
:func:`fleiss_kappa` and :func:`gwet_ac1` are other corrections for chance. :func:`pair_kappas` returns
Cohen's kappa and AC1 of every pair of workers. :func:`alt_test` tests whether a model may replace people.

>>> from quality import encode
>>> labels = encode(["ann", "bob"] * 8, list("aabbccddeeffgghh"), list("xxyyxyxxyyxxyyyx"))
>>> alpha_interval(labels)
Alpha(0.531, 95 % interval -0.543 to 0.951, nominal, 8 tasks)
"""

from quality.agreement.alpha import (
    alpha_by_class,
    alpha_by_group,
    alpha_by_shards,
    alpha_interval,
    check_level,
)
from quality.agreement.alpha_jackknife import (
    METRICS,
    Alpha,
    Metric,
    SetMetric,
    alpha_of_distances,
)
from quality.agreement.alternative_annotator import AltTest, alt_test
from quality.agreement.kappas import ChanceCorrected, fleiss_kappa, gwet_ac1
from quality.agreement.votes_alike import (
    alpha_of,
    alpha_sums,
    beyond_chance,
    reliability_of_votes,
)
from quality.agreement.weighed_votes import (
    WeighedSums,
    vote_weights,
    votes_like_others,
    weighed_reliability,
    weighed_sums,
)
from quality.agreement.worker_pairs import PairKappas, pair_kappas

__all__ = [
    "METRICS", "Alpha", "AltTest", "ChanceCorrected", "Metric", "PairKappas", "SetMetric",
    "WeighedSums", "alpha_by_class", "alpha_by_group", "alpha_by_shards", "alpha_interval", "alpha_of",
    "alpha_of_distances", "alpha_sums", "alt_test", "beyond_chance", "check_level", "fleiss_kappa",
    "gwet_ac1", "pair_kappas", "reliability_of_votes", "vote_weights", "votes_like_others",
    "weighed_reliability", "weighed_sums",
]  # fmt: skip
