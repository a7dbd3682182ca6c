"""Where workers come from: processes of our own, or a Dask cluster that runs already (``distributed``)."""

from __future__ import annotations

import asyncio
import logging
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from typing import Any

from replay.errors import InputError
from replay.trace.scratch import scratch

ANSWER_S = 10.0
"""Seconds in which a scheduler has to answer."""

WAIT_S = 60.0
"""Seconds that a cluster may be without workers."""

KEPT = "finished cells are kept, the same command goes on"
GONE = f"the cluster's scheduler does not answer any more; {KEPT}"


def need_distributed(flag: str) -> None:
    """Refuse what needs ``distributed`` where it is not installed.

    Parameters
    ----------
    flag : str
        What asks for it.

    Raises
    ------
    InputError
        It is not installed.
    """
    try:
        import distributed  # noqa: F401
    except ImportError:
        raise InputError(
            f"{flag}: needs Dask's distributed; install the extra: pip install 'moe-replay[sweep]'"
        ) from None


@contextmanager
def local_cluster(workers: int) -> Iterator[Any]:
    """A client of worker processes on this machine, one thread each; they end with the block.

    Parameters
    ----------
    workers : int

    Yields
    ------
    distributed.Client
    """
    from distributed import Client, LocalCluster

    _hush()  # before the cluster notes what to put back when it closes
    with scratch("workers") as folder:
        with _of_the_terminal_blocked():
            cluster = LocalCluster(
                n_workers=workers, threads_per_worker=1, processes=True, dashboard_address="127.0.0.1:0",
                local_directory=str(folder), silence_logs=logging.CRITICAL, scheduler_kwargs={"dashboard": False},
            )  # fmt: skip
        with cluster, Client(cluster) as client:
            yield client


def _hush() -> None:
    """Leave it to us to tell what fails, once."""
    for name in ("distributed", "distributed.client", "tornado", "asyncio"):
        logging.getLogger(name).setLevel(logging.CRITICAL)


@contextmanager
def _of_the_terminal_blocked() -> Iterator[None]:
    """Start threads and processes that Ctrl-C and a closed terminal pass by: it is for the driver to end them.

    The mask of signals is handed on to every thread and process that is started from here, also later ones.
    """
    from multiprocessing import resource_tracker

    ours = {signal.SIGINT, signal.SIGHUP}
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ours)
    try:
        resource_tracker.ensure_running()  # which unblocks them
        signal.pthread_sigmask(signal.SIG_BLOCK, ours)
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextmanager
def cluster_at(address: str) -> Iterator[Any]:
    """A client of a cluster that runs already.

    Parameters
    ----------
    address : str
        Of its scheduler: ``tcp://host:8786``.

    Yields
    ------
    distributed.Client

    Raises
    ------
    InputError
        No scheduler answers there.
    """
    from distributed import Client

    _hush()
    try:
        kind = asyncio.run(asyncio.wait_for(_kind(address), ANSWER_S))
        if kind != "Scheduler":
            raise ValueError(f"a {kind.lower()} answers")
        client = Client(address, timeout=ANSWER_S, set_as_default=False)
    except Exception as problem:  # of the network, of the address, of whatever answers there
        reason = " ".join(str(problem).split())[:200] or f"none within {ANSWER_S:.0f} s"
        raise InputError(
            f"--cluster {address}: no scheduler answers ({reason}); give one such as tcp://127.0.0.1:8786"
        ) from None
    with closing(client):
        yield client


async def _kind(address: str) -> str:
    """What answers at an address; unlike a client's own handshake this can be given up."""
    from distributed.core import rpc
    from distributed.security import Security

    async with rpc(address, connection_args=Security().get_connection_args("client")) as there:
        return str((await there.identity())["type"])


def threads_of(client: Any) -> int:
    """Threads of a cluster's workers.

    Parameters
    ----------
    client : distributed.Client

    Raises
    ------
    InputError
        Its scheduler does not answer any more.
    """
    try:
        if client.status == "running":
            return int(sum(client.sync(client.scheduler.ncores, callback_timeout=ANSWER_S).values()))
    except Exception:  # noqa: S110 (of the network, in many kinds)
        pass
    raise InputError(GONE)


def some_threads(client: Any, wait_s: float, say: Callable[[str], None]) -> int:
    """Threads of a cluster's workers, as soon as there are some.

    Parameters
    ----------
    client : distributed.Client
    wait_s : float
        Seconds to wait for them.
    say : callable
        Told that there are none yet.

    Raises
    ------
    InputError
        There were none for so long.
    """
    began, told = time.monotonic(), False
    while not (threads := threads_of(client)):
        waited = time.monotonic() - began
        if waited > wait_s:
            raise InputError(
                f"the cluster has had no worker for {wait_s:g} s; start some (dask worker ADDRESS), or wait longer "
                f"with --wait; {KEPT}"
            )
        if not told and waited > 2:
            told = True
            say(f"the cluster has no worker; waiting up to {wait_s:g} s for one")
        time.sleep(0.2)
    return threads
