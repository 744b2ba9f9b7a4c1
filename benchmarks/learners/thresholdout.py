"""A plain holdout against Thresholdout, reused ten thousand times: Figures 2 and 3.

``python -m benchmarks.learners.thresholdout [repetitions]``
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Float, Int

from benchmarks.learners.stability import seeded
from benchmarks.publish import parser_of, publish
from learners.holdout.thresholdout import Thresholdout
from privacy import History, Json, Noise, Query, Question, Unit

N = D = 10_000
K = (20, 45, 100, 200, 300, 500)
THRESHOLD, SIGMA = 4 / math.sqrt(N), 1 / math.sqrt(N)
SIGNAL, SIGNAL_ATTRIBUTES = 6 / math.sqrt(N), 20
CLIP = 3.0
GATE = Thresholdout(threshold=0.05, sigma=0.002, budget=40)
HOLDOUT = Query("experiment", "holdout", np.zeros(N), Unit.ROW, n=N, l1=math.inf)
HISTORY = History(1, 1, GATE.event(HOLDOUT).cost(), ())

Answers = Float[np.ndarray, " attributes"]
Ask = Callable[[float, Float[np.ndarray, " records"]], float]


@dataclass(frozen=True)
class Sample:
    """Attributes as rows, one column per record, and labels of +1 and -1."""

    x: Float[np.ndarray, "attributes records"]
    y: Float[np.ndarray, " records"]

    def means(self) -> Answers:
        """Mean over records of label times attribute."""
        return np.asarray(self.x @ self.y / N)

    def right(
        self, chosen: Int[np.ndarray, " chosen"], sign: Float[np.ndarray, " chosen"]
    ) -> Float[np.ndarray, " records"]:
        """Whether the signed vote gets each record right; a tie is wrong."""
        return np.asarray(np.sign(sign @ self.x[chosen]) == self.y, dtype=np.float64)


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("repetitions", nargs="?", type=int, default=30)
    repetitions = parser.parse_args().repetitions
    found: dict[tuple[str, str, int], list[tuple[float, float, float]]] = {}
    refuted: dict[tuple[str, str], list[int]] = {}
    for seed in range(repetitions):
        rng = np.random.default_rng(seed)
        samples = sample(rng), sample(rng), sample(rng)
        for signal in ("no signal", "signal"):
            if signal == "signal":
                for one in samples:
                    one.x[:SIGNAL_ATTRIBUTES] += (SIGNAL * one.y).astype(np.float32)
            for way, analyse in WAYS.items():
                scores, overfit = analyse(*samples, rng, seeded(seed))
                refuted.setdefault((signal, way), []).append(overfit)
                for k, score in zip(K, scores, strict=True):
                    found.setdefault((signal, way, k), []).append(score)
    publish(
        "thresholdout",
        "Classifiers chosen on a reused holdout: what is reported, and what is true",
        ["attributes' labels", "holdout", "chosen", "training", "reported", "fresh", "overfit answers"],
        [
            (signal, way, str(k), *(f"{m:.3f} ± {s:.3f}" for m, s in moments(scores)),
             f"{np.mean(refuted[signal, way]):.0f} ± {np.std(refuted[signal, way]):.0f}")
            for (signal, way, k), scores in found.items()
        ],
        note=(
            f"Dwork et al. (2015): {N:,} records for training, holdout and a fresh sample, {D:,} normal "
            "attributes, random labels; attributes are kept whose means of label times attribute agree in "
            "sign in training and holdout and exceed 1 / sqrt(n), and the k largest in training vote. "
            "Signal: the first 20 attributes shifted by 6 / sqrt(n) times the label. "
            f"{repetitions} repetitions, mean and standard deviation. The published experiment runs another "
            "procedure than the published algorithm (Gaussian noise, no budget, unbounded queries, "
            f"threshold {THRESHOLD:g}, sigma {SIGMA:g}) and is not private. The gate is the algorithm: "
            "queries clipped to [-3, 3] and brought to [0, 1], "
            f"threshold {GATE.threshold:g}, sigma {GATE.sigma:g}, budget {GATE.budget}, epsilon "
            f"{2 * GATE.budget / (GATE.sigma * N):g}; reported is its answer on the vote's accuracy, "
            "overfit answers are those on single attributes."
        ),
    )  # fmt: skip


def sample(rng: np.random.Generator) -> Sample:
    x = rng.standard_normal((D, N), dtype=np.float32)
    return Sample(x, rng.choice(np.array([-1.0, 1.0], dtype=np.float32), N))


def plain(
    train: Sample, holdout: Sample, fresh: Sample, rng: np.random.Generator, noise: Noise
) -> tuple[list[tuple[float, float, float]], int]:
    answers = holdout.means()
    return votes(train, holdout, fresh, answers, lambda _, right: float(right.mean())), 0


def published(
    train: Sample, holdout: Sample, fresh: Sample, rng: np.random.Generator, noise: Noise
) -> tuple[list[tuple[float, float, float]], int]:
    """The experiment's own procedure: a fresh Gaussian threshold for each query, no budget."""
    on_train, on_holdout = train.means(), holdout.means()
    agrees = np.abs(on_train - on_holdout) < rng.normal(THRESHOLD, SIGMA, D)
    answers = np.where(agrees, on_train, on_holdout + rng.normal(0, SIGMA, D))

    def ask(trained: float, right: Float[np.ndarray, " records"]) -> float:
        if abs(trained - right.mean()) < rng.normal(THRESHOLD, SIGMA):
            return trained
        return float(right.mean() + rng.normal(0, SIGMA))

    return votes(train, holdout, fresh, answers, ask), int((~agrees).sum())


def gated(
    train: Sample, holdout: Sample, fresh: Sample, rng: np.random.Generator, noise: Noise
) -> tuple[list[tuple[float, float, float]], int]:
    """The algorithm, as the ledger runs it; each vote is asked of the gate as the attributes left it."""
    state: Json = GATE.start(HOLDOUT, noise)
    answers = np.empty(D)
    for j in range(D):
        on_train, on_holdout = (
            0.5 + one.y * one.x[j].clip(-CLIP, CLIP) / (2 * CLIP) for one in (train, holdout)
        )
        asked = Question("attribute", {"train": float(on_train.mean()), "holdout": on_holdout})
        state, answer = GATE.answer(state, asked, noise, HISTORY)
        answers[j] = answer["value"]
    answers = 2 * CLIP * (answers - 0.5)

    def ask(trained: float, right: Float[np.ndarray, " records"]) -> float:
        asked = Question("vote", {"train": trained, "holdout": right})
        return float(GATE.answer(state, asked, noise, HISTORY)[1]["value"])

    return votes(train, holdout, fresh, answers, ask), GATE.budget - state["budget_left"]


WAYS = {"plain": plain, "published experiment": published, "gate": gated}


def votes(
    train: Sample, holdout: Sample, fresh: Sample, answers: Answers, ask: Ask
) -> list[tuple[float, float, float]]:
    """For each k: the vote's share of right records in training, as reported, and in truth."""
    on_train, least = train.means(), 1 / math.sqrt(N)
    kept = (on_train * answers > 0) & (np.minimum(np.abs(on_train), np.abs(answers)) > least)
    order = np.argsort(-np.where(kept, np.abs(on_train), 0.0))[: kept.sum()]
    scores = []
    for k in K:
        chosen = order[:k]
        sign = np.sign(on_train[chosen]).astype(np.float32)
        trained = float(train.right(chosen, sign).mean())
        reported = ask(trained, holdout.right(chosen, sign))
        scores.append((trained, reported, float(fresh.right(chosen, sign).mean())))
    return scores


def moments(scores: list[tuple[float, float, float]]) -> list[tuple[float, float]]:
    return [(float(np.mean(one)), float(np.std(one))) for one in zip(*scores, strict=True)]


if __name__ == "__main__":
    main()
