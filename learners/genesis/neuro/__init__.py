"""Classes of neurons: compartments, channels, synapses and axons, with the parameters of published models.

They have no use for a crowd. They show that the core is general, and that it is right: their firing
rates are known.
"""

from learners.genesis.neuro.compartments import ACTIVE, COMPARTMENT, PASSIVE
from learners.genesis.neuro.ionic_channels import CHANNEL, CHANNEL_A, K_CS, NA, NA_CS, K
from learners.genesis.neuro.synapse_axon import AXON, SPIKEGEN, SYNAPSE

__all__ = [
    "ACTIVE", "AXON", "CHANNEL", "CHANNEL_A", "COMPARTMENT", "K_CS", "NA", "NA_CS", "PASSIVE",
    "SPIKEGEN", "SYNAPSE", "K",
]  # fmt: skip
