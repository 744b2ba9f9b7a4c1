"""Configurations: checked, placed, written as a bitstream and read back, with Hypothesis's programs."""

from __future__ import annotations

import struct
from typing import Any
from zlib import crc32

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.streams import CELLS, FPLA, ConfigError, RoutingError
from learners.streams.bitstream import configuration_of


@st.composite
def configurations(draw: st.DrawFn) -> dict[str, Any]:
    """Cells in a random order of kinds; each reads inputs and nets driven before it."""
    nets = ["a", "b"]
    cells = []
    for i in range(draw(st.integers(1, 14))):
        op = draw(st.sampled_from([name for name in CELLS if name != "table"]))
        one: dict[str, Any] = {"op": op, "polarity": draw(st.sampled_from("pn"))}
        one["in"] = [draw(st.sampled_from(nets)) for _ in range(CELLS[op].n_inputs)]
        if draw(st.booleans()):
            one["out"] = f"n{i}"
        for name, known in CELLS[op].parameters.items():
            if draw(st.booleans()) and not known.whole:
                low = max(known.low, -5.0) + 0.01
                one[name] = draw(st.floats(low, min(known.high, 5.0) - 0.01))
        one["delay"] = CELLS[op].stateful and draw(st.booleans())
        cells.append(one)
        nets += [one["out"]] if "out" in one else []
    outputs = draw(st.lists(st.sampled_from(nets), unique=True, max_size=4))
    return {"cells": cells, "io": {"inputs": ["a", "b"], "outputs": outputs}}


@settings(max_examples=60, deadline=None)
@given(configurations())
def test_a_bitstream_gives_back_its_configuration_and_its_results(config: dict[str, Any]) -> None:
    array = FPLA.from_config(config)
    again = FPLA.from_bitstream(array.bitstream())
    assert again.bitstream() == array.bitstream()
    assert again.config_hash == array.config_hash
    assert again.program.cells == array.program.cells
    assert (again.program.inputs, again.program.outputs) == (("a", "b"), array.program.outputs)


def test_an_array_of_a_bitstream_computes_the_same() -> None:
    rng = np.random.default_rng(0)
    array = FPLA.from_config(config())
    again = FPLA.from_bitstream(array.bitstream())
    lanes, values = rng.integers(3, size=200), rng.normal(size=(200, 2))
    for one in (array, again):
        one.partial_fit(lanes, values)
    assert array.snapshot() == again.snapshot()


def test_the_hash_follows_every_parameter() -> None:
    assert FPLA.from_config(config()).config_hash == FPLA.from_config(config()).config_hash
    other = config()
    other["cells"][0]["gamma"] = 0.03
    assert FPLA.from_config(other).config_hash != FPLA.from_config(config()).config_hash


def config(**changed: Any) -> dict[str, Any]:
    cells: list[dict[str, Any]] = [
        {"op": "cond", "in": ["x", "y"], "out": "p", "gamma": 0.02},
        {"op": "mirror", "in": ["p"], "out": "q", "polarity": "n"},
    ]
    return {"cells": cells, "io": {"inputs": ["x", "y"], "outputs": ["q"]}} | changed


def test_a_damaged_bitstream_is_refused() -> None:
    data = FPLA.from_config(config()).bitstream()
    for at in range(len(data)):
        bad = bytearray(data)
        bad[at] ^= 1
        with pytest.raises(ConfigError):
            FPLA.from_bitstream(bytes(bad))
    for cut in (b"", data[:20], data[:-1], b"x" * 40):
        with pytest.raises(ConfigError):
            FPLA.from_bitstream(cut)


@pytest.mark.refusal
def test_switches_say_what_is_wired_also_where_the_checksum_is_right() -> None:
    """Every switch that is turned is either refused, or another program."""
    array = FPLA.from_config(config())
    data = array.bitstream()
    n_text = struct.unpack(">I", data[11:15])[0]
    place = array.placement
    first = 15 + n_text + 3 * len(place.blocks) * len(place.blocks[0].slots)
    bits = place.switches.size + place.io[0].size + place.between.size
    other = 0
    for bit in range(0, bits, 7):
        bad = bytearray(data[:-4])
        bad[first + bit // 8] ^= 128 >> bit % 8
        try:
            found = FPLA.from_bitstream(bytes(bad) + struct.pack(">I", crc32(bytes(bad))))
        except ConfigError:
            continue
        other += found.bitstream() != data
    assert other < bits
    wired = int(np.flatnonzero(place.switches.ravel())[0])
    bad = bytearray(data[:-4])
    bad[first + wired // 8] ^= 128 >> wired % 8
    with pytest.raises(ConfigError, match="cell"):
        FPLA.from_bitstream(bytes(bad) + struct.pack(">I", crc32(bytes(bad))))


CASES = [
    ({"cells": []}, "at least one cell"),
    ({"colour": 1}, "has no key 'colour'"),
    ({"cells": [{"op": "magic"}]}, "must have an op out of"),
    ({"cells": [{"op": "cap", "in": ["x"], "gama": 1}]}, "has no key 'gama'"),
    ({"cells": [{"op": "cap", "in": ["x"], "gamma": 0}]}, "gamma of cell 'cap0' must be > 0 and <= 1"),
    ({"cells": [{"op": "cap", "in": ["x"], "gamma": float("nan")}]}, "gamma"),
    ({"cells": [{"op": "regr", "in": ["x", "y"], "mu": 0}]}, "mu of cell"),
    ({"cells": [{"op": "regr", "in": ["x", "y"], "decay": 1}]}, "decay of cell"),
    ({"cells": [{"op": "bump", "in": ["x"], "K": 0}]}, "K of cell"),
    ({"cells": [{"op": "bump", "in": ["x"], "K": 1.5}]}, "a whole number"),
    ({"cells": [{"op": "cap", "in": ["z"]}]}, "input 'z' of cell 'cap0' is driven by nothing"),
    ({"cells": [{"op": "cap", "in": ["x", "y"]}]}, "takes 1 inputs"),
    ({"cells": [{"op": "diode", "in": ["x"], "delay": True}]}, "keeps no state"),
    ({"cells": [{"op": "cap", "in": ["x"], "polarity": "z"}]}, "polarity"),
    ({"cells": [{"op": "cap", "in": ["x"], "name": "a"}] * 2}, "unique, got 'a' twice"),
    ({"io": {"inputs": ["x", "y"], "outputs": ["nil"]}}, "output 'nil' is driven by nothing"),
    ({"geometry": [0, 2]}, "geometry must be"),
    ({"geometry": "big"}, "geometry must be"),
    ({"geometry": [2.7, 2]}, r"two whole numbers within 1 and 32, got \[2.7, 2\]"),
    ({"geometry": "22"}, "two whole numbers within 1 and 32, got '22'"),
    ({"geometry": np.ones((2, 2))}, "two whole numbers within 1 and 32, got array"),
    ({"lines": 2}, "lines must be a whole number within"),
    ({"lines": "abc"}, "lines must be a whole number within 3 and 64, got 'abc'"),
    ({"cells": ["cap"]}, "cell 0 must be a mapping of keys to values, got 'cap'"),
    ({"io": None}, "io must be a mapping of keys to values, got None"),
    ({"cells": [{"op": ["cap"]}]}, "must have an op out of"),
    ({"cells": [{"op": "cap", "in": 3}]}, "in of cell 'cap0' must be a list of names of nets, got 3"),
    ({"cells": [{"op": "prod", "in": "xy"}]}, "in of cell 'prod0' must be a list of names of nets"),
    ({"cells": [{"op": "cap", "in": [["x"]]}]}, "in of cell 'cap0' must be a list of names of nets"),
    ({"cells": [{"op": "cap", "in": ["x"], "out": ["z"]}]}, "out of cell 'cap0' must be a list"),
    ({"cells": [{"op": "cap", "in": ["x"], "block": ["p0"]}]}, "block of cell 'cap0' must be a name"),
    ({"io": {"inputs": 5}}, "inputs of io must be a list of names of nets, got 5"),
    ({"io": {"inputs": "xy"}}, "inputs of io must be a list of names of nets, got 'xy'"),
    ({"io": {"inputs": ["x", "y"], "outputs": [["p"]]}}, "outputs of io must be a list of names"),
]  # fmt: skip


@pytest.mark.parametrize(("changed", "message"), CASES, ids=[message for _, message in CASES])
def test_a_configuration_that_is_wrong_is_refused_in_a_sentence(
    changed: dict[str, Any], message: str
) -> None:
    wrong = config(**changed)
    if "cells" in changed:
        wrong["io"] = {"inputs": ["x", "y"], "outputs": []}
    with pytest.raises(ConfigError, match=message):
        FPLA.from_config(wrong)


def test_a_cycle_without_delay_is_refused_and_named() -> None:
    cells = [
        {"op": "cap", "in": ["b"], "out": "a", "name": "one"},
        {"op": "cap", "in": ["a"], "out": "b", "name": "two"},
    ]
    with pytest.raises(ConfigError, match="form a cycle: .*one.*delay=True"):
        FPLA.from_config({"cells": cells})
    cells[0]["delay"] = True  # type: ignore[assignment]
    assert FPLA.from_config({"cells": cells}).program.nets == ("a", "b")


def test_what_does_not_fit_a_geometry_is_refused_with_its_block_and_auto_grows() -> None:
    many = [{"op": "cond", "in": ["x", "y"]} for _ in range(9)]
    with pytest.raises(RoutingError, match="block p1 is out of cells of kind synapse"):
        FPLA.from_config(config(cells=many, io={"inputs": ["x", "y"]}, geometry=[2, 2]))
    grown = FPLA.from_config(config(cells=many, io={"inputs": ["x", "y"]}))
    assert np.prod(grown.placement.geometry) >= 9
    names = [f"x{i}" for i in range(20)]
    with pytest.raises(RoutingError, match="out of inputs and outputs|out of lines"):
        FPLA.from_config(config(cells=[{"op": "bias"}], io={"inputs": names}, geometry=[2, 2]))
    narrow = [{"op": "prod", "in": ["x", "y"], "out": f"o{i}"} for i in range(3)]
    with pytest.raises(RoutingError, match="block p0 is out of lines"):
        FPLA.from_config(
            {"cells": narrow, "io": {"inputs": ["x", "y"]}, "geometry": [1, 1], "lines": 4}
        )


def test_a_cell_lies_in_the_block_that_it_names() -> None:
    cells = [{"op": "cap", "in": ["x"], "block": "p1"}]
    array = FPLA.from_config({"cells": cells, "io": {"inputs": ["x"]}})
    (held,) = [
        block.name for block in array.placement.blocks if any(s is not None for s in block.slots)
    ]
    assert held == "p1"
    assert configuration_of(array.bitstream())["cells"][0]["block"] == "p1"
    with pytest.raises(RoutingError, match="'p9'"):
        FPLA.from_config(
            {"cells": [cells[0] | {"block": "p9"}], "io": {"inputs": ["x"]}, "geometry": [2, 2]}
        )
