"""Ordered classes: grades, stars, severities, where a near miss is better than a far one.

:func:`ordinal_crowd` estimates truth from labels whose errors fall off with distance. :func:`least_loss`
decides by the loss of a wrong answer. :func:`order_fit` tests whether the labels show the order declared
for their classes.

>>> from quality import encode
>>> workers, tasks = ["ann", "bob", "cy"] * 3, [1, 1, 1, 2, 2, 2, 3, 3, 3]
>>> labels = encode(workers, tasks, ["low", "low", "mid", "mid", "high", "mid", "high", "high", "high"],
...                 classes=["low", "mid", "high"])
>>> labels.classes[ordinal_crowd(labels).label]
array(['low', 'mid', 'high'], dtype='<U4')
"""

from quality.ordered.expected_loss import LOSSES, Loss, least_loss, loss_table
from quality.ordered.order_test import OrderFit, order_fit
from quality.ordered.style_em import OrdinalCrowd, ordinal_crowd

__all__ = [
    "LOSSES", "Loss", "OrderFit", "OrdinalCrowd", "least_loss", "loss_table", "order_fit",
    "ordinal_crowd",
]  # fmt: skip
