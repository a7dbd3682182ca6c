"""``calibrated:q=FILE,price=..``: admit what is worth its bytes (policies.md).

A guess is admitted where ``q * saved > price * bytes + victim``:

- ``q``: the probability that the expert is selected, looked up in a file of ``replay calibrate`` by layer, rank among
  its row's picks and margin to the row's k-th. It is that of candidates that are not resident, the only ones that a
  gate is asked about.
- ``saved``: the stall that the read spares, microseconds, by the nominal plan (:mod:`replay.clock.nominal`). Done by
  the time its event asks: a whole demand read (latency + bytes / min(stream, device)). Later: that much less than a
  whole one as it comes late, at least 0. So a late payoff is smaller, not nothing.
- ``price``: microseconds a byte (default 0), or ``budget:80MB/token`` (:mod:`replay.learning.price`). ``victim``: what
  evicting costs, microseconds a guess (default 0).

The plan moves what this gate let through, and was issued, at the device's rate, one read after the other. A file that
was fitted for another model shape or another K is refused. How it ranks (p, b, r1) is the user's to match.
"""

from pathlib import Path

import numpy as np

from replay.clock.nominal import demand_time, done
from replay.declare.policy import Option, Policy
from replay.errors import InputError
from replay.gate.admission import (
    BYTES,
    CANDIDATE,
    DEADLINE,
    DEVICE,
    ISSUED,
    LATENCY,
    MARGIN,
    NOW,
    RANK,
    STREAM,
    TARGET,
    area,
)
from replay.jit import gate

POLICY = Policy(
    name="calibrated",
    kind="gate",
    summary="probability x stall spared > price x bytes + victim",
    needs="C",
    source="no paper: expected value under a byte price",
    options={
        "q": Option("text", None, main=True),
        "price": Option("price", 0.0, low=0.0),
        "victim": Option("float", 0.0, low=0.0),
    },
    ranked=True,
)

FREE, RANKS, EDGES = 0, 1, 2
"""Own words: when the bytes issued so far are moved, ranks, edges of the bins. Own reals: price, victim, the edges,
then q by layer, rank and bin."""


def planned(options):
    """The plan tells what comes in time."""
    return True


def lay(options, shape, ranking):
    """Read the file; write price, victim, edges and table.

    Raises
    ------
    InputError
        No file is named, or it cannot be read, or it was fitted for another shape or K.
    """
    from replay.calibration.file import read_q

    if options.get("q") is None:
        raise InputError(
            "calibrated needs a file: write calibrated:q=FILE (`replay calibrate TRACE --out FILE`)"
        )
    table = read_q(Path(options["q"]), shape.layers, shape.experts, shape.top_k, ranking.k)
    reals = [options["price"], options["victim"], *table.edges, *table.q_absent.ravel()]
    return area(words=[0, ranking.k, len(table.edges)], reals=np.array(reals))


@gate
def ask(operation, at, reals_at, words, reals):
    """Weigh what a guess spares against what it costs, or move its bytes."""
    if operation != CANDIDATE and operation != ISSUED:
        return 0
    moved = done(words[NOW], words[LATENCY], words[at + FREE], words[BYTES], reals[DEVICE])
    if operation == ISSUED:
        words[at + FREE] = moved
        return 0
    edges, row = words[at + EDGES], reals_at + 2
    cell = 0
    while cell < edges and reals[row + cell] <= reals[MARGIN]:
        cell += 1
    place = words[TARGET] * words[at + RANKS] + words[RANK]
    q = reals[row + edges + place * (edges + 1) + cell]
    saved = demand_time(words[LATENCY], words[BYTES], reals[STREAM], reals[DEVICE])
    late = moved - words[DEADLINE]
    if late > 0:
        saved = max(saved - late, 0)
    return 1 if q * (saved / 1000.0) > reals[reals_at] * words[BYTES] + reals[reals_at + 1] else 0
