"""Settings of a run: one TOML file, checked whole before anything else happens.

    from flows.settings import Settings, load_settings
    settings = load_settings(Path("settings.toml"))

`Settings` holds a section per stage; its fields are the one list of sections and keys, from which the
environment variables, `crowdassay init` and the reference are derived. Settings that cannot be used
raise `SettingsError`.
"""

from flows.settings.addresses import LAKES, SCHEMES, address_of, check_folder, is_remote
from flows.settings.environment import variables_of
from flows.settings.feature_use import why_features_stay_out
from flows.settings.input_sections import (
    GroupSettings,
    InputSettings,
    check_separator,
    named_columns,
)
from flows.settings.publication_keys import (
    GRANULARITIES,
    Granularity,
    check_key,
    granularity_of,
    key_at,
)
from flows.settings.release_sections import GateSettings, ModelSettings, PrivacySettings
from flows.settings.section import EngineError, Section, SettingsError, key_sentences, section_of
from flows.settings.sections import (
    NAME,
    ConsensusSettings,
    EngineSettings,
    FilterSettings,
    ReportSettings,
    Settings,
    TopicsSettings,
)
from flows.settings.settings import (
    fault_sentence,
    filter_settings,
    input_settings,
    load_settings,
    run_settings,
)

__all__ = [
    "GRANULARITIES", "LAKES", "NAME", "SCHEMES", "ConsensusSettings", "EngineError", "EngineSettings",
    "FilterSettings", "GateSettings", "Granularity", "GroupSettings", "InputSettings", "ModelSettings",
    "PrivacySettings", "ReportSettings", "Section", "Settings", "SettingsError", "TopicsSettings",
    "address_of", "check_folder", "check_key", "check_separator", "fault_sentence", "filter_settings",
    "granularity_of", "input_settings", "is_remote", "key_at", "key_sentences", "load_settings",
    "named_columns", "run_settings", "section_of", "variables_of", "why_features_stay_out",
]  # fmt: skip
