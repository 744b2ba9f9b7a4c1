"""Mutants written by hand: faults that no rule makes, planted in a copy of the tree.

Each is a piece of text that must occur exactly once in its file, and what stands there instead.
"""

import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

__all__ = ["WRITTEN", "Written", "check_written", "copy_tree", "try_written"]

ROOMS = ("flows", "learners", "privacy", "quality", "sample_data", "tests", "benchmarks")


@dataclass(frozen=True, slots=True)
class Written:
    """One fault: what it breaks, where, the text and its replacement, and the tests that must notice."""

    name: str
    path: str
    old: str
    new: str
    tests: tuple[str, ...]


RELEASES, SPENDING = "flows/spending/releases.py", ("tests/flows/spending/test_releases.py",)
NOISE, FRESH = (
    "privacy/noise.py",
    (
        "tests/privacy/test_noise.py",
        "-k",
        "no_draw",
    ),
)
BOOKED, FINGERPRINTS = (
    "privacy/ledger/releasing.py",
    ("tests/privacy/ledger/test_releasing.py", "-k", "finger"),
)
ATTACKS = "tests/learners/holdout/test_attacks.py"
MARGINS = ("tests/privacy/accounting/test_margins.py",)
FILES = ("tests/flows/report/test_release_files.py",)
SERVER, ON_A_SERVER = (
    "privacy/ledger/postgres.py",
    ("tests/privacy/ledger/test_store.py", "-k", "server"),
)

AS_IT_WAS: tuple[Written, ...] = (
    Written(
        "a question is known by its private values", BOOKED,
        'marks = [_digest({"question": one.name}, {}, access.key) for one in questions]',
        'marks = [_digest({"question": one.name}, {k: np.asarray(v) for k, v in one.value.items()}, '
        "access.key) for one in questions]",
        (ATTACKS, "-k", "equal or repeats"),
    ),
    Written(
        "a question is refused for its private values", "learners/holdout/thresholdout.py",
        "given[name].shape == (n,)):",
        "given[name].shape == (n,) and ((given[name] >= 0) & (given[name] <= 1)).all()):",
        (ATTACKS, "-k", "refusal"),
    ),
    Written(
        "a changed gate is a new holdout", BOOKED,
        "shared = (entries.c.dataset == dataset) & (entries.c.entry != entry)",
        "shared = (entries.c.dataset == dataset) & (entries.c.entry < 0)",
        (ATTACKS, "-k", "knob or daily"),
    ),
    Written(
        "a gate's noise in double precision", "learners/holdout/thresholdout.py",
        "return noise.discrete_laplace(scale, 1)[0]",
        "return round(noise.gamma(1.0, scale) - noise.gamma(1.0, scale))",
        ("tests/flows/spending/test_audit.py", "-k", "exact_where and thresholdout"),
    ),
    Written(
        "class ratios of features that the unit protects are public",
        "flows/stages/learning/class_ratios.py",
        "if settings.privacy is not None and settings.privacy.unit.protects_features:",
        "if settings.privacy is not None and settings.privacy.unit is None:",
        ("tests/flows/stages/learning/test_class_ratios.py", "-k", "public_byte"),
    ),
    Written(
        "stored or fresh under a key by the data", BOOKED,
        "return _digest(public_identity(query, _describe(mechanism)), {}, key)",
        "return _digest(public_identity(query, _describe(mechanism)), _arrays(query), key)",
        ("tests/flows/spending/test_published_under_keys.py", "-k", "whatever"),
    ),
    Written(
        "a ledger that was set back is spent from", "flows/spending/account.py",
        "    if lacking:\n", "    if False and lacking:\n",
        ("tests/flows/spending/test_ledger_set_back.py",),
    ),
    Written(
        "a price's parts summed in doubles", "learners/selection/scored_training.py",
        "return exact(str(self.training.epsilon)) + exact(self.epsilon_score)",
        "return exact(float(self.training.epsilon) + self.epsilon_score)",
        ("tests/learners/selection/test_scored_training.py", "-k", "exact_sum"),
    ),
    Written(
        "what was spent is rounded to the nearest", "privacy/accounting/cost.py",
        'return f"{(six_digits_down if left else six_digits_up)(value):.12g}"',
        'return f"{float(value):g}"',
        ("tests/privacy/accounting/test_cost.py", "-k", "written"),
    ),
    Written(
        "an output is an input", "flows/files.py",
        "if given.exists() and self.path.exists() and given.samefile(self.path):",
        "if given.exists() and self.path.exists() and not given.samefile(self.path):",
        ("tests/flows/cli/test_outputs.py", "-k", "no_input"),
    ),
    Written(
        "a server in the background is not ended by SIGTERM", "flows/prefect/deploy.py",
        "            self._asked_to_end = True\n            self._cancel()",
        "            self._asked_to_end = True\n            signal.raise_signal(signal.SIGINT)",
        ("tests/flows/prefect/test_deploy_without_server.py", "-k", "sigterm"),
    ),
    Written(
        "a run fails with its reader", "flows/cli/root.py",
        "            return memoryview(data).nbytes", "            raise",
        ("tests/flows/cli/test_root.py", "-k", "reader"),
    ),
)  # fmt: skip
"""Faults that were there: an attack read out the holdout by them, or a promise was broken."""

WRITTEN: tuple[Written, ...] = (
    Written(
        "training claims to protect rows whose features were read in the clear", RELEASES,
        "return Unit.CONSENSUS_LABEL if settings.input.standardize else Unit.ROW", "return Unit.ROW",
        SPENDING,
    ),
    Written(
        "training claims to protect labels alone", RELEASES,
        "return Unit.CONSENSUS_LABEL if settings.input.standardize else Unit.ROW",
        "return Unit.CONSENSUS_LABEL", SPENDING,
    ),
    Written(
        "every consensus counts as local", "flows/settings/sections.py",
        "return by_vote and not self.features_join and not self.models_join", "return True",
        SPENDING,
    ),
    Written(
        "training on the holdout, and a gate on what was trained on", RELEASES,
        "mask = rows.holdout == (which == HOLDOUT)", "mask = rows.holdout == (which != HOLDOUT)",
        SPENDING,
    ),
    Written(
        "training on every row", RELEASES,
        "mask = rows.holdout == (which == HOLDOUT)",
        "mask = rows.holdout if which == HOLDOUT else np.ones_like(rows.holdout)", SPENDING,
    ),
    Written(
        "the public page says when counts were booked", "flows/report/pages.py",
        '"half_width_labels", "noise",', '"half_width_labels", "noise", "released_at",', FILES,
    ),
    Written(
        "the public page numbers the model's entry", "flows/report/pages.py",
        'MODEL = (\n    "classes",', 'MODEL = (\n    "entry", "classes",', FILES,
    ),
    Written(
        "the public table numbers the counts' entries", "flows/report/release_files.py",
        '"proportion": "noisy counts projected', '"entry": "", "proportion": "noisy counts projected',
        FILES,
    ),
    Written(
        "gamma noise from a seeded generator", NOISE,
        "system, whole = random.SystemRandom(), int(shape)",
        "system, whole = random.Random(0), int(shape)", FRESH,
    ),
    Written(
        "directions from a seeded generator", NOISE,
        "system = random.SystemRandom()\n        normal", "system = random.Random(0)\n        normal",
        FRESH,
    ),
    Written(
        "a second source of randomness in the private rooms", "privacy/counts.py",
        "import numpy as np\n", "import numpy as np\n\nrng = np.random.default_rng(0)\n",
        ("tests/flows/run/test_canaries.py", "-k", "generator"),
    ),
    Written(
        "histogram counts drawn at twice their epsilon", "learners/selection/histogram_width.py",
        "LatticeLaplace(self.epsilon_counts)", "LatticeLaplace(2 * self.epsilon_counts)",
        ("tests/learners/selection/test_histogram_width.py", "-k", "counting"),
    ),
    Written(
        "a histogram's fit drawn at twice its epsilon", "learners/private/paying_estimators.py",
        "ledger.release(LatticeLaplace(epsilon), query)",
        "ledger.release(LatticeLaplace(2 * epsilon), query)",
        ("tests/learners/private/test_histogram.py",),
    ),
    Written(
        "shapes left out of the fingerprint", BOOKED,
        "(name, arrays[name].dtype.str, arrays[name].shape)", "(name, arrays[name].dtype.str)",
        FINGERPRINTS,
    ),
    Written(
        "types left out of the fingerprint", BOOKED,
        "(name, arrays[name].dtype.str, arrays[name].shape)", "(name, arrays[name].shape)",
        FINGERPRINTS,
    ),
    Written(
        "the query's name left out of the fingerprint", BOOKED,
        "            query.name,\n            str(query.unit),", "            str(query.unit),",
        FINGERPRINTS,
    ),
    Written(
        "the query's part left out of the fingerprint", BOOKED,
        "float(query.l1).hex(),\n            part,", "float(query.l1).hex(),", FINGERPRINTS,
    ),
    Written(
        "the event left out of the fingerprint", BOOKED,
        '"event": event_json(event),\n        "query"', '"query"', FINGERPRINTS,
    ),
    Written(
        "no margin on a searched scale", "privacy/accounting/cost.py",
        "SAFETY = 1 + 1e-6", "SAFETY = 1.0", MARGINS,
    ),
    Written(
        "no margin on training's scale", "learners/private/gaussian_objective.py",
        "is_covered(chi_delta(epsilon, math.exp(middle), n_problems), delta)",
        "chi_delta(epsilon, math.exp(middle), n_problems) <= delta", MARGINS,
    ),
    Written(
        "no margin on a plan's delta", "privacy/accounting/plans.py",
        "MARGIN = 1 - 1e-6", "MARGIN = 1.0", MARGINS,
    ),
    Written(
        "deltas not raised before they are composed", "privacy/accounting/composition.py",
        "RAISE = 1 + 1e-9, 1e-13", "RAISE = 1.0, 0.0", MARGINS,
    ),
    Written(
        "composed epsilons not raised", "privacy/accounting/composition.py",
        "EPSILON_DIGITS = 1 + 1e-12", "EPSILON_DIGITS = 1.0", MARGINS,
    ),
    Written(
        "a claim's loss rounded down", "privacy/accounting/loss.py",
        "above = math.nextafter(float(min(max(epsilon, MIN_CLAIM), MAX_CLAIM)), math.inf)",
        "above = float(min(max(epsilon, MIN_CLAIM), MAX_CLAIM))", MARGINS,
    ),
    Written(
        "a moved task counts once", "privacy/query.py", "ONE_TASK = 2.0", "ONE_TASK = 1.0",
        ("tests/privacy/test_counts.py",),
    ),
    Written(
        "commits that are not synced", "privacy/ledger/sqlite.py",
        "synchronous = FULL", "synchronous = NORMAL", ("tests/privacy/ledger/test_sqlite.py",),
    ),
    Written(
        "a server's commits that are not synced", SERVER,
        "synchronous_commit = on", "synchronous_commit = off", ON_A_SERVER,
    ),
    Written(
        "a server's spenders that see an old state", SERVER,
        '"READ COMMITTED" if write', '"REPEATABLE READ" if write', ON_A_SERVER,
    ),
    Written(
        "a server's rows that can be truncated", SERVER,
        'for action in ("DELETE", "TRUNCATE", "UPDATE")', 'for action in ("DELETE", "UPDATE")',
        ON_A_SERVER,
    ),
    Written(
        "a server's triggers that may be switched off", SERVER,
        "AND tgenabled IN ('O', 'A')", "", ON_A_SERVER,
    ),
    Written(
        "a server's head that is not locked", "privacy/ledger/store.py",
        "True: select(head).with_for_update()", "True: select(head)", ON_A_SERVER,
    ),
    Written(
        "a server's budget that is not locked", "privacy/ledger/records.py",
        "        .with_for_update()\n", "", ON_A_SERVER,
    ),
    Written(
        "one key for all campaigns", "flows/files.py",
        "secrets.token_bytes(KEY_BYTES)", "bytes(KEY_BYTES)",
        ("tests/flows/spending/test_account.py", "-k", "key"),
    ),
    Written(
        "a score said to be exact", "learners/selection/scored_training.py",
        'arithmetic: ClassVar[Arithmetic] = "double"', 'arithmetic: ClassVar[Arithmetic] = "exact"',
        ("tests/flows/spending/test_audit.py", "-k", "scored_training"),
    ),
    Written(
        "a score that is not paid", "learners/selection/scored_training.py",
        "exact(str(self.training.epsilon)) + exact(self.epsilon_score)", "exact(str(self.training.epsilon))",
        ("tests/learners/selection/test_scored_training.py",),
    ),
    *AS_IT_WAS,
)  # fmt: skip


def check_written(root: Path) -> None:
    """Raise ValueError for a mutant whose text does not occur exactly once."""
    for one in WRITTEN:
        found = (root / one.path).read_text(encoding="utf-8").count(one.old)
        if found != 1:
            raise ValueError(f"{one.path} must hold the text of {one.name!r} once, got {found}")


def copy_tree(root: Path, copy: Path) -> None:
    """Copy what the tests need into an empty folder."""
    for room in ROOMS:
        shutil.copytree(root / room, copy / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(root / "pyproject.toml", copy)


def try_written(one: Written, copy: Path) -> int:
    """Plant a mutant in the copy, run its tests there and take it out; 1 if one failed, 0 if none."""
    path = copy / one.path
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(one.old, one.new), encoding="utf-8")
    try:
        command = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider"]
        done = subprocess.run(
            [*command, "-m", "not slow", *one.tests], cwd=copy, capture_output=True, check=False
        )
    finally:
        path.write_text(text, encoding="utf-8")
    if done.returncode not in (0, 1):  # no test ran: the mutant or its tests are wrong
        raise RuntimeError(f"{one.name!r}: {done.stdout.decode()[-2000:]}")
    return done.returncode
