"""The choices of the command line are those of what they choose from."""

from __future__ import annotations

from typing import get_args

from flows.choices import Duplicates, Mechanism, Penalty
from flows.settings import FilterSettings, InputSettings
from flows.spending import audit


def test_the_command_offers_every_mechanism_that_can_be_audited() -> None:
    assert set(get_args(Mechanism)) == set(audit.MECHANISMS)


def test_settings_and_commands_have_the_same_choices() -> None:
    assert InputSettings.model_fields["duplicates"].annotation is Duplicates
    assert FilterSettings.model_fields["penalty"].annotation is Penalty
