"""What a user may turn: one TOML file, one frozen model.

Every path in the file is relative to the file itself, so that a campaign's folder can be moved whole.
"""

from __future__ import annotations

import difflib
import os
import re
import tomllib
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from privacy import Unit

__all__ = [
    "ConsensusSettings",
    "FilterSettings",
    "GateSettings",
    "GroupSettings",
    "InputSettings",
    "ModelSettings",
    "PrivacySettings",
    "Settings",
    "SettingsError",
    "load_settings",
]

Aggregator = Literal["dawid_skene", "hierarchical_dawid_skene", "majority_vote", "one_coin"]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Share = Annotated[float, Field(gt=0, lt=1)]


class SettingsError(ValueError):
    """The settings file cannot be used; the message says which key, what came and what to do."""


class Section(BaseModel):
    """One table of the settings file: frozen, and an unknown key is a mistake."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class GroupSettings(Section):
    """Where a task's group comes from: a column of the task table, or what a pattern captures of its name."""

    column: str = "group"
    pattern: str | None = None

    @model_validator(mode="after")
    def _pattern_captures_the_group(self) -> GroupSettings:
        try:
            captures = self.pattern is None or re.compile(self.pattern).groups >= 1
        except re.error as error:
            raise ValueError(f"pattern must be a regular expression: {error}") from None
        if not captures:
            raise ValueError(f"pattern must have a (capturing group), got {self.pattern!r}")
        return self


class InputSettings(Section):
    """The tables to read: CSV (plain or gzipped) or Parquet, told apart by their names."""

    labels: Path
    tasks: tuple[Path, ...] = ()
    gold: Path | None = None
    duplicates: Literal["error", "first", "last"] = "error"
    features_private: bool = False
    standardize: bool = False

    @model_validator(mode="after")
    def _scaling_reads_features_in_the_clear(self) -> InputSettings:
        if self.standardize and self.features_private:
            raise ValueError(
                "standardize reads all features in the clear; not with features_private"
            )
        return self


class FilterSettings(Section):
    """How many workers the iterative filter removes, by which penalty."""

    penalty: Literal["soft", "hard"] = "soft"
    n_workers: Annotated[int, Field(ge=0)] | None = None
    fraction: Annotated[float, Field(ge=0, lt=1)] | None = None
    min_labels_per_task: Annotated[int, Field(ge=1)] = 1

    @model_validator(mode="after")
    def _one_stop_rule(self) -> FilterSettings:
        if self.n_workers is not None and self.fraction is not None:
            raise ValueError("give n_workers or fraction, not both")
        return self


class ConsensusSettings(Section):
    """The aggregator that turns kept labels into one label per task."""

    aggregator: Aggregator = "dawid_skene"
    max_iter: Annotated[int, Field(ge=1)] = 100
    tol: Annotated[float, Field(ge=0)] = 1e-7
    smoothing: Positive = 0.01


class PrivacySettings(Section):
    """The data set's whole privacy budget, and what the published proportions take of it."""

    unit: Unit = Unit.CONSENSUS_LABEL
    epsilon: Positive
    delta: Annotated[float, Field(ge=0, lt=1)] = 0.0
    proportions_epsilon: Positive = 1.0
    level: Share = 0.9


class ModelSettings(Section):
    """Private training: what it may spend, and what is fixed before the data are seen."""

    epsilon_train: Positive = 1.0
    epsilon_select: Positive = 0.5
    epsilon_score: Positive = 0.1
    norm_bound: Positive
    regularization: tuple[Positive, ...] = (0.001, 0.003, 0.01)
    validation: Share = 0.2

    @model_validator(mode="after")
    def _candidates_differ(self) -> ModelSettings:
        if not len(set(self.regularization)) == len(self.regularization) > 0:
            raise ValueError("regularization must list one number or more, each once")
        return self


class GateSettings(Section):
    """The reusable holdout: its share of the tasks, and Thresholdout's three numbers."""

    holdout: Share = 0.2
    threshold: Share = 0.06
    sigma: Positive = 0.004
    budget: Annotated[int, Field(ge=1)] = 3
    confidence: Share = 0.95


class Settings(Section):
    """One run, whole. Sections that are absent switch their stages off."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    classes: tuple[str, ...] | None = None
    seed: Annotated[int, Field(ge=0)] = 0
    runs: Path = Path("runs")
    state: Path = Path("state")
    input: InputSettings
    groups: GroupSettings = GroupSettings()
    filter: FilterSettings = FilterSettings()
    consensus: ConsensusSettings = ConsensusSettings()
    privacy: PrivacySettings | None = None
    model: ModelSettings | None = None
    gate: GateSettings = GateSettings()

    @model_validator(mode="after")
    def _parts_fit(self) -> Settings:
        if self.classes is not None and len(set(self.classes)) != len(self.classes):
            raise ValueError("classes must differ from one another")
        if self.classes is not None and len(self.classes) < 2:
            raise ValueError(f"classes must name two or more, got {len(self.classes)}")
        if self.model is not None and self.privacy is None:
            raise ValueError("[model] needs a [privacy] section with the data set's budget")
        return self

    def under(self, folder: Path) -> Settings:
        """The same settings with every path made absolute under `folder`."""

        def found(path: Path) -> Path:
            return Path(os.path.normpath(folder / path))

        absolute = {
            "labels": found(self.input.labels),
            "tasks": tuple(found(path) for path in self.input.tasks),
            "gold": None if self.input.gold is None else found(self.input.gold),
        }
        return self.model_copy(
            update={
                "runs": found(self.runs),
                "state": found(self.state),
                "input": self.input.model_copy(update=absolute),
            }
        )


def load_settings(path: Path) -> Settings:
    """Read one settings file; its relative paths come back absolute.

    Raises
    ------
    SettingsError
        If the file is missing, is not TOML, has an unknown key (the nearest right one is named) or a
        value that cannot be.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"settings file {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings file {path} must be TOML: {error}") from None
    try:
        settings = Settings.model_validate(raw)
    except ValidationError as error:
        raise SettingsError(f"{path}: {_sentence(error)}") from None
    return settings.under(path.resolve().parent)


def _sentence(error: ValidationError) -> str:
    """The first fault of a settings file, as one sentence."""
    fault = error.errors()[0]
    key = ".".join(str(part) for part in fault["loc"])
    if fault["type"] == "extra_forbidden":
        return f"unknown key {key!r}{_nearest(fault['loc'])}"
    message = str(fault["msg"]).removeprefix("Value error, ")
    if not key:
        return message
    if fault["type"] == "missing":
        return f"{key} must be given"
    came = "" if isinstance(fault["input"], dict) else f", got {fault['input']!r}"
    return f"{key}: {message[0].lower()}{message[1:]}{came}"


def _nearest(location: tuple[Any, ...]) -> str:
    """`; did you mean ...?` where a known key of that section resembles the unknown one."""
    section: Any = Settings
    for part in location[:-1]:
        annotation = section.model_fields[part].annotation
        options = getattr(annotation, "__args__", (annotation,))
        section = next(kind for kind in options if hasattr(kind, "model_fields"))
    close = difflib.get_close_matches(str(location[-1]), section.model_fields, n=1)
    return (
        f"; did you mean {close[0]!r}?"
        if close
        else f"; known are {', '.join(section.model_fields)}"
    )
