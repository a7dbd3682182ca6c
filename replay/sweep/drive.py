"""Who plays the passes: this process, or workers (:mod:`replay.sweep.cluster`).

Workers hand tables back and only the driver writes, so a cluster needs no shared folder for results. A pass whose
worker dies is given to another by the scheduler; one that keeps killing workers is halved, down to single cells. The
driver keeps a few passes a worker under way, so that the list of cells may be long, and looks after the cluster while
it waits: a scheduler that does not answer, or a cluster that stays without workers, ends the sweep.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any

from replay.errors import InputError, ReplayError
from replay.sweep.cluster import GONE, KEPT, WAIT_S, some_threads
from replay.sweep.plan import Pass, halves
from replay.sweep.task import play_pass

AHEAD = 3
"""Passes under way for each worker's thread."""

LOOK_S = 1.0
"""Seconds without a result after which the cluster is looked after."""

HAND_OVER_S = 120.0
"""Seconds in which the tables of a pass have to come over."""

Finished = Callable[[str, Any], None]
"""Called with a cell's name and its table."""


def play_here(
    passes: Sequence[Pass], threads: int | None, done: Finished,
    progress: Callable[[Pass, int], None] | None = None,
) -> None:  # fmt: skip
    """Play passes in this process, one after the other.

    Parameters
    ----------
    passes : sequence of Pass
    threads : int, optional
        Lanes at once; the machine's cores where None.
    done : callable
        Takes each cell as its pass ends.
    progress : callable, optional
        Called with a pass and the windows of it that are done.
    """
    for each in passes:
        told = None if progress is None else partial(progress, each)
        for name, rows in play_pass(each, threads, told):
            done(name, rows)


def play_there(
    client: Any, passes: Sequence[Pass], done: Finished, wait_s: float = WAIT_S,
    say: Callable[[str], None] = lambda _: None,
) -> None:  # fmt: skip
    """Play passes on a cluster's workers.

    Parameters
    ----------
    client : distributed.Client
    passes : sequence of Pass
    done : callable
        Takes each cell as it comes back.
    wait_s : float
        Seconds that the cluster may be without workers.
    say : callable
        Told what there is to know meanwhile.

    Raises
    ------
    ReplayError
        A pass cannot be played (its error), or a single cell killed its workers again and again.
    InputError
        The cluster went away, or stayed without workers.
    """
    from distributed.protocol import serialize_bytes

    waiting = list(reversed(passes))
    under_way: dict[Any, Pass] = {}
    results: SimpleQueue[Any] = SimpleQueue()

    play = _task()

    def fill(threads: int) -> None:
        while waiting and len(under_way) < AHEAD * threads:
            each = waiting.pop()
            sent = serialize_bytes(each)
            future = client.submit(play, each.cells[0].version, sent, key=_key(each), pure=False)
            under_way[future] = each
            future.add_done_callback(results.put)

    while waiting or under_way:
        fill(some_threads(client, wait_s, say))
        with suppress(Empty):
            future = results.get(timeout=LOOK_S)
            waiting.extend(_taken(future, under_way.pop(future), done))


def _task() -> Callable[[str, bytes], list[Any]]:
    """What a worker runs; it travels by value, so that one without this package tells so and does not break down."""

    def play(version: str, sent: bytes) -> list[Any]:
        from distributed import get_worker
        from distributed.protocol import deserialize_bytes

        from replay.errors import InputError
        from replay.sweep.cell import package_version

        try:
            if package_version() != version:
                raise InputError(
                    f"runs replay {package_version()}, the sweep {version}; install the same everywhere"
                )
            from replay.sweep.task import play_pass

            return play_pass(deserialize_bytes(sent))
        except InputError as problem:
            raise InputError(f"worker {get_worker().address}: {problem}") from None

    return play


def _key(each: Pass) -> str:
    """The name of a pass on the scheduler: the same for the same cells."""
    from hashlib import sha256

    names = " ".join(cell.name for cell in each.cells)
    return f"replay-{sha256(names.encode()).hexdigest()[:32]}"


def _taken(future: Any, each: Pass, done: Finished) -> list[Pass]:
    """Take a pass's tables; what has to be tried again in smaller parts is returned."""
    from distributed import CancelledError, KilledWorker

    try:
        tables = future.result(timeout=HAND_OVER_S)
    except ReplayError:
        raise
    except KilledWorker:
        if len(each.cells) > 1:
            return halves(each)
        cell = each.cells[0]
        raise InputError(
            f"cell {cell.name} ({cell.policy} on {each.place}): its workers died again and again; give them more "
            f"memory; {KEPT}"
        ) from None
    except (OSError, CancelledError):
        raise InputError(GONE) from None
    except Exception as problem:  # of a worker without this package, or with another Python
        reason = " ".join(str(problem).split())[:200]
        raise InputError(
            f"a worker cannot play a pass ({type(problem).__name__}: {reason}); is this version of replay installed "
            f"there? {KEPT}"
        ) from None
    for name, rows in tables:
        done(name, rows)
    return []
