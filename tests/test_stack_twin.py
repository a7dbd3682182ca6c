"""The offline bound's depths without a look ahead: equal to those of a stack by next use, after many packings too."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from replay.arena.bound import Bound, part_slots
from replay.stack.count import Lookups
from replay.stack.optimum import belady_depths, belady_start
from replay.stack.vacancy import vacancies_of

Event = list[int]


def stack_depths(events: list[Event], part_of: list[int]) -> list[int]:
    """Depth of every want in its part's stack by next use (Mattson et al. 1970); 0: never used."""
    waiting: dict[int, int] = {}
    following = [[0] * len(event) for event in events]
    for at in range(len(events) - 1, -1, -1):
        following[at] = [waiting.get(key, len(events)) for key in events[at]]
        waiting.update(dict.fromkeys(events[at], at))
    stacks: dict[int, list[int]] = {part: [] for part in set(part_of)}
    rank: dict[int, tuple[int, int]] = {}
    depths = []
    for event, later in zip(events, following, strict=True):
        for key in event:
            stack = stacks[part_of[key]]
            depths.append(stack.index(key) + 1 if key in stack else 0)
            rank[key] = (-1, 0)
        for key in event:
            stack = stacks[part_of[key]]
            end = stack.index(key) if key in stack else len(stack)
            carried = key
            for place in range(end):
                if place == 0 or rank[stack[place]] > rank[carried]:
                    stack[place], carried = carried, stack[place]
            stack[end : end + 1] = [carried]
        rank.update({key: (time, -key) for key, time in zip(event, later, strict=True)})
    return depths


def found_depths(
    events: list[Event], part_of: list[int], layers: int, cuts: list[int], start: int, sequential: bool
) -> tuple[list[int], list[int], int]:
    """Depths in chunks that end at ``cuts``, the first ``start`` events of one want inserted as a recorded start.

    Returns the depths, each part's widest event and how often a line was packed.
    """
    experts, parts = len(part_of) // layers, max(part_of) + 1
    owner = np.array(part_of, np.int64)
    state, widest, width = vacancies_of(owner, parts), np.zeros(parts, np.int64), np.zeros(parts, np.int64)
    depths: list[int] = []
    packed, places = 0, state.next.copy()
    belady_start(np.array([key for event in events[:start] for key in event], np.int32), state, owner)
    edges = [start, *sorted(cut for cut in cuts if start < cut < len(events)), len(events)]
    for low, high in zip(edges, edges[1:], strict=False):
        chunk = events[low:high]
        skipped = (low - start) % layers
        chunk = [[]] * skipped + chunk
        offsets = np.cumsum([0, *map(len, chunk)]).astype(np.int64)
        ids = np.array([key % experts for event in chunk for key in event], np.int32)
        depth = np.zeros(len(ids), np.int32)
        belady_depths(Lookups(offsets, ids, depth), state, owner, width, widest, layers, experts, sequential)
        depths += depth.tolist()
        packed += int((state.next < places).sum())
        places = state.next.copy()
    assert not width.any()
    return depths, widest.tolist(), packed


def compare(
    events: list[Event], part_of: list[int], layers: int, cuts: list[int], start: int, one: bool
) -> int:
    """Hold both against each other at every capacity that holds the widest event; how often a line was packed."""
    each = [[key] for event in events for key in event] if one else events
    expected = stack_depths(each, part_of)[sum(map(len, events[:start])) :]
    found, widest, packed = found_depths(events, part_of, layers, cuts, start, one)
    wants = [part_of[key] for event in events[start:] for key in event]
    for part, ours, theirs in zip(wants, found, expected, strict=True):
        least = widest[part]
        assert (ours and max(ours, least)) == (theirs and max(theirs, least))
    return packed


def draw(rng: Random, layers: int, experts: int, count: int, widest: int) -> list[Event]:
    """Events of layers by turns: keys of some popular and some rare experts, more of the last ones."""
    popularity = [rng.random() ** 3 + 0.02 for _ in range(experts)]
    events: list[Event] = []
    for at in range(count):
        layer = at % layers
        wanted = set(rng.choices(range(experts), popularity, k=rng.randint(0, widest)))
        if at >= layers and rng.random() < 0.5:
            wanted |= {key % experts for key in events[at - layers][: rng.randint(0, 2)]}
        events.append(sorted(layer * experts + e for e in wanted))
    return events


@given(st.integers(0, 2**32), st.integers(1, 3), st.integers(1, 9), st.integers(1, 3), st.booleans())
def test_depths_equal_those_of_a_stack_by_next_use(
    seed: int, layers: int, experts: int, parts: int, sequential: bool
) -> None:
    """Events of all widths, none too; several parts in an event; a recorded start; chunks."""
    rng = Random(seed)
    part_of = [rng.randrange(parts) for _ in range(layers * experts)]
    part_of[: min(parts, len(part_of))] = range(min(parts, len(part_of)))
    start = rng.sample(range(layers * experts), rng.choice([0, rng.randint(0, layers * experts)]))
    events = draw(rng, layers, experts, rng.randint(1, 70), rng.randint(1, experts))
    cuts = rng.sample(range(100), 3)
    compare([[key] for key in start] + events, part_of, layers, cuts, len(start), sequential)


@pytest.mark.parametrize(("layers", "parts", "sequential"), [(4, 1, False), (2, 3, False), (3, 1, True)])
def test_long_streams_whose_lines_are_packed(layers: int, parts: int, sequential: bool) -> None:
    """Times and runs are numbered anew many times, in chunks of a few events."""
    rng = Random(layers)
    experts = 24
    part_of = [rng.randrange(parts) for _ in range(layers * experts)]
    events = draw(rng, layers, experts, 3000, 9)
    assert compare(events, part_of, layers, list(range(0, 3000, 50)), 0, sequential) > 1


@pytest.mark.parametrize("by_layer", [False, True])
def test_slots_of_parts_are_those_of_plans(by_layer: bool) -> None:
    classes = np.array([[0, 1, 0], [1, 0, 0], [1, 1, 1], [0, 0, 1]], np.uint8)
    bounds = [Bound((n, 3 * n), None, "") for n in range(1, 20)]
    expected = [each.plan(classes, by_layer).capacity.tolist() for each in bounds]
    assert part_slots(bounds, 4, by_layer).tolist() == expected
