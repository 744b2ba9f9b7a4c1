"""Prefect's server, started for one run and ended with it; and whether an API is configured.

The temporary server that Prefect itself starts keeps running when its parent is killed. This server is
a child that watches a pipe whose other end only its parent holds: however the parent ends, SIGKILL
included, the pipe closes and the child ends. This file is also the child's program. So it imports
nothing of this project, and imports Prefect's server in the child alone.
"""

from __future__ import annotations

import gc
import http.client
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

__all__ = [
    "QUIET",
    "ServerUnavailable",
    "answers_within",
    "api_reachable",
    "embedded_server",
    "quieten",
]

# Offline and silent: no telemetry of the client or the server, no tracebacks when a server ends, and
# no log of Prefect on the terminal, where the run prints its own lines and errors.
QUIET = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_LOGGING_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_LEVEL": "WARNING",
    "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",
    "PREFECT_LOGGING_INTERNAL_LEVEL": "CRITICAL",  # what its own threads could not send
    "PREFECT_LOGGING_TO_API_ENABLED": "false",  # states record how a stage ended; logs quote errors
    "PREFECT_SERVER_EPHEMERAL_STARTUP_TIMEOUT_SECONDS": "300",
}
SERVER = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_LOGGING_LEVEL": "ERROR",  # to its log file
    "PREFECT_UI_ENABLED": "false",  # starts sooner; a run is looked at after its end
    "PREFECT_API_BLOCKS_REGISTER_ON_START": "false",  # no block is used
    "PREFECT__SERVER_EPHEMERAL": "1",  # no schedulers
    "PY_KEY_VALUE_DISABLE_BEARTYPE": "true",  # checks of types in a store that Prefect alone calls
    "PYDANTIC_DISABLE_PLUGINS": "__all__",  # looked for in every package that is installed
}
ASKED_BY_A_RUN = (  # prefixes of routes; the last one's are of the root
    "/flows", "/flow_runs", "/task_runs", "/artifacts", "/v2/concurrency_limits", "/events", "/admin", "",
)  # fmt: skip
CONFIGURED_IN = (  # a file, and a word that it holds if it may configure an API
    ("prefect.toml", "url"),
    (".env", "prefect_api_url"),
    ("pyproject.toml", "[tool.prefect"),
)
OF_PROXIES = (502, 503, 504)  # what one says for a server that is not there
DATABASE, LOG = "prefect.db", "server.log"
OTHERS = 0o077  # a umask: what the server writes is its owner's alone
N_OBJECTS = 1_000_000  # new ones before the collector runs: more than a run makes on its server
GRACE_SECONDS = 30.0  # enough to finish a database migration


class ServerUnavailable(RuntimeError):
    """Prefect's server did not start; the message says why, in one sentence."""


def quieten() -> None:
    """Set Prefect's environment variables that are not set; Prefect reads them when it is imported.

    Examples
    --------
    >>> quieten()
    >>> os.environ["DO_NOT_TRACK"]
    '1'
    """
    for name, value in QUIET.items():
        os.environ.setdefault(name, value)
    unproxied = os.environ.get("no_proxy", os.environ.get("NO_PROXY", ""))
    if "127.0.0.1,localhost" not in unproxied:
        os.environ["no_proxy"] = f"{unproxied},127.0.0.1,localhost".removeprefix(",")


def api_reachable(*, timeout: float = 2.0) -> str | None:
    """Return the URL of the Prefect API that environment or profile configure, if it answers.

    Returns
    -------
    str | None
        None if no API is configured or it does not answer within `timeout` seconds.

    Notes
    -----
    **Guarantees.** Prefect is not imported if nothing configures an API.

    Examples
    --------
    >>> os.environ["PREFECT_API_URL"] = "http://127.0.0.1:1/api"  # no server listens there
    >>> api_reachable() is None
    True
    >>> del os.environ["PREFECT_API_URL"]
    """
    url = _configured_api()
    if url is None:
        return None
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=timeout):
            return url
    except urllib.error.HTTPError as answer:
        return url if answer.code in (401, 403) else None  # a wrong key is reported later
    except (OSError, ValueError, http.client.HTTPException):
        return None


def answers_within(url: str, seconds: float) -> bool:
    """Return whether the API answers now or so many seconds from now; a proxy alone is no answer.

    Examples
    --------
    >>> answers_within("http://127.0.0.1:1/api", 0.0)  # no server listens there
    False
    """
    deadline = time.monotonic() + seconds
    while True:
        try:
            with urllib.request.urlopen(f"{url}/health", timeout=5.0):
                return True
        except urllib.error.HTTPError as answer:
            if answer.code not in OF_PROXIES:
                return True
        except (OSError, http.client.HTTPException):
            pass
        if time.monotonic() >= deadline:
            return False
        time.sleep(0.5)


@contextmanager
def embedded_server(
    home: Path, *, startup_timeout: float = 300.0, for_one_run: bool = False
) -> Iterator[str]:
    """Run Prefect's server on a free port of this machine's loopback until the block ends.

    Parameters
    ----------
    home
        Folder of the server's database and log, which are kept: `PREFECT_HOME=<home> prefect server
        start` shows the run later.
    startup_timeout
        Seconds within which the server must answer.
    for_one_run
        Serve what a run asks for and nothing else, which starts sooner: no deployments, blocks,
        variables, work pools or automations.

    Yields
    ------
    str
        The API's URL.

    Raises
    ------
    ServerUnavailable
        If the server exits or does not answer in time.

    Notes
    -----
    **Guarantees.** The server ends with the block: on its normal end, on an exception, on Ctrl-C, on
    SIGTERM (here SystemExit with status 143; the former handler is restored afterwards), and when
    this process is killed. Its output goes to `home/server.log`, not to the terminal. Database and
    log are their owner's alone (mode 0600).

    Examples
    --------
    >>> with embedded_server(Path("state/prefect")) as api_url:  # doctest: +SKIP
    ...     print(api_url)
    http://127.0.0.1:38563/api
    """
    home = home.resolve()
    home.mkdir(mode=0o700, parents=True, exist_ok=True)
    for path in (home / DATABASE, home / LOG):  # of an earlier version, which others could read
        if path.exists():
            path.chmod(0o600)
    with _sigterm_exits(), _child(home, for_one_run) as (server, port):
        _await_health(server, port, home / LOG, startup_timeout)
        yield f"http://127.0.0.1:{port}/api"


@contextmanager
def _child(home: Path, for_one_run: bool) -> Iterator[tuple[subprocess.Popen[bytes], int]]:
    """Yield the server's process and port, which is bound here so that no other process can take it."""
    environment = {name: value for name, value in os.environ.items() if "PREFECT" not in name}
    environment |= SERVER | {
        "PREFECT_HOME": str(home),
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": f"sqlite+aiosqlite:///{home / DATABASE}",
    }
    with socket.socket() as listener, open(home / LOG, "wb", opener=_private) as log:
        listener.bind(("127.0.0.1", 0))
        server = subprocess.Popen(
            [
                sys.executable,
                "-P",  # nothing is imported from this file's folder
                str(Path(__file__).resolve()),
                str(listener.fileno()),
                str(int(for_one_run)),
            ],
            stdin=subprocess.PIPE,  # the pipe that it watches
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd=home,  # so that no prefect.toml or .env of the user is read
            env=environment,
            pass_fds=[listener.fileno()],
            umask=OTHERS,
            start_new_session=True,  # Ctrl-C reaches the run, which ends the server itself
        )
        port: int = listener.getsockname()[1]
    try:
        yield server, port
    finally:
        _end(server)


def _private(path: str, flags: int) -> int:
    """Open a file that its owner alone may read."""
    return os.open(path, flags, mode=0o666 & ~OTHERS)


def _end(server: subprocess.Popen[bytes]) -> None:
    """Terminate the server; kill it if it does not end in time."""
    server.terminate()
    try:
        server.wait(timeout=GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
    if server.stdin is not None:
        server.stdin.close()


def _await_health(
    server: subprocess.Popen[bytes], port: int, log: Path, startup_timeout: float
) -> None:
    """Return when the server answers; raise ServerUnavailable if it ends or does not answer in time."""
    deadline = time.monotonic() + startup_timeout
    while not _healthy(port):
        if server.poll() is not None:
            raise ServerUnavailable(
                f"Prefect's server ended while starting (status {server.returncode}; see {log})"
            )
        if time.monotonic() > deadline:
            raise ServerUnavailable(
                f"Prefect's server did not answer within {startup_timeout:g} s (see {log})"
            )
        time.sleep(0.1)


def _healthy(port: int) -> bool:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=5)
    try:
        connection.request("GET", "/api/health")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


@contextmanager
def _sigterm_exits() -> Iterator[None]:
    """Let SIGTERM unwind the stack as Ctrl-C does; outside the main thread, change nothing.

    Change nothing either where SIGTERM has a handler, as in the command line.
    """
    handled = signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    if handled or threading.current_thread() is not threading.main_thread():
        yield
        return
    former = signal.signal(signal.SIGTERM, _exit)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, former)


def _exit(number: int, frame: FrameType | None) -> NoReturn:
    raise SystemExit(128 + number)


def _configured_api() -> str | None:
    """Return the API's URL in Prefect's own order: environment, files here, profile."""
    if url := os.environ.get("PREFECT_API_URL"):
        return url.rstrip("/")
    home = Path(os.environ.get("PREFECT_HOME", "~/.prefect"))
    profiles = Path(os.environ.get("PREFECT_PROFILES_PATH", home / "profiles.toml")).expanduser()
    files = [(profiles, "api_url"), *((Path(name), word) for name, word in CONFIGURED_IN)]
    if not any(_holds(path, word) for path, word in files):
        return None
    from prefect.settings import get_current_settings  # seconds, where something configures an API

    url = get_current_settings().api.url
    return None if url is None else url.rstrip("/")


def _holds(path: Path, word: str) -> bool:
    """Return whether a file holds a word, in whatever encoding; one that cannot be read holds none."""
    try:
        return word.encode() in path.read_bytes().lower()
    except OSError:
        return False


def _serve(descriptor: int, *, for_one_run: bool) -> NoReturn:
    """Serve, in the child, on the listener that the parent bound, until the parent terminates it or ends."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    gc.set_threshold(N_OBJECTS)  # what is imported stays, and a run makes little else
    import uvicorn  # in the child only

    config = uvicorn.Config(
        _application_of_a_run if for_one_run else "prefect.server.api.server:create_app",
        factory=True,
        lifespan="on",
        log_level="error",
        timeout_graceful_shutdown=3,
    )
    server = uvicorn.Server(config)
    server.run(sockets=[socket.socket(fileno=descriptor)])
    raise SystemExit(not server.started)


def _application_of_a_run() -> Any:
    """Return Prefect's application with the routes that a run asks for; each takes milliseconds to make.

    Prefect finds an application again by its settings' hash, which takes longer than looking up one.
    """
    from prefect.server.utilities.server import PrefectRouter  # in the child only
    from prefect.settings import Settings

    make = PrefectRouter.add_api_route

    def make_if_asked(router: PrefectRouter, *route: Any, **options: Any) -> None:
        if router.prefix in ASKED_BY_A_RUN:
            make(router, *route, **options)

    PrefectRouter.add_api_route = make_if_asked  # type: ignore[assignment, method-assign]
    Settings.hash_key = lambda _: "the only application"  # type: ignore[assignment, method-assign]
    from prefect.server.api.server import create_app  # makes the routes

    return create_app()


def _end_with_parent() -> None:
    """Wait for the end of the pipe that only the parent holds; then end this process, by force if needed."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os._exit(1)


if __name__ == "__main__":
    _serve(int(sys.argv[1]), for_one_run=sys.argv[2] == "1")
