"""Print as JSON crowd-kit's consensus of labels.csv in a folder; its own interpreter runs this script."""

import json
import resource
import signal
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from crowdkit.aggregation import (
    GLAD,
    KOS,
    MACE,
    MMSR,
    DawidSkene,
    MajorityVote,
    OneCoinDawidSkene,
    Wawa,
    ZeroBasedSkill,
)

warnings.simplefilter("ignore")

CLASSES = {
    "MajorityVote": lambda: MajorityVote(),
    "Wawa": lambda: Wawa(),
    "ZeroBasedSkill": lambda: ZeroBasedSkill(n_iter=100),
    "DawidSkene": lambda: DawidSkene(n_iter=100),
    "OneCoinDawidSkene": lambda: OneCoinDawidSkene(n_iter=100),
    "GLAD": lambda: GLAD(n_iter=100),
    "MACE": lambda: MACE(n_restarts=1, random_state=0),  # with more, each is the first again
    "KOS": lambda: KOS(n_iter=100, random_state=0),
    "MMSR": lambda: MMSR(n_iter=100, random_state=0),
}


FAULTS = (KeyError, ValueError, ZeroDivisionError, OverflowError, np.linalg.LinAlgError)


def out_of_time(*_):
    raise TimeoutError


def main(path: str, seconds: float, gigabytes: float) -> None:
    labels = pd.read_csv(Path(path), dtype=int)
    limit = int(gigabytes * 2**30)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    signal.signal(signal.SIGPROF, out_of_time)
    found = {}
    for name, make in CLASSES.items():
        if name == "KOS" and labels["label"].nunique() > 2:
            continue
        start = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            agreed = make().fit_predict(labels)
        except TimeoutError:
            found[name] = {"error": f"> {seconds:g} s"}
        except MemoryError:
            found[name] = {"error": f"> {gigabytes:g} GB"}
        except FAULTS as error:
            found[name] = {"error": type(error).__name__}
        else:
            label = {int(task): int(label) for task, label in agreed.dropna().items()}
            found[name] = {"label": label, "seconds": time.process_time() - start}
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
    signal.signal(signal.SIGPROF, signal.SIG_IGN)  # one may be on its way, though no timer runs
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]), float(sys.argv[3]))
