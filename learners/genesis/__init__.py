"""The population simulator: elements, links and connections, a script language, neurons and crowds.

`Simulation` holds elements in a tree and lets them share data (links) and send events
(connections). A script builds it, or its methods of the same names. The classes of a crowd make
labels whose truth is known, with response times, copying, fatigue and personas; the classes of
neurons show that the core is general and right. A class of one's own is one function and needs no
change here (`element_class`).

>>> import numpy as np
>>> sim = Simulation(rng=np.random.default_rng(0))
>>> sim.script('''
... create task /tasks -n 50
... set /tasks truth {integers 0 2}
... create desk /desk
... create honest /pool -n 10
... create recorder /labels
... connect /tasks to /desk
... connect /desk to /pool
... connect /pool to /labels
... run
... ''')
>>> sim.result("/labels")
CrowdRecord(150 labels, 50 tasks, 10 workers)
"""

from learners.genesis.core import (
    BUILT_IN,
    CLASSES,
    Behaviour,
    Block,
    Element,
    ElementClass,
    PathError,
    element_class,
    variant,
)
from learners.genesis.crowd import (
    CrowdRecord,
    Decisions,
    Law,
    LiveAgreement,
    decide_many,
    diffusion_law,
)
from learners.genesis.neuro import COMPARTMENT
from learners.genesis.script import COMMANDS, LIBRARY, Distribution, ScriptError, evaluate
from learners.genesis.simulation import Simulation
from learners.genesis.widgets import Form, SpikeTimes, Trace

__all__ = [
    "CLASSES", "COMMANDS", "COMPARTMENT", "LIBRARY", "Behaviour", "Block", "CrowdRecord",
    "Decisions", "Distribution", "Element", "ElementClass", "Form", "Law", "LiveAgreement",
    "PathError", "ScriptError", "Simulation", "SpikeTimes", "Trace", "decide_many", "diffusion_law",
    "element_class", "evaluate", "variant",
]  # fmt: skip

BUILT_IN.update(CLASSES)
