# ruff: noqa: E402 - Prefect reads its environment when it is imported, so that is set first
"""A stage as a Prefect task, which takes and returns nothing and reports only the type of an error.

And a flow that ends soon where the server has gone, as its caller or the process that serves it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, ParamSpec, TypeVar, cast

from flows.pipeline import RunResult, Stage, Step
from flows.prefect.server import answers_within, quieten
from flows.run import Run
from flows.settings import EngineError
from flows.terminal import is_mistake

quieten()

import httpx
from prefect import Flow, State, Task
from prefect.cache_policies import NO_CACHE
from prefect.concurrency.asyncio import ConcurrencySlotAcquisitionError
from prefect.concurrency.sync import concurrency
from prefect.events.worker import EventsWorker
from prefect.exceptions import TerminationSignal
from prefect.settings import PREFECT_API_URL, PREFECT_CLIENT_MAX_RETRIES, temporary_settings
from prefect.states import Completed, Failed

if TYPE_CHECKING:
    from prefect.client.schemas.objects import TaskRun

__all__ = [
    "LOST", "UNCHANGED", "LastingFlow", "Outcome", "PlainFlow", "asking_once_if_gone", "end_services",
    "ended", "failed", "ledger_limit", "prefect_step", "raise_signal_behind", "server_answers",
    "with_or_without_server",
]  # fmt: skip

P = ParamSpec("P")
T = TypeVar("T")
LOST = "Prefect's server no longer answers: its record of this run is not whole"
PLAIN = (str, bool)  # types that JSON has
UNCHANGED = "Unchanged"
LASTING = (FileNotFoundError, IsADirectoryError, NotADirectoryError, PermissionError)
RETRY_SECONDS = [1.0, 5.0]
BACK_SECONDS = 20.0  # within which a server that is started again answers
TURN_SECONDS = 600.0  # a run that was killed holds its turn for five minutes


class ErrorKind(Exception):
    """Stands for an error in Prefect, which stores what it is given: it holds the error's type alone."""

    def __init__(self, error: Exception) -> None:
        super().__init__(type(error).__name__)
        self.kind = type(error)


class Outcome(Generic[T]):
    """Keeps what some work returns or raises out of Prefect, which gets only how it ended."""

    def __init__(self, work: Callable[[], T]) -> None:
        self._work = work
        self._returned: list[T] = []
        self._raised: list[Exception] = []

    def attempt(self) -> State[None] | None:
        """Do the work; return None if it is done, or a failed state that names the error's type."""
        try:
            self._returned = [self._work()]
        except Exception as error:  # of any type: its message may quote rows, its frames hold them
            self._raised = [error]
            return failed(error, data=ErrorKind(error))
        return ended(self._returned[0])

    @property
    def known(self) -> bool:
        """Whether the work has returned or raised something."""
        return self.returned or bool(self._raised)

    @property
    def returned(self) -> bool:
        """Whether the work is done."""
        return bool(self._returned)

    def get(self) -> T:
        """Return what the last attempt returned, or raise what it raised."""
        if self._returned:
            return self._returned.pop()
        raise self._raised.pop()


def failed(error: Exception, *, data: Exception) -> State[None]:
    """Return a failed state that names the error's type, and holds `data` for this process.

    It is called Refused where the error is a mistake of the user's, who can mend it, else Failed.
    """
    name = "Refused" if is_mistake(error) else "Failed"
    message = f"{type(error).__name__}, reported where the run was started"
    return Failed(name=name, message=message, data=data)


def ended(result: object) -> State[Any] | None:
    """Return the state of a run in which nothing was new, by that name; None for any other work."""
    if not (isinstance(result, RunResult) and result.unchanged):
        return None
    message = "inputs, settings and version are those of the newest complete run"
    return Completed(name=UNCHANGED, message=message)


def ledger_limit(dataset: str) -> str:
    """Return the name of the Prefect concurrency limit on a data set's ledger.

    Examples
    --------
    >>> ledger_limit("web-2026")
    'crowdassay-ledger-web-2026'
    """
    return f"crowdassay-ledger-{dataset}"


def prefect_step(inner: Step, *, alone: bool = False) -> Step:
    """Run each stage as a Prefect task named after it, whose body is `inner`.

    Parameters
    ----------
    inner
        The step that is run inside the task, such as the one that prints the stage's line.
    alone
        Whether no other run is on this server, so that it has no turns to give.

    Returns
    -------
    Step
        A step for `run_pipeline` inside a flow.

    Notes
    -----
    **Guarantees.** Nothing of the run is a task's input or result, and no error's message
    is sent to Prefect. An error leaves as it was raised. Only reading is retried, and only after a
    failure of the operating system that may be temporary; a stage that spends budget is never retried.

    Where the server does not answer before a stage nor for a while, that stage raises EngineError: no
    stage is lost that was run.

    If the server has the data set's `ledger_limit`, stages that hold the ledger wait for their turn
    there. This only spares other runs a wait at the database. Without the limit, or if the server dies,
    the ledger's own lock still keeps two runs from spending the same budget.

    Examples
    --------
    >>> from flows.pipeline import run_stage
    >>> step = prefect_step(run_stage)
    """

    def step(stage: Stage, run: Run) -> str:
        if not server_answers(BACK_SECONDS):
            raise _server_lost(stage, run)
        outcome = Outcome(lambda: inner(stage, run))

        def in_turn() -> State[None] | None:
            with _turn(run.settings.name):
                return outcome.attempt()

        waits = stage.holds_ledger and not alone
        try:
            _as_task(stage, in_turn if waits else outcome.attempt)()
        except (httpx.TransportError, ConcurrencySlotAcquisitionError) as error:
            if not outcome.known:
                raise _server_lost(stage, run) from error
        return outcome.get()

    return step


def server_answers(seconds: float) -> bool:
    """Return whether the API that is set answers within so many seconds; True where none is set."""
    url = PREFECT_API_URL.value()
    return url is None or answers_within(url, seconds)


def _server_lost(stage: Stage, run: Run) -> EngineError:
    return EngineError(
        f"Prefect's server no longer answers: {stage.name.replace('_', ' ')} and what comes after it were "
        f"not run, and Prefect's record of this run ends there; what is paid and each whole stage are in "
        f"{run.folder}, and --resume goes on from there, with or without that server"
    )


@contextmanager
def _turn(dataset: str) -> Iterator[None]:
    """Wait for a turn if the server has that limit; go on without one if it cannot be obtained."""
    with ExitStack() as held:
        with suppress(ConcurrencySlotAcquisitionError, TimeoutError):
            held.enter_context(concurrency(ledger_limit(dataset), timeout_seconds=TURN_SECONDS))
        yield
        with suppress(httpx.HTTPError, RuntimeError), asking_once_if_gone():
            held.close()


@contextmanager
def asking_once_if_gone() -> Iterator[None]:
    """Run the block, in which no request is tried again if the server does not answer now."""
    once = {} if server_answers(0.0) else {PREFECT_CLIENT_MAX_RETRIES: 0}
    with temporary_settings(once):
        yield


def _as_task(stage: Stage, work: Callable[[], T]) -> Task[[], T]:
    """Return a task that takes nothing, stores nothing, and is retried only where that is harmless."""
    return Task(
        work,
        name=stage.name,
        task_run_name=stage.name,
        cache_policy=NO_CACHE,
        persist_result=False,
        log_prints=False,
        retries=len(RETRY_SECONDS) if stage.reads_input else 0,
        retry_delay_seconds=RETRY_SECONDS,
        retry_condition_fn=_may_pass,
    )


def _may_pass(task: Task[..., Any], run: TaskRun, state: State[Any]) -> bool:
    """Return whether the error is a failure of the operating system that may be temporary."""
    kind = cast("ErrorKind", state.result(raise_on_failure=False)).kind
    return issubclass(kind, OSError) and not issubclass(kind, LASTING)


class PlainFlow(Flow[P, T]):
    """A flow whose plain parameters are sent as they are; Prefect loads a web framework to convert them."""

    def serialize_parameters(self, parameters: dict[str, Any]) -> dict[str, Any]:
        """Return the parameters as they are sent."""
        if all(type(value) in PLAIN for value in parameters.values()):
            return dict(parameters)
        return super().serialize_parameters(parameters)


@dataclass(slots=True)
class _Call:
    """A call of a flow: how its work ended, and the settings that hold until the call ends."""

    returned: tuple[State[Any], Any] | None = None  # the state, and the result or error in it
    settings: ExitStack = field(default_factory=ExitStack)


_call: ContextVar[_Call] = ContextVar("_call", default=_Call())  # noqa: B039  # a served run's only one


class LastingFlow(PlainFlow[P, T]):
    """A flow over `with_or_without_server` that gives a caller its outcome where its server has gone.

    Prefect raises its own error of a connection instead, after minutes.
    """

    def __call__(self, *args: Any, **options: Any) -> Any:
        """Run the flow, and return or raise its outcome."""
        call = _Call()
        token = _call.set(call)
        try:
            with call.settings:
                return super().__call__(*args, **options)
        except httpx.TransportError as error:
            end_services(within=0.0)
            raise_signal_behind(error)
            if call.returned is None:
                raise EngineError("Prefect's server does not answer: nothing was run") from error
        finally:
            _call.reset(token)
        state, value = call.returned
        if options.get("return_state"):
            return state
        if isinstance(value, Exception):
            raise value
        return value


def end_services(*, within: float) -> None:
    """End Prefect's services for events and for turns, and wait so many seconds until they have sent all.

    Each keeps its server's address as long as the process lives, and would ask it for a later run too.
    """
    EventsWorker.drain_all(timeout=within)  # which ends the services of every kind


def with_or_without_server(work: Callable[[], T], *, say: Callable[[str], None]) -> T:
    """Do a flow's work; where the server is gone by its end, say so and let Prefect ask it once.

    By itself Prefect asks again and again, for minutes, at each of several places.
    """
    call, seconds, gone = _call.get(), 0.0, False
    try:
        result = work()
        state = result if isinstance(result, State) else Completed(data=result)
        call.returned = state, state.data  # before Prefect wraps that
        seconds = BACK_SECONDS
    finally:  # of a signal too, which does not wait for the server
        gone = not server_answers(seconds)
        if gone:
            call.settings.enter_context(temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 0}))
    if gone and not state.is_failed():
        say(LOST)
    return result


def raise_signal_behind(error: BaseException) -> None:
    """Raise the signal that came before the error; Prefect passes on a SIGTERM only once it is recorded."""
    at: BaseException | None = error
    while isinstance(at, Exception):
        at = at.__context__
    if isinstance(at, TerminationSignal):
        os.kill(os.getpid(), at.signal)
    if at is not None:
        raise at
