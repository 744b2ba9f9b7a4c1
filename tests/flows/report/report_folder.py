"""A finished run folder, believable and small, and variants of it.

240 tasks a group; 12 groups with labels and 6 without; 120 workers of whom 24 are flagged. The
numbers hang together where a reader would check: counts add up to the tasks, spends to the
statement.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from flows.stages import STAGES

CANARY = 0.8765432109  # a number that must not be seen
CLASSES = ("benign", "suspicious", "toxic")
SKIPPED = {
    "proportions": "the settings have no [privacy] section, so nothing is released",
    "corrected_shares": "shares are the crowd's: a correction has no price (privacy.correction_epsilon)",
    "class_ratios": "every group has labels",
    "model": "the settings have no [model] section",
    "gate": "the holdout was not asked: there is no model",
    "bounds": "no bound was computed: there is no model",
    "spend": "nothing was spent: the settings have no [privacy] section",
}


def write_folder(
    folder: Path,
    *,
    skip: tuple[str, ...] = (),
    workers: int = 120,
    flagged: int = 24,
    groups: int = 12,
    classes: tuple[str, ...] = CLASSES,
    status: str = "agrees",
    worker_name: str = "A{:04d}QX",
    group_name: str = "site-{:02d}",
    public: bool = True,
) -> Path:
    """Write every file of a run folder; stages in `skip` leave their one sentence."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [worker_name.format(code) for code in range(workers)]
    labelled = [group_name.format(code + 1) for code in range(groups)]
    unlabelled = [group_name.format(code + 1) for code in range(groups, groups + groups // 2)]
    n_tasks = 240 * groups
    facts = {
        "inputs": _inputs(classes, workers, len(labelled), len(unlabelled)),
        "quality": _quality(names, flagged),
        "consensus": _consensus(n_tasks),
        "proportions": {
            "mechanism": "lattice Laplace",
            "epsilon": 1.0,
            "delta": 0.0,
            "arithmetic": "exact",
            "unit": "consensus label",
            "level": 0.9,
            "expected_l1_labels": 3.66,
            "half_width_labels": 5,
            "reason": "lattice Laplace errs by 3.66 labels on average and needs no delta",
            "noise": {"law": "lattice", "scale": 2.0, "variance": 6.1, "covariance": [[6.1]]},
            "released_at": "2026-03-02T10:15:42+00:00",
            "publication": "2026-03",
            "n_stale": 0,
            "budget": {"epsilon": 4.0, "delta": 0.0},
        },
        "corrected_shares": {
            "epsilon": 0.8,
            "delta": 0.0,
            "arithmetic": "exact",
            "unit": "consensus label",
            "level": 0.9,
            "sampling": "random",
            "n_gold": 210,
            "n_needed": 325,
            "apart": False,
            "entries": [len(labelled) + 1],
        },
        "class_ratios": {
            "method": "kernel mean matching (MMD), simplex QP",
            "bandwidth": 1.732,
            "level": 0.9,
            "cross_validated_l1": 0.118,
            "warnings": ["site-17 has few tasks near those of the labelled groups."],
            "public": public,
            "why_internal": None if public else "the features are private",
        },
        "model": _model(classes, n_tasks),
        "gate": _gate(status, n_tasks // 5),
        "bounds": _bounds(),
        "robustness": _robustness(n_tasks),
        "spend": _spend(labelled),
    }
    write_json(folder / "manifest.json", _manifest(classes))
    write_json(folder / "trend.json", {"runs": _runs(n_tasks, workers)})
    facts["consensus"]["classes"] = list(classes)
    for stage, value in facts.items():
        content = {"skipped": SKIPPED[stage]} if stage in skip else value
        write_json(folder / f"{stage}.json", content)
    tables = {
        "workers": _workers(names, flagged),
        "next_labels": _next_labels(classes),
        "label_plan": _label_plan(names),
        "proportions": _shares(labelled, classes, "proportion", seed=5),
        "corrected_shares": _shares(["all groups"], classes, "share", seed=8),
        "class_ratios": _shares(unlabelled, classes, "ratio", seed=6),
    }
    for stage, rows in tables.items():
        if stage not in skip:
            pq.write_table(pa.Table.from_pylist(rows), folder / f"{stage}.parquet")
    return folder


def write_json(path: Path, content: Any) -> None:
    """Write one JSON file of the folder."""
    path.write_text(json.dumps(content, indent=1), encoding="utf-8")


def edit(path: Path, **fields: Any) -> None:
    write_json(path, json.loads(path.read_text()) | fields)


def overwrite_what_is_internal(folder: Path) -> None:
    """Every internal file gone, every internal field and column a canary."""
    internal = ("quality", "consensus", "bounds", "robustness", "manifest", "trend")
    for name in (f"{stage}.json" for stage in internal):
        (folder / name).unlink()
    for name in ("workers.parquet", "next_labels.parquet", "label_plan.parquet"):
        (folder / name).unlink()
    counts = dict.fromkeys(
        ("n_labels", "n_tasks", "n_labelled_tasks", "n_workers", "n_gold"), CANARY
    )
    edit(folder / "inputs.json", files=[], classes=["canary"], **counts)
    edit(folder / "gate.json", train_score=CANARY, n=CANARY, sigma=CANARY, asked=CANARY)
    edit(folder / "model.json", n_train=CANARY, validation={})
    edit(
        folder / "class_ratios.json",
        bandwidth=CANARY,
        cross_validated_l1=CANARY,
        warnings=["canary"],
    )
    for name in (
        "proportions",
        "corrected_shares",
        "class_ratios",
        "model",
        "gate",
        "spend",
        "inputs",
    ):
        edit(folder / f"{name}.json", canary=CANARY)
    for name in ("proportions", "corrected_shares", "class_ratios"):
        table = pq.read_table(folder / f"{name}.parquet")
        table = table.append_column("exact", pa.array([CANARY] * len(table)))
        pq.write_table(table, folder / f"{name}.parquet")


def _inputs(classes: tuple[str, ...], workers: int, groups: int, unlabelled: int) -> dict[str, Any]:
    n_tasks, n_unlabelled = 240 * groups, 240 * unlabelled
    digest = "9f2b6c41d8e07a35" * 4
    return {
        "name": "forum-posts-spring",
        "classes": list(classes),
        "files": [
            {"role": "labels", "name": "labels.csv.gz", "digest": digest},
            {
                "role": "tasks",
                "name": "tasks.parquet",
                "digest": digest[::-1],
            },
            {"role": "gold", "name": "gold.csv", "digest": digest[8:] + digest[:8]},
        ],
        "n_labels": 7 * n_tasks,
        "n_tasks": n_tasks + n_unlabelled,
        "n_labelled_tasks": n_tasks,
        "n_workers": workers,
        "n_classes": len(classes),
        "n_groups": groups,
        "n_unlabelled_groups": unlabelled,
        "n_features": 16,
        "n_gold": 160,
    }


def _quality(names: list[str], flagged: int) -> dict[str, Any]:
    return {
        "alpha": 0.7124,
        "alpha_kept": 0.8019,
        "by_distance": False,
        "agreement": [
            {
                "measure": measure,
                "of": of,
                "value": value,
                "low": value - 0.02,
                "high": value + 0.02,
                "n_tasks": 1800,
            }
            for measure, of, value in (
                ("Krippendorff’s alpha", "all labels", 0.7124),
                ("Fleiss’ kappa", "all labels", 0.7122),
                ("Gwet’s AC1", "all labels", 0.7391),
                ("Krippendorff’s alpha", "without the removed workers", 0.8019),
            )
        ],
        "penalty": "soft penalty",
        "stop": "20% of workers",
        "n_removed": flagged,
        "removed": names[:flagged],
        "refused": [{"worker": names[flagged], "reason": "12 tasks would be left without a label"}],
        "worst_kept": {"worker": names[flagged], "reason": "0.8 of the honest ones would"},
        "labels_removed": 3912,
        "groups": {
            "n_workers": len(names),
            "worth": len(names) - 1.8,
            "done": "weigh",
            "n": 1,
            "n_grouped": 3,
            "shown": [
                {
                    "n": 3,
                    "workers": names[:2],
                    "copied": 0.754,
                    "copied_interval": [0.7, 0.8],
                    "effective": 1.2,
                    "effective_interval": [1.15, 1.25],
                    "p_value": 2.5e-9,
                    "n_common": 411,
                    "n_agreed": 400,
                    "expected": 203.25,
                    "n_wrong": 71.5,
                    "expected_wrong": 21.0,
                }
            ],
        },
    }


def _consensus(n_tasks: int) -> dict[str, Any]:
    counts = [2, 9, 21, 48, 77, 130, 312]
    return {
        "aggregator": "dawid_skene",
        "n_iter": 23,
        "gold_used": 0,
        "choice": None,
        "n_regrouped": 7,
        "models_alone": False,
        "converged": True,
        "log_likelihood": -15204.731,
        "gold": {
            "n": 160,
            "accuracy": 0.94375,
            "low": 0.8969,
            "high": 0.9700,
            "unfiltered": 0.935,
            "majority_vote": 0.9125,
            "ungrouped": 0.91875,
        },
        "n_tied": 5,
        "n_conflict": 1204,
        "n_overruled": 61,
        "entropy": 310.4,
        "plan": {
            "n": 60,
            "n_tasks": 60,
            "n_workers": 6,
            "gain": 41.2,
            "workers_told_apart": True,
            "n_considered": 2000,
            "n_asked": 96,
        },
        "mean_confidence": 0.941,
        "model_confidence": 0.968,
        "confidence": {
            "evidence": "gold",
            "n_gold": 160,
            "weights": {"labels": 0.1, "model": 0.1, "regression": 0.5, "by_class": 0.3},
            "shared_errors": 0.12,
            "before": _reliability(0.962, 0.041),
            "after": _reliability(0.939, 0.022),
            "compared": "the model says 96.2%, gold says 94.4%: as close as 160 gold tasks can tell",
        },
        "confidence_histogram": {
            "edges": [0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0],
            "counts": [*counts[:-1], n_tasks - sum(counts[:-1])],
        },
    }


def _reliability(confidence: float, error: float) -> dict[str, Any]:
    curve = [(0.55, 6, 9), (0.81, 22, 26), (0.99, 123, 125)]
    return {
        "n": 160,
        "confidence": confidence,
        "right": 0.94375,
        "low": 0.8969,
        "high": 0.9700,
        "error": error,
        "error_interval": [error / 2, 2 * error],
        "floor": 0.018,
        "brier": 0.05 + error / 10,
        "curve": [
            {
                "confidence": at,
                "right": k / n,
                "n": n,
                "low": _wilson(k, n)[0],
                "high": _wilson(k, n)[1],
            }
            for at, k, n in curve
        ],
    }


def _robustness(n_tasks: int) -> dict[str, Any]:
    k = list(range(1, 11))
    return {
        "n_adversaries": k,
        "lower": [9 * (n - 1) for n in k],
        "upper_one_right": [9 * n for n in k],
        "upper": [18 * n for n in k],
        "name_blind": [n / 2 for n in k],
        "n_tasks": n_tasks,
    }


def _model(classes: tuple[str, ...], n_tasks: int) -> dict[str, Any]:
    coef = np.random.default_rng(3).normal(size=(len(classes), 17)).round(4)
    return {
        "classes": list(classes),
        "features": [f"f{code}" for code in range(16)],
        "coef": coef.tolist(),
        "norm_bound": 4.0,
        "regularization": 0.01,
        "candidates": [0.001, 0.01, 0.1],
        "chosen": 1,
        "method": "objective perturbation",
        "epsilon_train": 1.0,
        "epsilon_select": 0.5,
        "epsilon_score": 0.1,
        "delta_train": 0.0,
        "unit": "row",
        "arithmetic": "double",
        "n_train": n_tasks * 16 // 25,
        "n_validation": n_tasks * 4 // 25,
        "n_holdout": n_tasks // 5,
        "train_score": 0.8437,
        "entry": 13,
        "publication": "2026-03",
        "stale": False,
        "validation": {
            "n": n_tasks * 4 // 25,
            "private": 0.8352,
            "non_private": 0.8715,
            "majority_class": 0.6181,
        },
    }


def _gate(status: str, n: int) -> dict[str, Any]:
    return {
        "threshold": 0.05,
        "arithmetic": "exact",
        "sigma": 0.01,
        "budget": 5,
        "budget_left": {"agrees": 5, "overfit": 4, "exhausted": 0}[status],
        "epsilon": 0.5,
        "unit": "row",
        "n": n,
        "question": "accuracy of the private model",
        "status": status,
        "value": {"agrees": 0.8437, "overfit": 0.7719, "exhausted": None}[status],
        "train_score": 0.8437,
        "asked": 1,
        "publication": "2026-03",
        "stale": False,
        "gates": 1,
        "refuted_before": 0,
    }


def _bounds() -> dict[str, Any]:
    fresh = "The holdout's tasks are independent draws and this is the first look at them."
    whole = "The whole tuning is differentially private; tasks are independent draws."
    reuse = "Holds for adaptively chosen questions; needs a larger holdout than this one."
    return {
        "level": 0.95,
        "bounds": [
            {"name": "Clopper–Pearson", "value": 0.1959, "applies": True, "assumption": fresh},
            {"name": "CDP", "value": 0.2817, "applies": True, "assumption": whole},
            {"name": "Thresholdout", "value": 1.0, "applies": False, "assumption": reuse},
        ],
        "least": "Clopper–Pearson",
    }


def _spend(groups: list[str]) -> dict[str, Any]:
    time = "2026-03-02T10:{:02d}:42.133804+00:00"
    cells = [
        {
            "entry": code + 1,
            "time": time.format(15),
            "what": "lattice Laplace counts of a group",
            "cell": f"group: {group}",
            "epsilon": 1.0,
            "delta": 0.0,
            "arithmetic": "exact",
        }
        for code, group in enumerate(groups)
    ]
    rest = [
        ("private training and selection", 1.5),
        ("training score", 0.1),
        ("holdout, 5 disagreements", 0.5),
    ]
    rows = [
        {
            "entry": len(cells) + 1 + code,
            "time": time.format(17 + code),
            "what": what,
            "cell": None,
            "epsilon": epsilon,
            "delta": 0.0,
            "arithmetic": "double",
        }
        for code, (what, epsilon) in enumerate(rest)
    ]
    return {
        "dataset": "forum-posts-spring",
        "unit": "row",
        "budget": {"epsilon": 4.0, "delta": 0.0},
        "spent": {"epsilon": 3.1, "delta": 0.0},
        "left": {"epsilon": 0.9, "delta": 0.0},
        "entries": cells + rows,
    }


def _workers(names: list[str], flagged: int) -> list[dict[str, Any]]:
    rng = np.random.default_rng(4)
    bad = np.arange(len(names)) < flagged
    n_labels = rng.integers(60, 260, size=len(names))
    agreement = np.clip(
        np.where(bad, rng.normal(0.46, 0.09, len(names)), rng.normal(0.84, 0.05, len(names))), 0, 1
    )
    penalty = np.where(bad, rng.beta(9, 3, len(names)), rng.beta(2, 9, len(names)))
    penalty = np.concatenate([np.sort(penalty[bad])[::-1], np.sort(penalty[~bad])[::-1]])
    gold_n = rng.integers(0, 14, size=len(names))
    rows = []
    for code, name in enumerate(names):
        n = int(gold_n[code])
        correct = round(n * float(agreement[code]))
        rows.append(
            {
                "rank": code + 1,
                "worker": name,
                "n_labels": int(n_labels[code]),
                "n_conflict": int(n_labels[code] * 0.4),
                "agreement": float(agreement[code]),
                "soft_penalty": float(penalty[code]),
                "hard_least": max(0, int(penalty[code] * 14) - 1),
                "hard_penalty": int(penalty[code] * 14),
                "balanced_penalty": float(penalty[code] * 13.7),
                "constant": False,
                "median_seconds": None,
                "hasty": False,
                "reputation": float(1 - penalty[code]),
                "gold_n": n,
                "gold_correct": correct,
                "gold_low": _wilson(correct, n)[0] if n else None,
                "gold_high": _wilson(correct, n)[1] if n else None,
                "flagged": bool(bad[code]),
                "reason": _reason(code, bad[code], penalty[code], agreement[code]),
            }
        )
    return rows


def _reason(code: int, removed: bool, penalty: float, agreement: float) -> str:
    verdict = f"removed in place {code + 1}" if removed else "kept"
    return f"{verdict}: soft penalty {penalty:.3g}, agrees with the consensus on {agreement:.0%}"


def _wilson(k: int, n: int, z: float = 1.959964) -> tuple[float, float]:
    middle, half = (
        k / n + z * z / (2 * n),
        z * (k / n * (1 - k / n) / n + (z / (2 * n)) ** 2) ** 0.5,
    )
    return max(0.0, (middle - half) / (1 + z * z / n)), min(1.0, (middle + half) / (1 + z * z / n))


def _next_labels(classes: tuple[str, ...]) -> list[dict[str, Any]]:
    return [
        {
            "rank": rank + 1,
            "task": f"post-{(rank * 733) % 2880:05d}",
            "confidence": 0.36 + rank / 100,
            "entropy": 1.0981 * 0.985**rank,
            "n_labels": 3 + rank % 5,
            "counts": [1, 2 + rank % 5, *[0] * (len(classes) - 2)],
            "label": classes[rank % 2],
            "margin": rank / 40,
            "tied": rank == 0,
            "overruled": rank > 0 and rank % 2 == 0,
        }
        for rank in range(40)
    ]


def _runs(n_tasks: int, workers: int) -> list[dict[str, Any]]:
    return [
        {
            "run": f"2026030{day}T101500Z-forum-posts-spring",
            "started": f"2026-03-0{day}T10:15:00+00:00",
            "n_labels": day * n_tasks,
            "n_tasks": n_tasks,
            "n_workers": workers,
            "n_groups": 12,
            "n_removed": 8 * day,
            "alpha": None if day == 1 else 0.7 + day / 100,
            "alpha_kept": 0.78 + day / 100,
            "epsilon": 1.0 * day,
            "delta": 0.0,
            "gate": None if day == 1 else _answer(day),
            "drift": None if day == 1 else {"site-01": 0.02, "site-02": day / 50},
        }
        for day in (1, 2, 3)
    ]


def _answer(day: int) -> dict[str, Any]:
    """The holdout disagrees on the third day."""
    agrees = day < 3
    return {
        "question": f"accuracy of the model of entry {9 + day}",
        "status": "agrees" if agrees else "overfit",
        "value": 0.842 if agrees else 0.791,
        "budget": 3,
        "budget_left": 3 if agrees else 2,
    }


def _label_plan(names: list[str]) -> list[dict[str, Any]]:
    return [
        {"worker": names[-1 - rank // 10], "task": f"post-{rank:05d}", "gain": 0.9 - rank / 100}
        for rank in range(60)
    ]


def _manifest(classes: tuple[str, ...]) -> dict[str, Any]:
    return {
        "python": "3.11.7",
        "versions": {"crowdassay": "0.1.0", "numpy": "2.4.6"},
        "seed": 7,
        "settings": {
            "name": "forum-posts-spring",
            "classes": list(classes),
            "seed": 7,
            "runs": "/srv/campaigns/runs",
            "input": {"labels": "/srv/campaigns/labels.csv.gz", "gold": None, "tasks": []},
            "filter": {"penalty": "soft", "fraction": 0.2},
            "consensus": {"use_gold": False},
            "model": None,
        },
        "stages": {stage.name: {"line": "done", "seconds": 1.5} for stage in STAGES},
    }


def _shares(
    groups: list[str], classes: tuple[str, ...], share: str, *, seed: int
) -> list[dict[str, Any]]:
    rng = np.random.default_rng(seed)
    centre = np.geomspace(8, 1, len(classes))
    half = 0.021 if share == "proportion" else 0.09
    rows = []
    for entry, group in enumerate(groups):
        ratio = rng.dirichlet(centre).round(4)
        for code, name in enumerate(classes):
            value = float(ratio[code])
            row = {"group": group, "class": name, "n": 240, share: value}
            row |= {"low": max(0.0, value - half), "high": min(1.0, value + half)}
            if share == "proportion":
                row |= {"noisy_count": round(value * 240), "entry": entry + 1}
            if share == "share":
                row |= {"n_gold": 210, "covariance": [CANARY] * len(classes)}
            rows.append(row)
    return rows
