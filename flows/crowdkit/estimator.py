"""What every estimator under crowd-kit's names shares: scikit-learn's parameters, and the two short calls."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pandas as pd  # type: ignore[import-untyped]
from sklearn.base import BaseEstimator

__all__ = ["ConsensusEstimator", "SharesEstimator"]


class ConsensusEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator whose ``fit`` sets ``labels_``; ``get_params`` and ``clone`` are scikit-learn's."""

    fit: Callable[..., Any]
    labels_: pd.Series

    def fit_predict(self, data: pd.DataFrame, *given: Any, **named: Any) -> pd.Series:
        """Fit on `data`, with the other arguments of ``fit``, and return ``labels_``."""
        self.fit(data, *given, **named)
        return self.labels_


class SharesEstimator(ConsensusEstimator):
    """An estimator whose ``fit`` sets ``probas_`` as well."""

    probas_: pd.DataFrame

    def fit_predict_proba(self, data: pd.DataFrame, *given: Any, **named: Any) -> pd.DataFrame:
        """Fit on `data`, with the other arguments of ``fit``, and return ``probas_``."""
        self.fit_predict(data, *given, **named)
        return self.probas_
