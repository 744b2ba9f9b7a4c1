"""A wrong type is refused in one sentence, by every public function of the room."""

from __future__ import annotations

import inspect
import pickle
import re
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest

import quality
from quality import LocalEngine, cut_labels, dawid_skene, encode, majority_vote

PUBLIC = [name for name in quality.__all__ if inspect.isfunction(getattr(quality, name))]
LABELS = encode(["ann", "bob"] * 2, [1, 1, 2, 2], ["yes", "yes", "no", "no"])
SERIES = pd.Series([0, 1])


@pytest.mark.refusal
@pytest.mark.parametrize("name", PUBLIC)
def test_a_wrong_first_argument_is_refused_by_its_name(name: str) -> None:
    function: Callable[..., Any] = getattr(quality, name)
    first, *_ = inspect.signature(function).parameters.values()
    call = partial(function, **{first.name: object()})
    if first.kind is not first.KEYWORD_ONLY:
        call = partial(function, object())
    with pytest.raises(TypeError, match=rf"\A{first.name} must be [^\n]+, got object[^\n]*\Z"):
        call()


@pytest.mark.refusal
@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: majority_vote([1, 2, 3]), "labels must be CrowdLabels, got list; make one with"),  # type: ignore[arg-type]
        (lambda: dawid_skene(None), "labels must be CrowdLabels, got None; make one with"),  # type: ignore[arg-type]
        (lambda: quality.krippendorff_alpha(pd.DataFrame()), "CrowdLabels, got DataFrame"),  # type: ignore[arg-type]
        (lambda: dawid_skene(LABELS, tol="0.1"), "tol must be a number, got str"),  # type: ignore[arg-type]
        (lambda: dawid_skene(LABELS, max_iter=2.5), "max_iter must be a whole number, got float"),  # type: ignore[arg-type]
        (lambda: majority_vote(LABELS, groups=SERIES), "or None, got Series; make one with numpy"),  # type: ignore[arg-type]
        (lambda: dawid_skene(LABELS, gold=np.array(["yes", "no"])), "or None, got one of <U3"),
        (lambda: quality.kos(LABELS, rng=0), "got int; make one with numpy.random.default_rng(seed)"),  # type: ignore[arg-type]
        (lambda: dawid_skene(LABELS, progress=True), "progress must be a function, or None, got"),  # type: ignore[arg-type]
        (lambda: quality.next_labels(LABELS, [[1.0]]), "posterior must be a NumPy array of numbers"),  # type: ignore[arg-type]
        (lambda: quality.ordinal_crowd(LABELS, loss=2), "loss must be a text, got int"),  # type: ignore[arg-type]
        (lambda: quality.dawid_skene_by_shards(LABELS), "engine must be Engine, got CrowdLabels"),  # type: ignore[arg-type]
    ],
)  # fmt: skip
def test_the_sentence_says_what_must_hold_what_came_and_what_to_do(
    call: Callable[[], object], sentence: str
) -> None:
    with pytest.raises(TypeError, match=re.escape(sentence)):
        call()


@pytest.mark.refusal
def test_what_is_of_the_type_passes_numpys_numbers_and_subclasses_included() -> None:
    class Own(np.ndarray):
        pass

    gold = np.array([1, -1]).view(Own)
    found = dawid_skene(LABELS, max_iter=np.int32(3), tol=np.float32(0.5), gold=gold)  # type: ignore[arg-type]
    assert found.label.tolist() == [1, 0]
    assert dawid_skene(LABELS, tol=1).converged  # a whole number is a number
    engine = LocalEngine(cut_labels(LABELS, [0, 1, 2]))
    assert quality.dawid_skene_by_shards(engine).n_iter >= 1


def test_a_checked_function_keeps_its_name_signature_and_place() -> None:
    assert pickle.loads(pickle.dumps(majority_vote)) is majority_vote
    assert list(inspect.signature(majority_vote).parameters) == ["labels", "groups"]
    assert majority_vote.__doc__ is not None
    assert majority_vote.__module__ == "quality.aggregation.majority"


@pytest.mark.refusal
def test_pythons_own_refusals_stay() -> None:
    with pytest.raises(TypeError, match="missing 1 required keyword-only argument: 'rng'"):
        quality.kos(LABELS)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="unexpected keyword argument 'group'"):
        majority_vote(LABELS, group=None)  # type: ignore[call-arg]
    with pytest.raises(TypeError, match="takes 1 positional argument but 2"):
        majority_vote(LABELS, None)  # type: ignore[misc]
