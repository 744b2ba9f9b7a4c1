"""Threads, progress and compiled kernels, for every computation of this room.

Rows are divided into chunks, which threads work on. The number of chunks depends on the data alone. Each
chunk has its own sums, and the caller adds these in the order of chunks, so that the result is the same, to
the bit, on any number of threads.

A long computation calls ``progress(what, done, total)``:

>>> from quality import dawid_skene, encode
>>> labels = encode(["ann", "bob"] * 2, [1, 1, 2, 2], ["yes", "yes", "no", "no"])
>>> result = dawid_skene(labels, max_iter=2, tol=0.0, progress=print)
Dawid–Skene 1 2
Dawid–Skene 2 2

Numba compiles loops at their first call; :func:`kernel_folders` returns the folders that keep compiled
code.
"""

import inspect
import os
import signal
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache, cached_property
from hashlib import sha1
from pathlib import Path
from stat import S_ISDIR, S_ISVTX, S_IWOTH
from tempfile import gettempdir
from typing import Any, TypeAlias, TypeVar, no_type_check

import numpy as np
from jaxtyping import Int64
from llvmlite import ir
from numba import config, njit, types
from numba.core.caching import CompileResultCacheImpl, FunctionCache, InTreeCacheLocator
from numba.core.runtime.nrt import rtsys
from numba.extending import intrinsic

__all__ = [
    "KernelFolders",
    "Progress",
    "check_threads",
    "chunk_starts",
    "counter",
    "kernel",
    "kernel_folders",
    "prefetch",
    "shared_out",
]

Progress: TypeAlias = Callable[[str, int, int], object]
"""Called as ``progress(what, done, total)``: the name of the work, and steps made out of how many.

It is called in the caller's thread, after every iteration, or after several where iterations are
short. `done` grows; work that settles early stops short of `total`. Work whose steps are not counted is
announced as ``progress(what, 0, 1)``, and where steps differ the name of the one that begins stands
after a colon: "candidates: MACE". Its return value is ignored; an
exception that it raises ends the work, which is how to make a cancel button. It never changes the
result.
"""


def counter(
    progress: Progress | None, what: str, total: int, *, before: int = 0
) -> Callable[[int], object]:
    """Return a function that reports the steps made after `before`; it does nothing without progress."""
    if progress is None:
        return lambda _: None
    return lambda done: progress(what, before + done, total)


Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(
    function: Function | None = None, *, forceinline: bool = False, fused: bool = False
) -> Any:
    """Compile a loop with numba at its first call; it runs without the interpreter's lock.

    In a `fused` kernel a product and the sum that it goes into may be one instruction, rounded once.

    Compiled code is loaded from the folders of :func:`kernel_folders`, and saved there. The shape
    checks of the tests must not wrap what numba compiles.
    """
    if function is None:
        return lambda inner: kernel(inner, forceinline=forceinline, fused=fused)
    options: dict[str, Any] = {"forceinline": forceinline, "no_cfunc_wrapper": True}
    options["fastmath"] = {"contract"} if fused else False
    dispatcher: Any = njit(nogil=True, **options)(no_type_check(inspect.unwrap(function)))
    dispatcher._cache = _KernelCache(dispatcher.py_func)
    return dispatcher


def _prefetch(typing: Any, array: Any, place: Any) -> Any:
    """Request the cache line of ``array[place]``, in a kernel, without waiting for it."""

    def code(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        line = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        kind = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        known = builder.module.declare_intrinsic("llvm.prefetch", [byte], kind)
        # to read, for as near a cache as there is, of data
        builder.call(known, [line, *(ir.Constant(number, value) for value in (0, 3, 1))])
        return context.get_dummy_value()

    return types.void(array, place), code


prefetch: Any = intrinsic(_prefetch)


@dataclass(frozen=True, slots=True)
class KernelFolders:
    """Result of :func:`kernel_folders`.

    Parameters
    ----------
    read
        Folders that compiled kernels are loaded from, in this order.
    write
        The last of them, if it is writable; None if newly compiled kernels are not kept.
    temporary
        True if `write` is a private folder among the temporary files.
    """

    read: tuple[Path, ...]
    write: Path | None
    temporary: bool


@cache
def kernel_folders(source: Path = Path(__file__)) -> KernelFolders:
    """Return the folders that keep the compiled kernels of a source file.

    The candidates are a folder below ``NUMBA_CACHE_DIR``, ``__pycache__`` beside the source, the user's
    cache (``XDG_CACHE_HOME``, else ``~/.cache``), and a private folder among the temporary files. The first
    writable one is written to; existing ones before it are read.

    Parameters
    ----------
    source
        A Python file of this installation.

    Notes
    -----
    **Guarantees.** Code is loaded only if it was compiled from the same source, including that of the
    kernels it calls. A cache holds code. So a folder is used only if it is not writable for everyone and
    belongs to this user, to root or to the owner of the source; a folder among the temporary files only if
    it belongs to this user and has mode 0700. Without any folder kernels are compiled in every process,
    with the same results.

    Examples
    --------
    >>> folders = kernel_folders()
    >>> folders.write is None or folders.write == folders.read[-1]
    True
    """
    name = f"{source.parent.name}_{sha1(bytes(source.parent.resolve())).hexdigest()}"
    read = []
    for folder, temporary in _candidates(source, name):
        with suppress(OSError):
            folder.mkdir(parents=True, exist_ok=True)
        if not _is_trusted(folder, source):
            continue
        read.append(folder)
        if os.access(folder, os.W_OK):
            return KernelFolders(tuple(read), folder, temporary)
    return KernelFolders(tuple(read), None, temporary=False)


def _candidates(source: Path, name: str) -> Iterator[tuple[Path, bool]]:
    """Yield folders for kernels, the best first, and whether they are temporary."""
    if configured := getattr(config, "CACHE_DIR", ""):
        yield Path(configured, name), False
    yield source.parent / "__pycache__", False
    with suppress(RuntimeError):  # no home
        yield Path(os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()) / name, False
    with suppress(OSError):  # no folder for temporary files either
        private = Path(gettempdir(), f"crowdassay-kernels-{os.getuid()}")
        private.mkdir(mode=0o700, exist_ok=True)
        found = private.lstat()
        if S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not found.st_mode & 0o077:
            yield private / name, True


def _is_trusted(folder: Path, source: Path) -> bool:
    """Return whether only this user, root and the owner of the source can write code there."""
    try:
        found, above = folder.stat(), folder.parent.stat()
        owners = {os.getuid(), 0, source.stat().st_uid}
    except OSError:
        return False
    is_safe_above = not above.st_mode & S_IWOTH or above.st_mode & S_ISVTX
    is_own = found.st_uid in owners and not found.st_mode & S_IWOTH
    return S_ISDIR(found.st_mode) and is_own and bool(is_safe_above)


@cache
def _numba_cache(folder: str) -> type[FunctionCache]:
    """Return numba's cache in a folder, which may be read-only."""

    class Folder(InTreeCacheLocator):
        def __init__(self, function: Callable[..., Any], file: str) -> None:
            super().__init__(function, file)
            self._function = function

        def get_source_stamp(self) -> str:
            return _source_stamp(self._function)

        def get_cache_path(self) -> str:
            return folder

        def ensure_cache_path(self) -> None:
            pass

    class Form(CompileResultCacheImpl):
        _locator_classes = [Folder]  # noqa: RUF012 - numba declares it on instances

    class FolderCache(FunctionCache):
        _impl_class = Form

        def load_overload(self, signature: Any, context: Any) -> Any:
            with _signals_held(), self._guard_against_spurious_io_errors():
                # loaded code calls numba's runtime; numba would first import all modules for compilation
                rtsys.initialize(context)
                return self._load_overload(signature, context)

    return FolderCache


@contextmanager
def _signals_held() -> Iterator[None]:
    """Run the block, and handle signals that came in it afterwards.

    LLVM asks Python for a kernel's code, and takes an exception there for code that is missing: a Ctrl-C in
    that moment would end the process.
    """
    came: list[int] = []
    former: dict[int, Any] = {}
    try:
        if threading.current_thread() is threading.main_thread():  # which alone handles signals
            for one in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                if callable(handler := signal.getsignal(one)):
                    former[one] = handler
                    signal.signal(one, lambda number, _: came.append(number))
        yield
    finally:
        for number, handler in former.items():
            signal.signal(number, handler)
        for number in came:
            signal.raise_signal(number)


def _source_stamp(kernel: Callable[..., Any]) -> str:
    """Return a digest of everything that a kernel is compiled from.

    That is its file, the files of the kernels that it calls, which are compiled into it, and the constants
    of their modules. Numba checks the kernel's own file alone.
    """
    seen, todo, parts = set[Callable[..., Any]](), [kernel], {_digest_of(__file__)}
    while todo:
        function = todo.pop()
        if function in seen:
            continue
        seen.add(function)
        parts.add(_digest_of(function.__code__.co_filename))
        for name in function.__code__.co_names:
            value = function.__globals__.get(name)
            if callable(inner := getattr(value, "py_func", None)):
                todo.append(inner)
            elif isinstance(value, int | float | tuple | np.generic | np.ndarray):
                exact = value.tobytes() if isinstance(value, np.ndarray) else value
                parts.add(f"{name} {exact!r}")
    return sha1("\n".join(sorted(parts)).encode()).hexdigest()


@cache
def _digest_of(file: str) -> str:
    return sha1(Path(file).read_bytes()).hexdigest()


class _KernelCache:
    """The compiled code of one kernel, in the form that numba's dispatcher expects."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._folders = kernel_folders(Path(function.__code__.co_filename))
        self.cache_path = str(self._folders.write) if self._folders.write else None

    @cached_property
    def _saved(self) -> list[FunctionCache]:
        """Caches in each folder; found once the kernels that this one calls are defined."""
        with suppress(RuntimeError, OSError):  # the source is no file: do without
            return [_numba_cache(str(folder))(self._function) for folder in self._folders.read]
        return []

    def load_overload(self, signature: Any, context: Any) -> Any:
        """Return the compiled code for a signature, or None."""
        for saved in self._saved:
            with suppress(OSError):
                found = saved.load_overload(signature, context)
                if found is not None:
                    return found
        return None

    def save_overload(self, signature: Any, code: Any) -> None:
        """Save compiled code; a full disk is no reason to stop."""
        if self._saved and self._folders.write is not None:
            with suppress(OSError):
                self._saved[-1].save_overload(signature, code)


MIN_ROWS = 2**15  # a smaller chunk is not worth handing over
MAX_CHUNKS = 8

Result = TypeVar("Result")


def check_threads(threads: int | None) -> None:
    """Raise ValueError unless `threads` is None or at least 1."""
    if not (threads is None or threads >= 1):
        raise ValueError(f"threads must be >= 1 or None, got threads={threads}")


def chunk_starts(
    start: Int64[np.ndarray, " bounds"], least_rows: int = MIN_ROWS
) -> Int64[np.ndarray, " cuts"]:
    """Return the first unit of each chunk, and the end: about equal numbers of rows, at most eight chunks.

    Rows of unit ``u`` are ``start[u]:start[u + 1]``. A chunk has at least about `least_rows`, enough to be
    worth its own sums.
    """
    n_rows = int(start[-1])
    n_chunks = min(max(n_rows // max(least_rows, MIN_ROWS), 1), MAX_CHUNKS)
    if n_chunks == 1:
        return np.array([0, len(start) - 1], dtype=np.int64)
    inner = np.searchsorted(start, np.arange(1, n_chunks) * n_rows // n_chunks)
    return np.concatenate([[0], inner, [len(start) - 1]]).astype(np.int64)


@contextmanager
def shared_out(
    threads: int | None, n_chunks: int
) -> Iterator[Callable[[Callable[[int], Result]], list[Result]]]:
    """Yield a function that runs work on every chunk number and returns the results in their order."""
    n_threads = min(threads or os.cpu_count() or 1, n_chunks)
    if n_threads <= 1:
        yield lambda work: [work(chunk) for chunk in range(n_chunks)]
        return
    with ThreadPoolExecutor(n_threads) as pool:
        yield lambda work: list(pool.map(work, range(n_chunks)))
