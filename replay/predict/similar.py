"""The kernel of ``finemoe``: which stored map is most similar to a row, and what is guessed of it."""

from __future__ import annotations

from math import sqrt

import numpy as np
from numba import types

from replay.jit import inline, kernel

NEAR = 256
"""Maps whose products are summed at once."""

_F64_2D, _F64_3D = types.float64[:, ::1], types.float64[:, :, ::1]
_LISTS = types.Tuple((types.int64[::1], types.int32[::1]))


@inline
def _four(values, at):
    """Four values from ``at`` on."""
    return values[at], values[at + 1], values[at + 2], values[at + 3]


@inline
def _products(rows, layer, maps, used, out):
    """Add the rows' products with the first ``used`` maps at one layer: each sum takes the experts in order.

    Two rows and four experts share what is read of some maps, which stay in the nearest cache meanwhile.
    """
    experts, even, whole = len(maps), len(rows) // 2 * 2, len(maps) // 4 * 4
    for low in range(0, used, NEAR):
        high = min(low + NEAR, used)
        for e in range(0, whole, 4):
            one, two = maps[e, low:high], maps[e + 1, low:high]
            three, four = maps[e + 2, low:high], maps[e + 3, low:high]
            for r in range(0, even, 2):
                a, b, c, d = _four(rows[r, layer], e)
                k, m, n, o = _four(rows[r + 1, layer], e)
                sums, others = out[r, low:high], out[r + 1, low:high]
                for i in range(len(sums)):
                    w, x, y, z = one[i], two[i], three[i], four[i]
                    total, other = (
                        sums[i] + a * w + b * x + c * y + d * z,
                        others[i] + k * w + m * x + n * y + o * z,
                    )
                    sums[i], others[i] = total, other
            if even < len(rows):
                a, b, c, d = _four(rows[even, layer], e)
                sums = out[even, low:high]
                for i in range(len(sums)):
                    sums[i] = sums[i] + a * one[i] + b * two[i] + c * three[i] + d * four[i]
        for e in range(whole, experts):
            one = maps[e, low:high]
            for r in range(len(rows)):
                a, sums = rows[r, layer, e], out[r, low:high]
                for i in range(len(sums)):
                    sums[i] += a * one[i]


@inline
def _nearest(products, mass, masses, first, last, ring):
    """Place and similarity of the most similar of the maps ``first`` to ``last``; of equal ones the latest."""
    best, at = -1.0, np.int64(0)
    for n in range(first, last):
        c = n % ring
        scale = sqrt(mass * masses[c])
        like = products[c] / scale if scale > 0.0 else 0.0
        if like >= best:
            best, at = like, c
    return at, best


@inline
def _sink(chances, heap, at, size):
    """Let an entry of a heap sink below all that are likelier, or as likely with a lower id."""
    e = heap[at]
    while 2 * at + 1 < size:
        child = 2 * at + 1
        if child + 1 < size and _before(chances, heap[child + 1], heap[child]):
            child += 1
        if not _before(chances, heap[child], e):
            break
        heap[at] = heap[child]
        at = child
    heap[at] = e


@inline
def _before(chances, e, other):
    """Whether an expert comes before another in descending order."""
    return chances[e] > chances[other] or (chances[e] == chances[other] and e < other)


@inline
def _best_of(chances, heap, like, least, taken):
    """Experts that the rule takes of a layer's probabilities to the front of ``taken``, best first: how many."""
    delta = min(max(1.0 - like, 0.0), 1.0)
    size = len(chances)
    for e in range(size):
        heap[e] = e
    for at in range(size // 2 - 1, -1, -1):
        _sink(chances, heap, at, size)
    total, count = 0.0, np.int64(0)
    while size > 0 and chances[heap[0]] > 0.0 and (count < max(least, 1) or total < delta):
        taken[count] = heap[0]
        total += chances[heap[0]]
        count += 1
        size -= 1
        heap[0] = heap[size]
        _sink(chances, heap, 0, size)
    return count


@inline
def _unite(lists, lengths, chances, rows, place, top, ids, at):
    """Unite the rows' lists: lowest rank, then highest probability, then lowest id; returns where the list ends."""
    start = at
    longest = np.int64(0)
    for r in range(rows):
        longest = max(longest, lengths[r])
        for i in range(lengths[r]):
            e = lists[r, i]
            if place[e] < 0 or i < place[e] or (i == place[e] and chances[r, e] > top[e]):
                place[e], top[e] = i, chances[r, e]
    for rank in range(longest):
        tied = at
        for r in range(rows):
            if rank < lengths[r] and place[lists[r, rank]] == rank:
                e = lists[r, rank]
                place[e] = len(place)  # listed now
                j = at
                while j > tied and (
                    top[ids[j - 1]] < top[e] or (top[ids[j - 1]] == top[e] and ids[j - 1] > e)
                ):
                    ids[j] = ids[j - 1]
                    j -= 1
                ids[j] = e
                at += 1
    for i in range(start, at):
        place[ids[i]] = -1
    return at


@kernel(
    _LISTS(_F64_3D, types.int64[::1], types.int64, _F64_3D, _F64_2D, types.int64, types.int64, types.int64)
)
def match(rows, first_row, number, maps, masses, size, distance, least):
    """Guesses of some windows, each from the ``size`` maps before its own; the first window of all has none.

    Parameters
    ----------
    rows, first_row, number, maps, masses
        As in :func:`replay.predict.maps.enter_maps`, which comes first.
    size, distance, least : int
        Maps that are kept, layers ahead, and experts that a row is guessed at least.

    Returns
    -------
    offsets : int64[G + 1]
        Groups by window, then target layer from ``distance`` on.
    ids : int32[n]
    """
    layers, experts, ring = maps.shape
    windows, ahead = len(first_row) - 1, max(layers - distance, 0)
    widest = np.int64(0)
    for b in range(windows):
        widest = max(widest, first_row[b + 1] - first_row[b])
    used = min(ring, number + windows)
    products, mass = np.zeros((len(rows), ring)), np.zeros(len(rows))
    lists, lengths = np.empty((widest, experts), np.int64), np.empty(widest, np.int64)
    chances, heap = np.empty((widest, experts)), np.empty(experts, np.int64)
    place, top = np.full(experts, -1, np.int64), np.empty(experts)
    found, ends = np.empty((windows * ahead, experts), np.int32), np.zeros(windows * ahead, np.int64)
    for layer in range(ahead):
        _products(rows, layer, maps[layer], used, products)
        for r in range(len(rows)):
            for e in range(experts):
                mass[r] += rows[r, layer, e] * rows[r, layer, e]
        for b in range(windows):
            last = number + b
            if last == 0:
                continue
            low = first_row[b]
            for r in range(low, first_row[b + 1]):
                at, like = _nearest(products[r], mass[r], masses[layer], max(last - size, 0), last, ring)
                for e in range(experts):
                    chances[r - low, e] = maps[layer + distance, e, at]
                lengths[r - low] = _best_of(chances[r - low], heap, like, least, lists[r - low])
            g = b * ahead + layer
            count = first_row[b + 1] - low
            ends[g] = _unite(lists, lengths, chances, count, place, top, found[g], 0)
    skipped = ahead if number == 0 else 0
    offsets = np.zeros(windows * ahead - skipped + 1, np.int64)
    offsets[1:] = np.cumsum(ends[skipped:])
    ids = np.empty(offsets[-1], np.int32)
    for g in range(skipped, windows * ahead):
        ids[offsets[g - skipped] : offsets[g - skipped + 1]] = found[g, : ends[g]]
    return offsets, ids
