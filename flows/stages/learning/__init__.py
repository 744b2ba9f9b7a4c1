"""Stages that learn: class ratios, the model, voices, potentials, concepts, images, skill, kinds of tasks."""

from typing import TYPE_CHECKING

from flows.faces import late_face

if TYPE_CHECKING:
    from flows.stages.learning.archetypes import find_structure
    from flows.stages.learning.class_ratios import Published, published_in, why_no_features
    from flows.stages.learning.concepts import map_concepts
    from flows.stages.learning.decision_images import find_decision_images, find_error_features
    from flows.stages.learning.potentials import potential_table
    from flows.stages.learning.psychometrics import BOUNDARY, find_psychometrics
    from flows.stages.learning.task_voices import (
        beside_people,
        hear_models,
        heard_beside,
        join_voices,
        models_beside,
        of_models_alone,
        panel_sentence,
        read_panel,
        voices_sentence,
    )

__all__ = [
    "BOUNDARY", "Published", "beside_people", "find_decision_images", "find_error_features",
    "find_psychometrics", "find_structure", "hear_models", "heard_beside", "join_voices",
    "map_concepts", "models_beside", "of_models_alone", "panel_sentence", "potential_table",
    "published_in", "read_panel", "voices_sentence", "why_no_features",
]  # fmt: skip

__getattr__, __dir__ = late_face(__name__)
