"""What a policy looks like: one look each, told apart without colour, readable on paper and on a dark page."""

import itertools

import matplotlib
import numpy as np
import polars as pl
import pytest
from matplotlib.colors import to_rgb

from replay.plot.canvas import byte_unit, capacity, figures, time_unit
from replay.plot.style import (
    BOUND,
    COLOURS,
    INK,
    INKS,
    MUTED,
    PAPER,
    applied,
    is_bound,
    label,
    looks_for,
    series,
)
from replay.report.page import DARK, GLYPHS

NAMES = [f"unpert1:k={k}+lru" for k in range(1, 41)]


def luminance(colour: str) -> float:
    parts = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return float(np.dot(parts, (0.2126, 0.7152, 0.0722)))


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_no_two_policies_look_alike() -> None:
    found = looks_for(NAMES).values()
    assert len({(look.colour, str(look.line), look.marker, look.filled) for look in found}) == len(NAMES)


def test_twelve_policies_are_told_apart_without_colour() -> None:
    found = list(looks_for(NAMES[:12]).values())
    assert len({look.colour for look in found}) == 12
    assert len({(str(look.line), look.marker) for look in found}) == 12
    for one, next_ in itertools.pairwise(found):
        assert str(one.line) != str(next_.line) and one.marker != next_.marker


@pytest.mark.parametrize(
    "name", ["none+belady", "belady-bypass", "oracle+lru", "belady-n:n=8,gamma=0.9 (rerouted)"]
)
def test_a_bound_is_dashed_black(name: str) -> None:
    look = looks_for(["none+lru", name])[name]
    assert is_bound(name) and look.bound
    assert look.line == "--" and max(to_rgb(look.colour)) < 0.01


def test_only_a_bound_is_plainly_dashed() -> None:
    assert not any(look.line == "--" for look in looks_for(NAMES).values())


def test_bounds_differ_from_each_other() -> None:
    found = looks_for(["none+belady", "oracle+lru"])
    assert len({look.marker for look in found.values()}) == 2


def test_a_policy_keeps_its_look_when_others_follow() -> None:
    assert looks_for(NAMES[:3])[NAMES[1]] == looks_for(NAMES)[NAMES[1]]


def test_a_bound_takes_no_colour_from_the_others() -> None:
    assert looks_for(["none+belady", "none+lru"])["none+lru"].colour == COLOURS[0]


@pytest.mark.parametrize("colour", [*COLOURS, INK, MUTED, BOUND])
def test_colours_stand_out_on_both_pages(colour: str) -> None:
    least = 4.5 if colour in (INK, MUTED) else 3.0
    assert contrast(colour, PAPER) >= least
    assert contrast(DARK[colour], DARK[PAPER]) >= least


def test_every_ink_has_a_dark_one() -> None:
    assert set(DARK) == set(INKS)


def test_every_marker_has_a_character() -> None:
    names = [*NAMES, *(f"none+belady-n:n={n}" for n in range(1, 9))]
    assert {look.marker for look in looks_for(names).values()} <= set(GLYPHS)


def test_series_name_routes_only_where_there_are_several() -> None:
    one = pl.DataFrame({"policy": ["a"], "routes": ["recorded"]})
    both = pl.DataFrame({"policy": ["a", "a"], "routes": ["recorded", "rerouted"]})
    assert series(one)["series"].to_list() == ["a"]
    assert series(both)["series"].to_list() == ["a (recorded)", "a (rerouted)"]


def test_labels_hold_nothing_that_breaks_a_file() -> None:
    assert label("a\x00b\nc") == "a\\x00b\\nc"
    assert len(label("x" * 500)) == 60


def test_the_style_leaves_the_callers_settings_alone() -> None:
    before = dict(matplotlib.rcParams)
    with applied():
        assert matplotlib.rcParams["svg.fonttype"] == "none"
    assert dict(matplotlib.rcParams) == before


def test_units() -> None:
    assert byte_unit(2e9) == (1e9, "GB") and byte_unit(5e6) == (1e6, "MB") and byte_unit(3) == (1.0, "B")
    assert time_unit(2500) == (1e3, "ms") and time_unit(3e6) == (1e6, "s") and time_unit(5) == (1.0, "us")
    assert [figures(x) for x in (0.5, 12.34, 1234.5)] == ["0.50", "12.3", "1,234"]
    slots = pl.DataFrame({"capacity_slots": [1], "capacity_bytes": pl.Series([None], dtype=pl.Int64)})
    sized = pl.DataFrame({"capacity_slots": pl.Series([None], dtype=pl.Int64), "capacity_bytes": [3 * 10**9]})
    assert capacity(slots).label == "arena (slots)" and capacity(sized).label == "arena (GB)"
    assert capacity(sized).of(sized).tolist() == [3.0]
