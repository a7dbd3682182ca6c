"""Start ``recorded``: the first resident snapshots, inserted before the first window (semantics 4)."""

from __future__ import annotations

import replay.arena.record as ar
import replay.engine.frame as fr
from replay.arena.free_slot import take_free
from replay.arena.record import part_of
from replay.engine.move import find_victim, place, publish, trim
from replay.jit import loop


@loop(fr.START)
def start_layer(m, ids, layer, experts, enter, victim):
    """Start ``recorded``: insert a layer's snapshot as fresh loads without a claim, ascending id.

    Where the arena is smaller than the snapshots, a load evicts in victim order, or is declined by a policy that may
    decline (it is not resident then), and a byte budget is trimmed after each load.
    """
    m[ar.OWN] = 0
    for e in ids:
        key = m[ar.KEYS] + ar.KEY_SIZE * (layer * experts + e)
        p = part_of(m, key)
        m[ar.NOW] += 1
        s = take_free(m, p)
        if s < 0:
            s = find_victim(m, p, key, victim)
        if s < 0:
            continue
        place(m, p, s, key, layer, ar.RESIDENT)
        m[s + ar.PIN] = m[ar.NOW]
        publish(m, p, s, enter)
        if m[ar.BYTES_BOUND]:
            trim(m, p, victim)
    m[ar.OWN] = 1
    return 0
