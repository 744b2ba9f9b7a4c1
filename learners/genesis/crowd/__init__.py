"""Classes of a crowd: tasks, the desk that assigns them, workers and personas, recorder and aggregator."""

from learners.genesis.crowd.assignment import DESK, TASK
from learners.genesis.crowd.decisions import Decisions, Law, decide_many, diffusion_law
from learners.genesis.crowd.recording import AGGREGATOR, RECORDER, CrowdRecord, LiveAgreement
from learners.genesis.crowd.worker_classes import PERSONA, WORKER

__all__ = [
    "AGGREGATOR", "DESK", "PERSONA", "RECORDER", "TASK", "WORKER", "CrowdRecord", "Decisions",
    "Law", "LiveAgreement", "decide_many", "diffusion_law",
]  # fmt: skip
