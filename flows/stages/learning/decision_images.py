"""What the crowd goes by: the features that move with its labels, beside those that move with gold.

For each class a linear classifier learns the consensus labels, this class against the others. What is shown
is its pattern, not its weights: those also weigh features that only cancel noise. It is scaled to one
standard deviation of the decision, so that the crowd's stands beside gold's.

And which features go with its errors, by name: inside each true class the gold tasks that the consensus got
wrong are compared with those it got right. The largest difference is judged by permutations, so that
naming any feature where none matters has the level's chance.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from jaxtyping import Bool, Float, Int

from flows.run import Crowd, Run
from flows.tables import ColumnScale

__all__ = ["find_decision_images", "find_error_features"]

MAX_TASKS, MAX_GOLD = 2_000, 1_000  # to learn from
MAX_CLASSES = 6  # with most tasks
MIN_TASKS = 20  # of a class, and of the others
COMPONENTS = 100
CHECKED = 5  # one of so many tasks is held out, to see what the line is worth
N_HALVES = 10
SHOWN = 15  # named features of each class
LEVEL = 0.05
MIN_WRONG = 2  # and as many right, in one class
MAX_NAMED = 20


def find_decision_images(
    run: Run, crowd: Crowd, label: Int[np.ndarray, " tasks"]
) -> dict[str, Any]:
    """Return the patterns of these consensus labels and of gold by class, or the reason for none."""
    if crowd.tasks is None or not crowd.tasks.feature_names:
        return {"why_not": "the tasks have no features"}
    names, shape = crowd.tasks.feature_names, run.settings.report.image_shape
    if shape is not None and shape[0] * shape[1] != len(names):
        return {
            "why_not": f"image_shape is {shape[0]} x {shape[1]}, and the tasks have {len(names):,} features"
        }
    rng = np.random.default_rng(run.settings.seed)
    (rows,) = crowd.features_of(np.arange(len(label)))  # on shards as pages of a file
    gold = np.full(len(label), -1) if run.settings.consensus.use_gold else crowd.gold_code()
    known = np.flatnonzero(gold >= 0)
    known = known[rng.permutation(len(known))[:MAX_GOLD]]
    used = rng.permutation(len(label))[:MAX_TASKS]
    n_of = np.bincount(label, minlength=crowd.labels.n_classes)
    seen, sure = np.asarray(rows[used]), np.asarray(rows[known])
    if shape is None:  # pixels have one unit, named features one each
        scale = ColumnScale.of(rows.__getitem__, len(rows))
        seen, sure = scale.scaled(seen), scale.scaled(sure)
    if (why := _why_flat(seen[~_checked(len(seen))])) is not None:
        return {"why_not": why}
    codes = np.argsort(-n_of, kind="stable")[:MAX_CLASSES] if len(n_of) > 2 else np.array([1])
    images = []
    for code in codes[codes < len(n_of)]:
        own = label[used] == code
        if min(own.sum(), (~own).sum()) >= MIN_TASKS:
            one = _image(seen, own, len(shape or ()) > 0)
            one |= _beside_gold(sure, label[known] == code, gold[known] == code, rng)
            images.append({"class": str(crowd.labels.classes[code])} | one)
    if not images:
        return {"why_not": f"no class has {MIN_TASKS} tasks, and as many of the others"}
    for one in images:
        if shape is None:
            _keep_clearest(one, names)
    return {"why_not": None, "shape": shape, "n_features": len(names), "images": images}


def _checked(n_rows: int) -> Bool[np.ndarray, " rows"]:
    """Return which rows are held out; they come in random order."""
    return np.asarray(np.arange(n_rows) % CHECKED == 0)


def _why_flat(rows: Float[np.ndarray, "tasks features"]) -> str | None:
    """Return why no line can be learned from these rows' features, or None; None without rows."""
    if not len(rows):
        return None
    with np.errstate(over="ignore", invalid="ignore"):
        spread = rows.var(axis=0)
    if not np.isfinite(spread).all():
        return "a feature is too large to be squared: scale it"
    return None if spread.any() else "no feature differs from task to task"


def _image(
    rows: Float[np.ndarray, "tasks features"], own: Bool[np.ndarray, " tasks"], drawn: bool
) -> dict[str, Any]:
    """Return the crowd's pattern of one class against the others, its portraits, and its accuracy."""
    from learners import DecisionImage  # scikit-learn, where images are asked for alone

    checked = _checked(len(rows))
    image = DecisionImage("logistic", n_components=min(COMPONENTS, rows.shape[1]))
    image.fit(rows[~checked], own[~checked])
    right = image.predict(rows[checked]) == own[checked]
    portraits: dict[str, Any] = {}
    if drawn:
        portraits = {
            "portrait": _short(image.portrait_positive_),
            "others": _short(image.portrait_negative_),
        }
    return {
        "n": int(own.sum()),
        "n_others": int((~own).sum()),
        "right": float(right.mean()),
        "commonest": float(max(own[checked].mean(), 1 - own[checked].mean())),
        "pattern": _short(image.pattern_ * image.decision_function(rows).std()),
        **portraits,
    }


def _beside_gold(
    rows: Float[np.ndarray, "tasks features"],
    own: Bool[np.ndarray, " tasks"],
    truly: Bool[np.ndarray, " tasks"],
    rng: np.random.Generator,
) -> dict[str, Any]:
    """Return gold's pattern, and the images' similarity; None where gold has too few tasks, or one class."""
    few = min(own.sum(), (~own).sum(), truly.sum(), (~truly).sum()) < MIN_TASKS
    if few or _why_flat(rows) is not None:
        return {"gold": None, "cosine": None, "ceiling": None, "n_gold": len(rows)}
    from learners import compare_decision_images  # as above

    found = compare_decision_images(
        rows, own, truly, classifier="logistic", n_boot=N_HALVES, rng=rng
    )
    return {
        "gold": _short(found.gold.pattern_ * found.gold.decision_function(rows).std()),
        "cosine": found.cosine,
        "ceiling": None if np.isnan(found.ceiling) else found.ceiling,
        "n_gold": len(rows),
    }


def _keep_clearest(image: dict[str, Any], names: tuple[str, ...]) -> None:
    """Keep the features that move most with the class, in the crowd's pattern or gold's."""
    crowd = np.abs(image["pattern"])
    size = crowd if image["gold"] is None else np.maximum(crowd, np.abs(image["gold"]))
    kept = np.argsort(-size, kind="stable")[:SHOWN]
    image["features"] = [names[at] for at in kept]
    for key in ("pattern", "gold"):
        if image[key] is not None:
            image[key] = [image[key][at] for at in kept]


def _short(values: Float[np.ndarray, " features"]) -> list[float]:
    """Return numbers to four digits: pictures need no more."""
    return [float(f"{one:.4g}") for one in values]


def find_error_features(run: Run, crowd: Crowd, label: Int[np.ndarray, " tasks"]) -> dict[str, Any]:
    """Name the features that go with errors of these consensus labels, or say why none can be named."""
    if crowd.tasks is None or not crowd.tasks.feature_names:
        return {"why_not": "the tasks have no features"}
    if run.settings.consensus.use_gold:
        return {"why_not": "the gold was used, so it shows no errors"}
    gold = crowd.gold_code()
    known = np.flatnonzero(gold >= 0)
    wrong = label[known] != gold[known]
    kinds = [(wrong[gold[known] == one], one) for one in np.unique(gold[known])]
    if not any(min(part.sum(), (~part).sum()) >= MIN_WRONG for part, _ in kinds):
        return {
            "why_not": f"no class has {MIN_WRONG} gold tasks wrong and {MIN_WRONG} right: "
            f"{known.size:,} gold tasks, {int(wrong.sum()):,} of them wrong"
        }
    from learners import error_image_test  # SciPy's and NumPy's part of learners, where asked for

    (rows,) = crowd.features_of(known)
    rng = np.random.default_rng(run.settings.seed)
    found = error_image_test(rows, gold[known], label[known], rng=rng)
    place, feature = np.nonzero(found.p_value <= LEVEL)
    order = np.lexsort((feature, -np.abs(found.statistic[place, feature])))
    named = [
        {
            "class": str(crowd.labels.classes[found.classes[place[at]]]),
            "feature": crowd.tasks.feature_names[feature[at]],
            "t": float(found.statistic[place[at], feature[at]]),
            "p_value": float(found.p_value[place[at], feature[at]]),
        }
        for at in order[:MAX_NAMED]
    ]
    return {
        "why_not": None,
        "level": LEVEL,
        "n_features": rows.shape[1],
        "n_wrong": int(found.n_wrong.sum()),
        "n_right": int(found.n_right.sum()),
        "n": len(order),
        "named": named,
    }
