"""The faces of the room and its sub-rooms: what they export, and when scikit-learn is loaded."""

import ast
import importlib
import subprocess
import sys
from pathlib import Path

import pytest

import learners

ROOM = Path(learners.__file__).parent
SUBROOMS = (
    "bounds",
    "class_ratios",
    "cluster",
    "genesis",
    "holdout",
    "images",
    "private",
    "search",
    "selection",
    "streams",
    "svm",
    "task_features",
    "topics",
)
MEETINGS = {("holdout", "bounds"), ("selection", "private")}
LATE = [
    "BoostedTrees", "CELLS", "ClassRatioEstimator", "ClusterNumber", "ClusteringRisk", "ConceptGraph",
    "ConfigError", "CrossFitted", "DecisionImage", "ErrorImage", "FPLA", "FeatureCover", "FloatingGate",
    "Found", "GoldReading", "GraphLDA", "HyperplaneCover", "ImageComparison", "JudgedLabels",
    "NearDuplicates", "PairwiseRiskClustering", "PotentialSVC", "PotentialSVR", "PredictiveIndex",
    "PrivateHistogram", "PrivateLogisticRegression", "PrivatePCA", "PsychometricFunction",
    "PsychometricPosterior", "RelevanceVectorClassifier", "RoutingError", "RunningConsensus",
    "Simulation", "StreamMonitor", "StreamedRatioEstimator", "WorkerCards", "alarm_levels",
    "answer_features",
    "check_search", "cluster_number", "clustering_risk", "compare_decision_images",
    "constant_rate_interval", "coulomb_kernel", "cross_fitted_probabilities", "epsilon_path",
    "error_image_test", "near_duplicates", "penalized_risks", "plummer_kernel",
    "psychometric_posterior", "read_by_gold",
]  # fmt: skip
FACES = ["learners", *(f"learners.{name}" for name in SUBROOMS)]


@pytest.mark.long
def test_faces_load_scikit_learn_only_for_a_name_that_needs_it():
    """In a process of its own, because others may have loaded it."""
    code = (
        "import sys, importlib\n"
        f"faces = [importlib.import_module(name) for name in {FACES}]\n"
        "print('sklearn' in sys.modules)\n"
        "late = {name for face in faces for name in face.__all__ if name not in vars(face)}\n"
        "print([name for face in faces for name in face.__all__ if name not in dir(face)])\n"
        "print([name for face in faces for name in face.__all__ if not hasattr(face, name)])\n"
        "print('sklearn' in sys.modules, sorted(late))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False", "[]", "[]", f"True {LATE}"]


@pytest.mark.parametrize("face", FACES)
def test_a_name_that_a_face_does_not_export_is_an_attribute_error(face):
    with pytest.raises(AttributeError, match=f"{face}.*no attribute 'nothing'"):
        _ = importlib.import_module(face).nothing


@pytest.mark.parametrize("subroom", SUBROOMS)
def test_what_the_room_exports_its_subrooms_export(subroom):
    """Every public name stands in one sub-room's face, and is the same object."""
    face = importlib.import_module(f"learners.{subroom}")
    shared = set(face.__all__) & set(learners.__all__)
    assert shared
    assert all(getattr(face, name) is getattr(learners, name) for name in shared)
    others = {
        name for one in SUBROOMS for name in importlib.import_module(f"learners.{one}").__all__
    }
    assert set(learners.__all__) <= others


def imports(path):
    """Modules of this room that a file imports, at its top or later."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("learners"):
            yield node.module


def test_subrooms_meet_in_one_direction_and_through_faces():
    met = {
        (path.parent.name, module)
        for path in ROOM.glob("*/*.py")
        for module in imports(path)
        if module.split(".")[1:2] != [path.parent.name] and module != "learners.compiled"
    }
    assert met == {(one, f"learners.{other}") for one, other in MEETINGS}
