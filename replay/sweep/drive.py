"""Who plays the passes: this process, worker processes of its own, or a Dask cluster (``distributed``).

Workers hand tables back and only the driver writes, so a cluster needs no shared folder for results. A pass whose
worker dies is given to another by the scheduler; one that keeps killing workers is halved, down to single cells. The
driver keeps a few passes a worker under way, so that the list of cells may be long.
"""

from __future__ import annotations

import contextlib
import logging
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from replay.errors import InputError, ReplayError
from replay.sweep.plan import Pass, halves
from replay.sweep.task import play_pass

AHEAD = 3
"""Passes under way for each worker's thread."""

Finished = Callable[[str, Any], None]
"""Called with a cell's name and its table."""


def play_here(passes: Sequence[Pass], threads: int | None, done: Finished) -> None:
    """Play passes in this process, one after the other.

    Parameters
    ----------
    passes : sequence of Pass
    threads : int, optional
        Lanes at once; the machine's cores where None.
    done : callable
        Takes each cell as its pass ends.
    """
    for each in passes:
        for name, rows in play_pass(each, threads):
            done(name, rows)


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

    with tempfile.TemporaryDirectory(prefix="replay-sweep-", ignore_cleanup_errors=True) as scratch:
        cluster = LocalCluster(
            n_workers=workers, threads_per_worker=1, processes=True, dashboard_address=None,
            local_directory=scratch, silence_logs=logging.CRITICAL,
        )  # fmt: skip
        with cluster, Client(cluster) as client:
            yield client


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
        Nobody answers there.
    """
    from distributed import Client

    logging.getLogger("distributed").setLevel(logging.CRITICAL)
    try:
        client = Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError, TypeError) as problem:
        reason = " ".join(str(problem).split())[:200]
        raise InputError(
            f"--cluster {address}: no scheduler answers ({reason}); give one such as tcp://127.0.0.1:8786"
        ) from None
    with contextlib.closing(client):
        yield client


def play_there(client: Any, passes: Sequence[Pass], done: Finished) -> None:
    """Play passes on a cluster's workers.

    Parameters
    ----------
    client : distributed.Client
    passes : sequence of Pass
    done : callable
        Takes each cell as it comes back.

    Raises
    ------
    ReplayError
        A pass cannot be played (its error), or a single cell killed its workers again and again.
    InputError
        The cluster went away.
    """
    from distributed import as_completed

    waiting = list(reversed(passes))
    under_way: dict[Any, Pass] = {}
    results = as_completed(loop=client.loop)

    def fill() -> None:
        threads = max(sum(client.nthreads().values()), 1)
        while waiting and len(under_way) < AHEAD * threads:
            each = waiting.pop()
            future = client.submit(play_pass, each, key=_key(each), pure=False)
            under_way[future] = each
            results.add(future)

    fill()
    while under_way:
        future = next(results)
        each = under_way.pop(future)
        waiting.extend(_taken(future, each, done))
        fill()


def _key(each: Pass) -> str:
    """The name of a pass on the scheduler: the same for the same cells."""
    from hashlib import sha256

    names = " ".join(cell.name for cell in each.cells)
    return f"replay-{sha256(names.encode()).hexdigest()[:32]}"


def _taken(future: Any, each: Pass, done: Finished) -> list[Pass]:
    """Take a pass's tables; what has to be tried again in smaller parts is returned."""
    from distributed import KilledWorker

    try:
        tables = future.result()
    except ReplayError:
        raise
    except KilledWorker:
        if len(each.cells) > 1:
            return halves(each)
        cell = each.cells[0]
        raise InputError(
            f"cell {cell.name} ({cell.policy} on {each.place}): its workers died again and again; give them more "
            "memory and run the same command again, finished cells are kept"
        ) from None
    except Exception as problem:  # of the cluster: cancelled, connection lost, a worker without this package
        reason = " ".join(str(problem).split())[:200]
        raise InputError(
            f"the cluster gave up a pass ({type(problem).__name__}: {reason}); are its scheduler and workers up, and "
            "is this version of replay installed there? the same command goes on, finished cells are kept"
        ) from None
    for name, rows in tables:
        done(name, rows)
    return []
