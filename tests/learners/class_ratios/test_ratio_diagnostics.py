import numpy as np
import pytest

from learners.class_ratios.diagnostics import diagnose

SOUND = {
    "mixture": np.eye(2),
    "hessian": np.eye(2),
    "reliability": 0.9,
    "effective_points": np.array([400.0, 300.0]),
    "bags_left_out": 6,
    "error_left_out": 0.05,
    "width": 0.1,
}


def test_sound_evidence_has_no_warnings():
    found = diagnose(**SOUND)
    assert found.warnings == ()
    assert found.identifiable
    assert (found.mixing_condition, found.kernel_condition) == (1.0, 1.0)


@pytest.mark.parametrize(
    ("doubtful", "words"),
    [
        ({"mixture": np.array([[0.51, 0.49], [0.5, 0.5]])}, "nearly the same class proportions"),
        ({"hessian": np.diag([1.0, 1e-9])}, "little more than chance"),
        ({"reliability": 0.4}, "little more than chance"),
        ({"effective_points": np.array([400.0, 29.0])}, "Class 1: fewer than 30"),
        ({"bags_left_out": 2}, "2 left-out groups only"),
        ({"width": 0.51}, "0.51 wide"),
    ],
)
def test_each_doubt_is_one_sentence(doubtful, words):
    found = diagnose(**(SOUND | doubtful))
    assert len(found.warnings) == 1
    assert words in found.warnings[0]
    assert found.identifiable == ("chance" not in words)
