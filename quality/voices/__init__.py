"""Voices beside the crowd: what is known of tasks from elsewhere, counted for what it is worth.

A classifier's class probabilities, which see a task's features and no label of it, are one more
voice. :func:`hold_labels_out` measures the crowd, :func:`join_voice` measures the voice by the labels
held out and joins both.

>>> import numpy as np
>>> from quality import encode, majority_vote
>>> labels = encode(["ann", "bob", "cy"], [1, 1, 1], ["yes", "no", "no"])
>>> held_out = hold_labels_out(labels, majority_vote)
>>> join_voice(majority_vote(labels), np.array([[0.5, 0.5]]), held_out).heard
False
"""

from quality.voices.joining import HeldOut, JoinedVoice, hold_labels_out, join_voice

__all__ = ["HeldOut", "JoinedVoice", "hold_labels_out", "join_voice"]
