"""crowd-kit's aggregators by their own names: change the import line, keep the code.

    from flows.crowdkit import DawidSkene    # was: from crowdkit.aggregation import DawidSkene
    DawidSkene(n_iter=100).fit_predict(df)   # df: columns task, worker, label

Arguments, defaults, results, and the names and order of their rows and columns are those of crowd-kit
1.4.2; ``python -m benchmarks.quality.crowdkit_agreement`` measures how closely the numbers agree. The
estimators are scikit-learn's, for ``clone`` and ``get_params``.

Three things differ on purpose. A missing value and a repeated (worker, task) pair raise `LabelError`;
crowd-kit drops tasks or counts twice. Equal shares always go to the
class that sorts first. The notes of each class state what else differs. A missing column is a KeyError,
as in crowd-kit, and a LabelError; an empty table has empty results, except where crowd-kit divides by zero.
``python -m benchmarks.quality.crowdkit_tests`` runs crowd-kit's own tests on these classes.
"""

from flows.crowdkit.binary_relevance import BinaryRelevance
from flows.crowdkit.dawid_skene import DawidSkene, OneCoinDawidSkene
from flows.crowdkit.glad import GLAD
from flows.crowdkit.kos import KOS
from flows.crowdkit.majority_vote import MajorityVote
from flows.crowdkit.pairwise import BradleyTerry, NoisyBradleyTerry
from flows.crowdkit.skilled_votes import GoldMajorityVote, Wawa, ZeroBasedSkill

__all__ = [
    "GLAD", "KOS", "BinaryRelevance", "BradleyTerry", "DawidSkene", "GoldMajorityVote",
    "MajorityVote", "NoisyBradleyTerry", "OneCoinDawidSkene", "Wawa", "ZeroBasedSkill",
]  # fmt: skip
