"""Many processes on one ledger: that race, and that die at a named step."""

import functools
import multiprocessing
import os
import pkgutil
import signal

from tests.privacy.toy import ledger_at

STEPS = (
    "privacy.ledger.releasing.unpaid",
    "privacy.ledger.releasing.insert_entries",
    "privacy.ledger.releasing.find_entries",
    "privacy.ledger.records._move_head",
    "sqlalchemy.Connection.commit",
    "privacy.ledger.releasing._draw",
    "privacy.ledger.releasing.keep_values",
    "privacy.ledger.releasing.find_answers",
    "privacy.ledger.releasing.last_state",
    "privacy.ledger.releasing.insert_answers",
)
"""What a release and an interaction do, in the ledger's own names."""


def race(where, run, *, racers):
    """Results of a call that all processes make at the same moment."""
    context = _context()
    barrier, results = context.Barrier(racers), context.Queue()
    started = [
        context.Process(target=run, args=(str(where), number, barrier, results))
        for number in range(racers)
    ]
    for one in started:
        one.start()
    found = [results.get(timeout=120) for _ in started]
    for one in started:
        one.join()
    results.close()
    return found


def die_everywhere(call, new_ledger):
    """Run a call in processes that die before, and after, each of its steps in turn.

    Yields, for every point of death, where the ledger is and the names of the steps that had
    ended; the last one is 'returned' where the process lived.
    """
    point, told = 0, []
    while "returned" not in told:
        where, log = new_ledger(point)
        process = _context().Process(target=_run_until, args=(str(where), call, point, str(log)))
        process.start()
        process.join()
        told = log.read_text().splitlines() if log.exists() else []
        if process.exitcode not in (0, -signal.SIGKILL):
            raise RuntimeError(f"the process ended with {process.exitcode} at point {point}")
        yield where, told
        point += 1


def _context():
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "tests.privacy.toy", "tests.privacy.ledger.processes", "privacy.noise",
            "tests.privacy.ledger.test_spending",
        ]
    )  # fmt: skip
    return context


def _run_until(where, call, point, log):
    """Make a call, and die as the steps' count of beginnings and ends reaches a point."""
    ledger = ledger_at(where)
    out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    left = [point]

    def pass_point():
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        left[0] -= 1

    def watched(name, step):
        @functools.wraps(step)
        def run(*args, **knobs):
            pass_point()
            result = step(*args, **knobs)
            os.write(out, f"{name}\n".encode())
            pass_point()
            return result

        return run

    for name in STEPS:
        owner, attribute = name.rsplit(".", 1)
        owner = pkgutil.resolve_name(owner)
        setattr(owner, attribute, watched(attribute, getattr(owner, attribute)))
    call(ledger)
    os.write(out, b"returned\n")
