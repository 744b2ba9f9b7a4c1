"""An offline run: nothing outside this machine is needed, and nothing outside is asked for.

The run has a network of its own that holds the loopback alone (`unshare`), and every address that
any of its processes names is written down (`strace`). Where one of the two is not allowed the other
still tests its half; where neither is, the test is skipped.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.flows.campaign import write_small_campaign

ADDRESS = re.compile(r"sa_family=(AF_\w+)(?:.*?(?:inet_addr\(|inet_pton\(AF_INET6, )\"([^\"]+)\")?")
LOCAL = {"AF_UNIX", "AF_NETLINK", "AF_UNSPEC"}  # this machine's sockets, its kernel, none
LOOPBACK_UP = """
import fcntl, os, socket, struct, sys
IFF_UP_AND_RUNNING, SIOCSIFFLAGS = 0x41, 0x8914
with socket.socket() as any_socket:
    fcntl.ioctl(any_socket, SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", IFF_UP_AND_RUNNING))
os.execv(sys.argv[1], sys.argv[1:])
"""
CONNECTS = "import socket; socket.socket(type=socket.SOCK_DGRAM).connect(('192.0.2.1', 9))"


@cache
def allowed(*command: str) -> bool:
    """Whether the program is here and may do this."""
    if shutil.which(command[0]) is None:
        return False
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def unshared() -> list[str]:
    """A network without a route, where that is allowed."""
    if not allowed("unshare", "-rn", "true"):
        return []
    return ["unshare", "-rn", sys.executable, "-c", LOOPBACK_UP]


def traced(output: Path) -> list[str]:
    """Every address that is named, written down, where that is allowed."""
    strace, seen = shutil.which("strace"), "trace=connect,sendto,sendmsg,sendmmsg"
    if strace is None or not allowed("strace", "-f", "true"):
        return []
    return [
        strace,
        "-f",
        "--seccomp-bpf",
        "-qq",
        "-e",
        seen,
        "-e",
        "signal=none",
        "-o",
        str(output),
    ]


def outside(trace: Path) -> list[str]:
    """The addresses of other machines."""
    found = [ADDRESS.search(line) for line in trace.read_text(errors="replace").splitlines()]
    addresses = [(one[1], one[2] or "") for one in found if one is not None]
    return [
        f"{family} {address}"
        for family, address in addresses
        if family not in LOCAL and not address.startswith(("127.", "::1"))
    ]


@pytest.mark.parametrize(
    "way",
    ["--no-prefect", pytest.param("--prefect", marks=pytest.mark.prefect)],
)
def test_a_run_asks_nothing_of_the_network(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In process, and as a flow on the embedded server, with all their processes."""
    trace = tmp_path / "trace"
    around = [*unshared(), *traced(trace)]
    if not around:
        pytest.skip("neither unshare nor strace is here and allowed")
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path / "home"))
    settings = write_small_campaign(tmp_path / "campaign")
    run = [*around, sys.executable, "-m", "flows.cli", "run", str(settings), way]
    told = subprocess.run(run, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr
    assert "report.html" in told.stdout
    assert ("/runs/flow-run/" in told.stdout) == (way == "--prefect")
    if trace.exists():
        assert outside(trace) == []


def test_the_trace_would_show_a_connection(tmp_path: Path) -> None:
    """192.0.2.1 is an address for documentation; connecting a datagram socket sends nothing."""
    trace = tmp_path / "trace"
    if not (around := traced(trace)):
        pytest.skip("strace is not here and allowed")
    subprocess.run([*around, sys.executable, "-c", CONNECTS], check=False)
    assert outside(trace) == ["AF_INET 192.0.2.1"]
