"""``stmoe``: successor tables between adjacent layers, and the previous window (ST-MoE, arXiv 2606.15453).

For every pair of adjacent layers each source expert keeps up to ``successors`` experts of the next layer, each with
a 2-bit saturating confidence (0 to 3). When the next layer's event is known, the tables of the experts that were
active in the layer before learn: a listed successor that came gains 1, one that did not loses 1; then the experts
that came and are not listed are entered with confidence ``new``, ascending id, into free places, and where none is
left in place of a dead successor (confidence 0), the oldest first. A live successor is never replaced: where all
live, what came is not entered.

A guess for layer l sums the confidences over the experts active in layer l-1; each expert of the previous window's
event at layer l has 2 more. What reaches 2 is read ahead, the largest sum first, ties by lowest id.

``successors=8`` and ``new=1`` are assumed (the source does not give them). Choices where it leaves room: the guess
acts after layer l-1, for l >= 1 (that is when its sources are known), whether or not the trace has candidates;
sources and successors are the unions of the rows that count; decode windows alone teach; the tables and the previous
window are carried over from session to session, as the arena is. A dead successor stays listed until its place is
needed, and gains again when it comes. Under ``rerouted`` routes it learns from the replayed picks; ``predicted``
routes are refused. It learns from every event, whatever a gate withheld.
"""

from replay.arena.record import PAST
from replay.arena.sort import sort_words
from replay.declare.policy import Option, Policy
from replay.jit import called, inline
from replay.predict.previous import last_of
from replay.predict.ranking import ACTING

POLICY = Policy(
    name="stmoe",
    kind="read-ahead",
    summary="successors of the layer before's experts, with confidence, and the previous window's",
    needs="S",
    source="ST-MoE, arXiv 2606.15453",
    options={
        "successors": Option("int", 8, main=True, low=1, high=64),
        "new": Option("int", 1, low=1, high=3),
        **ACTING,
    },
)

SURE = 3
"""Largest confidence of a successor."""
ENOUGH = 2
"""Sum from which an expert is read ahead, and what the previous window's experts have to begin with."""
HEAD = 2  # the tables' first words: successors of a source at most, confidence of a new one


def words(shape, options):
    """Words of memory: the last events, and the tables of every pair of adjacent layers."""
    tables = (shape.layers - 1) * shape.experts * (options["successors"] + 1)
    return shape.layers * (shape.experts + 1) + HEAD + tables


def setup(m, shape, options):
    """Write the options to the head of the tables."""
    head = m[PAST] + shape.layers * (shape.experts + 1)
    m[head], m[head + 1] = options["successors"], options["new"]


@inline
def table_of(m, layer, source, layers, experts):
    """Address of a source's successors in ``layer``: a count, then words of 4 * id + confidence, oldest first."""
    head = m[PAST] + layers * (experts + 1)
    return head + HEAD + ((layer - 1) * experts + source) * (m[head] + 1)


@inline
def enter_successor(m, at, most, word):
    """Enter a successor into a free place, or in place of the oldest dead one; returns False where all live."""
    n = m[at]
    if n == most:
        dead = at + 1
        while dead <= at + n and m[dead] & SURE > 0:
            dead += 1
        if dead > at + n:
            return False
        for i in range(dead, at + n):
            m[i] = m[i + 1]
        n -= 1
    m[at + 1 + n] = word
    m[at] = n + 1
    return True


@called
def teach(m, layer, layers, experts, wants, low, high, work):
    """Let the tables of the layer before's experts learn what this layer's event wanted."""
    head = m[PAST] + layers * (experts + 1)
    most, new = m[head], m[head + 1]
    sources = last_of(m, layer - 1, experts)
    for j in range(m[sources]):
        at = table_of(m, layer, m[sources + 1 + j], layers, experts)
        work.stamp[0] += 1
        stamp = work.stamp[0]
        for i in range(low, high):
            work.mark[wants[i]] = stamp
        for i in range(at + 1, at + 1 + m[at]):
            e, sure = m[i] >> 2, m[i] & SURE
            if work.mark[e] == stamp:
                work.mark[e] = 0  # it is listed
                m[i] += sure < SURE
            else:
                m[i] -= sure > 0
        for i in range(low, high):
            if work.mark[wants[i]] == stamp and not enter_successor(m, at, most, 4 * wants[i] + new):
                break


@called
def propose(m, layer, layers, experts, work):
    """Experts of the layer whose sum is enough, into ``work.merged``, the largest first; returns how many."""
    work.stamp[0] += 1
    stamp = work.stamp[0]
    total, found = work.slots, 0
    before = last_of(m, layer, experts)
    for i in range(before + 1, before + 1 + m[before]):
        e = m[i]
        work.mark[e], total[e], work.merged[found] = stamp, ENOUGH, e
        found += 1
    sources = last_of(m, layer - 1, experts)
    for j in range(m[sources]):
        at = table_of(m, layer, m[sources + 1 + j], layers, experts)
        for i in range(at + 1, at + 1 + m[at]):
            e = m[i] >> 2
            if work.mark[e] != stamp:
                work.mark[e], total[e], work.merged[found] = stamp, 0, e
                found += 1
            total[e] += m[i] & SURE
    count = 0
    for i in range(found):
        e = work.merged[i]
        if total[e] >= ENOUGH:
            work.merged[count] = e - total[e] * experts
            count += 1
    sort_words(work.merged, 0, count)
    for i in range(count):
        work.merged[i] %= experts
    return count
