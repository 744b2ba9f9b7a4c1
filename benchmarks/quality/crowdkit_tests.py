"""crowd-kit's own tests, run on the classes of `flows.crowdkit` in the place of crowd-kit's.

    git clone https://github.com/Toloka/crowd-kit
    python -m benchmarks.quality.crowdkit_tests crowd-kit/tests

The tests are crowd-kit's (Apache 2.0) and are not part of this project; crowd-kit itself and the pandas that
its tests are written for come from the peer's environment. Tests of classes that `flows.crowdkit` has not are
left out by their names.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

from benchmarks.peers.peers import CROWDKIT
from benchmarks.publish import parser_of, publish

HEADER = ("tests of", "tests", "pass", "why the others do not")
FILES = {  # of crowd-kit's folder of tests, and the classes they are about
    "test_classification_aggregation": "MajorityVote, Wawa, ZeroBasedSkill, GoldMajorityVote",
    "test_classification_aggregation_edge_cases": "missing columns, empty tables, no iterations",
    "test_majority_vote": "MajorityVote with skills, GoldMajorityVote with several truths",
    "test_ds_aggregation": "DawidSkene, OneCoinDawidSkene",
    "test_glad_aggregation": "GLAD",
    "test_kos_aggregation": "KOS",
    "test_binary_relevance_aggregation": "BinaryRelevance",
    "test_bt_aggregation": "BradleyTerry, NoisyBradleyTerry",
}
ELSEWHERE = ("MMSR", "segmentation")  # in the names of tests of other classes
WHY = {  # by the names of tests that do not pass
    "test_addition_consistency": "the test means to fill four cells of the initial errors and adds four "
    "columns; columns that are no label are refused here and ignored there",
    "test_glad_e_step": "calls private steps of crowd-kit's GLAD",
    "test_glad_derivative": "calls private steps of crowd-kit's GLAD",
    "test_bradley_terry_step_by_step": "expects the scores after 10 steps on data where one item never "
    "loses: they have no finite limit, which is refused here",
    "test_noisy_bradley_terry": "expects the numbers that crowd-kit's gradient ends at, which is not that of "
    "its likelihood",
}
SHIM = """
import crowdkit.aggregation as aggregation
from flows import crowdkit as ours
for name in ours.__all__:
    setattr(aggregation, name, getattr(ours, name))
"""


def main() -> None:
    parser = parser_of(__doc__)
    parser.add_argument("tests", type=Path, help="the folder tests of crowd-kit's repository")
    parser.add_argument("--copy", default="a clone", help="what copy it is, in words for the page")
    arguments = parser.parse_args()
    folder = arguments.tests.resolve()
    if not (folder / "aggregation").is_dir():
        raise SystemExit(f"{folder} must be the folder tests of crowd-kit's repository")
    if not CROWDKIT.built():
        raise SystemExit("crowd-kit's environment could not be built: is there a package index?")
    outcomes = run_tests(folder)
    rows, n_tests, n_passed = [], 0, 0
    for file, about in FILES.items():
        mine = {name: passed for (of, name), passed in outcomes.items() if of == file}
        failed = Counter(reason(name) for name, passed in mine.items() if not passed)
        n_tests, n_passed = n_tests + len(mine), n_passed + sum(mine.values())
        said = "; ".join(f"{count} × {why}" for why, count in failed.items())
        rows.append([about, str(len(mine)), str(sum(mine.values())), said or "–"])
    rows.append(["together", str(n_tests), str(n_passed), "each one is named above"])
    note = (
        f"crowd-kit's repository, folder `tests` ({arguments.copy}), with pandas 2.3 and numpy 2.3; the "
        "classes of `flows.crowdkit` stand under crowd-kit's names. Left out are tests of classes that it "
        "has not: MMSR, MACE, texts, embeddings, images, learning."
    )
    publish("crowdkit_tests", "crowd-kit's own tests", HEADER, rows, note=note)


def run_tests(folder: Path) -> dict[tuple[str, str], bool]:
    """Return for each test, by its file and name, whether it passes."""
    (packages,) = CROWDKIT.folder.glob("lib/python*/site-packages")
    with tempfile.TemporaryDirectory() as scratch:
        (Path(scratch) / "crowdkit_shim.py").write_text(SHIM, encoding="utf-8")
        here = Path(__file__).resolve().parents[2]
        paths = os.pathsep.join(map(str, (scratch, packages, here)))
        report = Path(scratch) / "report.xml"
        files = [str(folder / "aggregation" / f"{name}.py") for name in FILES]
        chosen = " and ".join(f"not {name}" for name in ELSEWHERE)
        subprocess.run(
            [
                sys.executable, "-m", "pytest", "-q", "-p", "crowdkit_shim", "-p", "no:cacheprovider",
                f"--rootdir={folder.parent}", f"--junitxml={report}", "-k", chosen, *files,
            ],
            check=False, cwd=folder.parent, env=os.environ | {"PYTHONPATH": paths},
        )  # fmt: skip
        cases = list(ElementTree.parse(report).iter("testcase"))
    found = {}
    for case in cases:
        file = next(one for one in re.split(r"[.]", case.get("classname", "")) if one in FILES)
        found[file, case.get("name", "")] = case.find("failure") is None is case.find("error")
    return found


def reason(name: str) -> str:
    """Return why a test does not pass; a test that nothing explains is named."""
    return next(
        (why for start, why in WHY.items() if name.startswith(start)), f"`{name}`: unexplained"
    )


if __name__ == "__main__":
    main()
