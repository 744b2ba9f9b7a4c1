"""The settings of a run: one TOML file, one frozen model.

    settings = load_settings(Path("settings.toml"))

Every path in the file is relative to the file itself, so that a campaign's folder can be moved whole.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError, model_validator

from flows.aggregators import AGGREGATORS
from flows.settings.environment import overridden, set_by
from flows.settings.sections import (
    ConsensusSettings,
    EngineSettings,
    FilterSettings,
    GateSettings,
    GroupSettings,
    InputSettings,
    ModelSettings,
    PrivacySettings,
    ReportSettings,
    Section,
    SettingsError,
    fault_sentence,
)

__all__ = ["Settings", "filter_settings", "load_settings"]

NAME = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"  # of a campaign: it names run folders


class Settings(Section):
    """The settings of one run. A section without a default, left out, switches its stages off."""

    name: Annotated[str, Field(pattern=NAME)]
    """The data set's name, under which the ledger keeps its budget for ever."""
    classes: tuple[str, ...] | None = None
    """The classes that workers could choose, chosen or not; public with every release."""
    seed: Annotated[int, Field(ge=0)] = 0
    """Seed of every draw but privacy noise: the filter, the deal to training, validation and holdout."""
    runs: Path = Path("runs")
    """Holds one folder per run; internal, for the data's owner alone."""
    state: Path = Path("state")
    """The ledger and its key: never delete it, never keep two."""
    input: InputSettings
    groups: GroupSettings = GroupSettings()
    filter: FilterSettings = FilterSettings()
    consensus: ConsensusSettings = ConsensusSettings()
    privacy: PrivacySettings | None = None
    model: ModelSettings | None = None
    gate: GateSettings = GateSettings()
    report: ReportSettings = ReportSettings()
    engine: EngineSettings | None = None

    @model_validator(mode="after")
    def _parts_fit(self) -> Settings:
        if self.classes is not None and len(set(self.classes)) != len(self.classes):
            raise ValueError("classes must differ from one another")
        if self.classes is not None and len(self.classes) < 2:
            raise ValueError(f"classes must name two or more, got {len(self.classes)}")
        if any(name != name.strip() or not name for name in self.classes or ()):
            raise ValueError("classes must have no blanks around them: tables are read without")
        if self.model is not None and self.privacy is None:
            raise ValueError("[model] needs a [privacy] section with the data set's budget")
        if self.model is not None and not self.input.tasks:
            raise ValueError("[model] needs input.tasks, the tables that hold the features")
        if self.groups.pattern is not None and not self.input.tasks:
            raise ValueError("groups.pattern needs input.tasks, the tables whose names it reads")
        if self.consensus.use_gold and self.input.gold is None:
            raise ValueError("consensus.use_gold needs input.gold")
        if self.engine is not None:
            self._check_can_be_sharded()
        return self

    def _check_can_be_sharded(self) -> None:
        """Raise ValueError for settings that need the whole table of labels at once."""
        stop, aggregator = (self.filter.fraction, self.filter.n_workers), self.consensus.aggregator
        if self.filter.penalty != "soft" or stop == (None, None):
            raise ValueError(
                '[engine] needs filter.penalty = "soft" with filter.fraction or filter.n_workers: '
                "other filters need all labels in memory"
            )
        if not AGGREGATORS[aggregator].sharded:
            sharded = ", ".join(row.name for row in AGGREGATORS.values() if row.sharded)
            raise ValueError(
                f"[engine] needs consensus.aggregator to be {sharded}, not {aggregator}"
            )
        if self.input.seconds is not None:
            raise ValueError(
                "[engine] must be without input.seconds: medians need all labels in memory"
            )

    def under(self, folder: Path) -> Settings:
        """Return the same settings with every path made absolute under `folder`."""

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
    """Return the settings in a file, with its relative paths made absolute.

    Environment variables CROWDASSAY__SECTION__KEY replace the file's values.

    Raises
    ------
    SettingsError
        If the file is missing, is not TOML, or has an unknown key (the message names the nearest known
        one) or an invalid value; likewise for an environment variable.
    """
    try:
        raw = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(f"settings file {path} cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SettingsError(f"settings file {path} must be TOML: {error}") from None
    values, given = overridden(raw, Settings, os.environ)
    try:
        settings = Settings.model_validate(values)
    except ValidationError as error:
        who = set_by(error.errors()[0]["loc"], given)
        raise SettingsError(f"{path}: {fault_sentence(error, Settings)}{who}") from None
    return settings.under(path.resolve().parent)


def filter_settings(**given: Any) -> FilterSettings:
    """Return the filter's settings from a command's options; raise SettingsError as for a settings file."""
    try:
        return FilterSettings.model_validate(given)
    except ValidationError as error:
        raise SettingsError(fault_sentence(error, FilterSettings)) from None
