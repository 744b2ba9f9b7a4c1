"""The sections of what is paid for and released: `[privacy]`, `[model]` and `[gate]`.

>>> PrivacySettings(epsilon=4.0).proportions_epsilon
1.0
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import AfterValidator, Field, model_validator

from flows.choices import TrainingMethod
from flows.settings.publication_keys import check_key
from flows.settings.section import Level, Positive, Section, Share
from privacy import Unit
from privacy.accounting import exact, six_digits_down

__all__ = ["GateSettings", "ModelSettings", "PrivacySettings"]


class PrivacySettings(Section):
    """The data set's whole privacy budget, and the part of it that published proportions cost.

    With `planned_releases` above 1, the proportions' price pays once for that many releases of class
    counts. Later runs, on changed data, then draw their counts from the paid plan. As long as no task
    changes its group, a release counts for the groups that changed or that tasks joined. After a task
    has moved to another group, a release counts for all groups and adds to all earlier releases. With a
    ledger on a server (CROWDASSAY_LEDGER) this also holds after tasks have joined.

    With a `publication` key everything that a run publishes is paid and drawn once under that key,
    whatever becomes of the data. A pattern, "%Y-%m" say, makes a key of the date (UTC) on which the run
    began. Without a key a publication is drawn anew if the data changed, and only then: whoever sees two
    publications that are equal learns, without noise and at no price, that nothing changed.

    The unit "subject" protects a person with several tasks: at most `max_tasks_per_subject` of them
    count, chosen by an order that `seed` fixes. Where no subject has tasks in two groups, groups share one
    price; otherwise all groups are one release. Any change of tasks begins a new partition.

    With `planned_runs` above 1 the whole budget is split, by public numbers, among all that a campaign
    publishes in that many runs. Tasks that joined since the run before are a cohort. Each cohort is asked
    once, for everything, and stays as it was asked: so a new cohort costs nothing on top of the first.
    """

    unit: Unit = Unit.CONSENSUS_LABEL
    """Whom every price protects: consensus label, row, task, answer or subject."""
    max_tasks_per_subject: Annotated[int, Field(ge=1, le=10_000)] | None = None
    """For the unit "subject": tasks of one that count; more of them need more noise."""
    max_labels: Annotated[int, Field(ge=1)] | None = None
    """With input.several: most classes of a task that count, chosen without a look at the answers."""
    epsilon: Positive
    """The data set's whole budget, for ever."""
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Delta of the whole budget: 0 is pure, else below 1 / (labelled tasks)."""
    proportions_epsilon: Positive = 1.0
    """Price of the class counts; smaller is more private and less accurate."""
    proportions_delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Delta of the class counts, at most delta."""
    correction_epsilon: Positive | None = None
    """Price of correcting the shares by gold, on top of the class counts'; without it they are not."""
    planned_releases: Annotated[int, Field(ge=1, le=10_000)] = 1
    """Number of releases of the counts, of changed data, that the price pays for."""
    publication: Annotated[str, AfterValidator(check_key)] | None = None
    """Public key, "2026-11" or "%Y-%m"; without one, equal publications show that no data changed."""
    planned_runs: Annotated[int, Field(ge=1, le=1_000)] = 1
    """Number of runs, each with tasks that joined, that the whole budget pays for, all stages together."""
    planned_tasks: Annotated[int, Field(ge=1)] | None = None
    """Labelled tasks expected after the last planned run; the preview predicts errors by it."""
    unpaid: Literal["skip", "refuse"] | None = None
    """Stages the budget does not cover: skip them, or refuse the run; default: skip with planned_runs."""
    level: Level = 0.9
    """Confidence of each published interval."""
    min_group_size: Annotated[int, Field(ge=1)] = 1
    """Smaller groups are not published; their size is public."""

    @model_validator(mode="after")
    def _numbers_fit(self) -> PrivacySettings:
        if self.proportions_delta > self.delta:
            raise ValueError(
                f"proportions_delta must be at most delta, got {self.proportions_delta:g} of "
                f"{self.delta:g}"
            )
        self._check_planned_runs()
        if (self.unit is Unit.SUBJECT) != (self.max_tasks_per_subject is not None):
            raise ValueError(
                'max_tasks_per_subject must be given with unit = "subject", and only then'
            )
        return self

    def _check_planned_runs(self) -> None:
        """Raise ValueError for keys that do not go with planned runs, or that need them."""
        if self.planned_runs == 1:
            if self.planned_tasks is not None:
                raise ValueError("planned_tasks is for planned_runs above 1")
            if self.unpaid == "skip" and self.publication is None:
                raise ValueError(
                    'unpaid = "skip" needs a publication key or planned_runs: otherwise what is skipped '
                    "would show whether data changed"
                )
            return
        if self.planned_releases > 1:
            raise ValueError(
                "give planned_runs, which pays for the counts too, or planned_releases"
            )
        if self.proportions_delta > 0:
            raise ValueError(
                "proportions_delta must be 0 with planned_runs: its counts need no delta"
            )
        if self.unit is Unit.SUBJECT:
            raise ValueError(
                'planned_runs is for other units than "subject", whose tasks may join in several runs'
            )
        if self.correction_epsilon is not None and self.correction_epsilon >= self.epsilon:
            raise ValueError("correction_epsilon must be below epsilon, which planned_runs splits")

    @property
    def skips_unpaid(self) -> bool:
        """Whether a stage that the budget does not cover is skipped, and the run goes on."""
        return self.unpaid == "skip" or (self.unpaid is None and self.planned_runs > 1)


class ModelSettings(Section):
    """Private training: its prices, and the choices that are fixed before the data are read."""

    method: TrainingMethod = "auto"
    """How to train: auto, objective_perturbation or noisy_descent."""
    epsilon_train: Positive = 1.0
    """Price of the coefficients."""
    epsilon_select: Positive = 0.5
    """Price of choosing among regularization; the coefficients' too where one strength is listed."""
    delta_train: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Delta of the coefficients, at most privacy.delta; above 0 it allows noisy descent."""
    epsilon_score: Positive = 0.1
    """Price of the released score."""
    components: Annotated[int, Field(ge=1)] | None = None
    """Train on so many principal components of the features, drawn privately at a price of their own."""
    epsilon_components: Positive = 0.5
    """Price of the components."""
    delta_components: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Delta of the components; above 0 they err far less. With delta_train at most privacy.delta."""
    norm_bound: Positive
    """Length to which longer feature vectors are shortened; a larger one needs more noise."""
    regularization: tuple[Positive, ...] = (0.001, 0.003, 0.01)
    """Candidate strengths, few and fixed in advance."""
    validation: Share = 0.2
    """Share of the tasks outside the holdout on which candidates are judged."""

    @model_validator(mode="after")
    def _candidates_differ(self) -> ModelSettings:
        if not len(set(self.regularization)) == len(self.regularization) > 0:
            raise ValueError("regularization must list one number or more, each once")
        unused = {"epsilon_components", "delta_components"} & self.model_fields_set
        if self.components is None and unused:
            raise ValueError(f"{min(unused)} needs components, how many there are to be")
        if self.method == "noisy_descent" and "regularization" in self.model_fields_set:
            raise ValueError(
                'regularization must be left out with method = "noisy_descent", which has none to choose'
            )
        return self

    @property
    def delta_keys(self) -> str:
        """The keys that hold its delta, as a message names them."""
        return "delta_train" if self.components is None else "delta_train + delta_components"

    @property
    def epsilons(self) -> dict[str, float]:
        """What the price of the model is the sum of, by what it buys."""
        parts = {"train": self.epsilon_train, "select": self.epsilon_select}
        if len(self.regularization) == 1:  # nothing is chosen: its price trains
            parts = {
                "train": six_digits_down(exact(self.epsilon_train) + exact(self.epsilon_select))
            }
        parts["score"] = self.epsilon_score
        return parts if self.components is None else parts | {"components": self.epsilon_components}


class GateSettings(Section):
    """The reusable holdout: its share of the tasks, and Thresholdout's three numbers."""

    holdout: Share = 0.2
    """Share of the labelled tasks, never trained on."""
    threshold: Share | Literal["auto"] = 0.1
    """Largest gap between training and holdout mean that passes; auto: from the data's size."""
    sigma: Positive = 0.004
    """Scale of the noise on answers, well below the threshold; with auto, from the training's price."""
    budget: Annotated[int, Field(ge=1)] = 3
    """Number of refutations after which the gate closes."""
    confidence: Level = 0.95
    """Confidence of the gate's error bound."""

    @model_validator(mode="after")
    def _noise_is_below_the_threshold(self) -> GateSettings:
        if self.threshold == "auto":
            if "sigma" in self.model_fields_set:
                raise ValueError(
                    'sigma must be left out with threshold = "auto", which settles it too'
                )
            return self
        if not self.sigma < self.threshold:
            raise ValueError(
                f"sigma must be below threshold, or noise alone refutes, got {self.sigma:g} and "
                f"{self.threshold:g}"
            )
        return self
