"""``budget:bytes``: at most that many read-ahead bytes a window, first come, first served (policies.md).

A guess is admitted while it fits what is left of the window's budget: predictions in the order in which they come,
each prediction's candidates best first. Counted are the bytes that are issued: a guess that another gate withholds
or that finds no victim costs nothing. A guess that does not fit is withheld; a smaller one after it may fit.

``reserve=0.25`` keeps that share of the nominal bandwidth before each deadline for urgent reads: a guess is admitted
only where the nominal plan (:mod:`replay.clock.nominal`), with the device at the other 75%, moves it and all that
this gate let through before it by the time its event asks. Either of the two may be given alone. So with ``reserve``
a guess that cannot be moved by its deadline is withheld, however small the share: on the default clock a guess made
one layer ahead has 200 us (pre) for 80 us of latency and its bytes at 6 GB/s, at most 0.7 MB. Where experts are
larger, ``reserve`` lets only guesses through that are made more layers ahead; none, where there are no such guesses.
"""

from replay.clock.nominal import done
from replay.declare.policy import Option, Policy
from replay.errors import InputError
from replay.gate.admission import (
    BYTES,
    CANDIDATE,
    DEADLINE,
    DEVICE,
    ISSUED,
    LATENCY,
    NOW,
    WINDOW,
    area,
)
from replay.jit import gate

POLICY = Policy(
    name="budget",
    kind="gate",
    summary="bytes of read-ahead a window; a share of bandwidth kept for urgent reads",
    needs="S",
    source="no paper: read-ahead within a byte budget",
    options={
        "bytes": Option("bytes", None, main=True, low=0),
        "reserve": Option("share", None, low=0.0, high=0.999),
    },
)

LEFT, LIMIT, FREE = 0, 1, 2
"""Own words: bytes left, bytes a window (-1: no limit), when the bytes issued so far are moved. The own real is the
share of the device that guesses may use; 0: no plan."""


def planned(options):
    """The plan is asked for only where a share is kept."""
    return options.get("reserve") is not None


def lay(options, shape, ranking):
    """Write the budget and the share.

    Raises
    ------
    InputError
        Neither is given.
    """
    limit, reserve = options.get("bytes"), options.get("reserve")
    if limit is None and reserve is None:
        raise InputError("budget needs a size a window or a share: write budget:8MB or budget:reserve=25%")
    left = -1 if limit is None else limit
    return area(words=[left, left, 0], reals=[0.0 if reserve is None else 1.0 - reserve])


@gate
def ask(operation, at, reals_at, words, reals):
    """Compare what is left and the plan, or take the bytes off."""
    if operation == WINDOW:
        words[at + LEFT] = words[at + LIMIT]
        return 0
    if operation != CANDIDATE and operation != ISSUED:
        return 0
    size, share = words[BYTES], reals[reals_at]
    moved = words[at + FREE]
    if share > 0.0:
        moved = done(words[NOW], words[LATENCY], moved, size, share * reals[DEVICE])
    if operation == ISSUED:
        words[at + LEFT] -= size
        words[at + FREE] = moved
        return 0
    if words[at + LIMIT] >= 0 and size > words[at + LEFT]:
        return 0
    return 0 if share > 0.0 and moved > words[DEADLINE] else 1
