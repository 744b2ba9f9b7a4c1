"""Settings proposed from the tables of a campaign: what `crowdassay init` writes.

    from flows.proposal import CampaignTables, write_settings
    facts = write_settings(Path("settings.toml"), CampaignTables(Path("labels.csv")))

The file runs as it is. Its numbers come from public facts alone: rows, tasks, groups and their sizes,
features, classes. Two things do not, and the text says so: the class names, and the bound on the
features' norms.
"""

from flows.proposal.class_names import NOTHING
from flows.proposal.facts import CampaignFacts, CampaignTables, facts_of
from flows.proposal.gate import GateNumbers, gate_for, why_no_model
from flows.proposal.writing import settings_text, toml_value, write_settings

__all__ = [
    "NOTHING", "CampaignFacts", "CampaignTables", "GateNumbers", "facts_of", "gate_for", "settings_text",
    "toml_value", "why_no_model", "write_settings",
]  # fmt: skip
