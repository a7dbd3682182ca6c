"""``previous``: the layer's experts of the previous window, again; the baseline of most engines (policies.md).

What a layer's last event wanted is guessed for its next one, ascending id as ``oracle`` does: all rows that count,
no more and no less. Choices where the semantics leave room:

- It acts after layer l-1, for l >= 1, as ``oracle`` does on a trace without candidates; a candidates table is not
  looked at, so that its results do not depend on one. Layer 0 is not guessed.
- The previous window is the last decode window that was played: prefill windows neither guess nor teach, as a
  prompt's union says little of the next token. Warm windows teach.
- It is carried over from session to session, as the arena is: an engine between two requests forgets neither.
- Under ``rerouted`` routes it is what the previous window wanted in the replay; ``predicted`` routes are refused.
"""

from replay.arena.record import PAST
from replay.declare.policy import Policy
from replay.jit import called, inline
from replay.predict.ranking import ACTING

POLICY = Policy(
    name="previous",
    kind="read-ahead",
    summary="the layer's experts of the previous window",
    needs="S",
    source="the baseline of most engines",
    options=ACTING,
)


def words(shape, options):
    """Words of memory: for every layer a count and its last event's experts."""
    return shape.layers * (shape.experts + 1)


@inline
def last_of(m, layer, experts):
    """Address of a layer's last decode event: how many experts it wanted, then their ids, ascending."""
    return m[PAST] + layer * (experts + 1)


@called
def remember(m, layer, experts, wants, low, high):
    """Keep what a decode event wanted."""
    at = last_of(m, layer, experts)
    m[at] = high - low
    for i in range(low, high):
        m[at + 1 + i - low] = wants[i]


@called
def propose(m, layer, experts, merged):
    """The layer's last event again, into ``merged``; returns how many."""
    at = last_of(m, layer, experts)
    for i in range(m[at]):
        merged[i] = m[at + 1 + i]
    return m[at]
