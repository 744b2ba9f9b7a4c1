"""Print as JSON krippendorff's alphas and CPU seconds for counts in .npz; its own interpreter runs this."""

import json
import sys
import time

import krippendorff
import numpy as np


def main(table: str) -> None:
    with np.load(table) as held:
        counts, domain = held["counts"], held["domain"]
    found = {}
    for metric in ("nominal", "ordinal", "interval"):
        start = time.process_time()
        value = krippendorff.alpha(
            value_counts=counts, value_domain=domain, level_of_measurement=metric
        )
        found[metric] = (float(value), time.process_time() - start)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    main(*sys.argv[1:])
