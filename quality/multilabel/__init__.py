"""Multi-label: several classes may hold for a task at once; consensus, workers' rates, and agreement.

:func:`encode_multilabels` checks and codes a table of answers, each a set of classes.
:func:`multilabel_consensus` estimates which classes hold for each task, with workers' skill shared across
classes. :func:`set_alpha` measures how far the sets agree. :func:`simulate_multilabels` draws crowds of
known truth.

>>> workers, tasks = ["ann", "bob", "cy"] * 2, ["one"] * 3 + ["two"] * 3
>>> sets = [["cat"], ["cat", "dog"], ["cat", "dog"], ["cat"], ["cat"], ["cat"]]
>>> table = encode_multilabels(workers, tasks, sets)
>>> table.classes[multilabel_consensus(table).classes_of(0)]
array(['cat', 'dog'], dtype='<U3')
>>> round(set_alpha(table).value, 2)
0.37
"""

from quality.multilabel.answer_plan import AnswerPlan, plan_answers
from quality.multilabel.answer_sets import (
    MultiLabels,
    Repeats,
    encode_gold_sets,
    encode_multilabels,
)
from quality.multilabel.cell_pass import yes_no_labels
from quality.multilabel.class_consensus import MultiLabelConsensus, multilabel_consensus
from quality.multilabel.guessers import filter_guessers
from quality.multilabel.set_agreement import SET_METRICS, set_alpha
from quality.multilabel.simulated_answers import (
    KINDS,
    SimulatedMultiLabels,
    simulate_multilabels,
)

__all__ = [
    "KINDS", "SET_METRICS", "AnswerPlan", "MultiLabelConsensus", "MultiLabels", "Repeats",
    "SimulatedMultiLabels", "encode_gold_sets", "encode_multilabels", "filter_guessers",
    "multilabel_consensus", "plan_answers", "set_alpha", "simulate_multilabels", "yes_no_labels",
]  # fmt: skip
