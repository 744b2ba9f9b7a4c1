"""Voices beside the crowd: other evidence about tasks, weighed by how well it predicts labels.

The class probabilities of a classifier that sees a task's features, and none of its labels, are one more
voice. :func:`hold_labels_out` fits the crowd without each fold of labels. :func:`join_voice` measures the
voice by the labels held out and joins both.

>>> import numpy as np
>>> from quality import encode, majority_vote
>>> labels = encode(["ann", "bob", "cy"], [1, 1, 1], ["yes", "no", "no"])
>>> held_out = hold_labels_out(labels, majority_vote)
>>> join_voice(majority_vote(labels), np.array([[0.5, 0.5]]), held_out).heard
False
"""

from quality.voices.joining import HeldOut, JoinedVoice, hold_labels_out, join_voice

__all__ = ["HeldOut", "JoinedVoice", "hold_labels_out", "join_voice"]
