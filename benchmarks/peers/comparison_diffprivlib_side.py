"""Print as JSON what diffprivlib answers to each probe of `benchmarks.peers.comparison`.

Its own interpreter runs this script.

    comparison_diffprivlib_side.py anything /path/to/python

The second argument is the interpreter that runs crowdassay.
"""

import json
import subprocess
import sys
import warnings
from pathlib import Path

import diffprivlib
import numpy as np
from diffprivlib import BudgetAccountant
from diffprivlib.models import LogisticRegression
from diffprivlib.utils import PrivacyLeakWarning

ROWS = np.random.default_rng(0).normal(size=(200, 3))
LABELS = (ROWS[:, 0] > 0).astype(int)


def fitted(rows=ROWS, **given):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = LogisticRegression(epsilon=1.0, **given).fit(rows, LABELS)
    return model, {warning.category for warning in caught}


def bound_not_given() -> str:
    model, caught = fitted()
    longest = float(np.linalg.norm(ROWS, axis=1).max())
    if model.data_norm != longest:
        return "not the data's"
    return "the data's longest row" + (", and a warning" if PrivacyLeakWarning in caught else "")


def spending_outlives_the_process() -> str:
    spend = "fit = LogisticRegression(epsilon=1.0, data_norm=1.0).fit([[0.0], [1.0]], [0, 1]);"
    print_total = "print(BudgetAccountant.load_default(None).total()[0])"
    start = (
        "import warnings; warnings.simplefilter('ignore');"
        "from diffprivlib import BudgetAccountant;"
        "from diffprivlib.models import LogisticRegression;"
    )
    totals = [
        subprocess.run(
            [sys.executable, "-c", start + code], check=True, capture_output=True, text=True
        ).stdout
        for code in (spend + print_total, print_total)
    ]
    first, second = map(float, totals)
    return "yes" if first > 0 and second == first else "no"


class Watching(BudgetAccountant):
    """Notes whether the model is already there when it is charged."""

    def spend(self, epsilon, delta):
        """Charge, once the model has been looked at."""
        self.drawn = np.size(getattr(self.model, "coef_", ())) > 0
        return super().spend(epsilon, delta)


def charged() -> str:
    accountant = Watching()
    accountant.model = LogisticRegression(epsilon=1.0, data_norm=9.0, accountant=accountant)
    accountant.model.fit(ROWS, LABELS)
    return "after its noise is drawn" if accountant.drawn else "before its noise is drawn"


def solver_that_stops_early() -> str:
    accountant = BudgetAccountant()
    model, _ = fitted(data_norm=9.0, max_iter=1, tol=1e-12, accountant=accountant)
    given = model.n_iter_[0] == 1 and accountant.total()[0] == 1.0
    return "gives its model, at the whole price" if given else "refuses"


def seed_for_the_noise() -> str:
    one, other = (fitted(data_norm=9.0, random_state=0)[0].coef_ for _ in range(2))
    return "may be set" if np.array_equal(one, other) else "none to set"


def scikit_learn_of_today() -> str:
    """Its models, imported among the libraries of another interpreter, which come first."""
    packages = Path(diffprivlib.__path__[0]).parent
    code = f"import sys; sys.path.append({str(packages)!r}); import diffprivlib.models"
    run = subprocess.run([sys.argv[2], "-c", code], capture_output=True, text=True)
    return "yes" if run.returncode == 0 else f"no: {run.stderr.splitlines()[-1].split(' from ')[0]}"


PROBES = (
    bound_not_given,
    spending_outlives_the_process,
    charged,
    solver_that_stops_early,
    seed_for_the_noise,
    scikit_learn_of_today,
)

if __name__ == "__main__":
    json.dump({probe.__name__: probe() for probe in PROBES}, sys.stdout)
