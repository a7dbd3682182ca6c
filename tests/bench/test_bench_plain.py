"""The event loop is some times faster than libcachesim on the same stream; the table is printed (``-s``)."""

import pytest

from tests.bench.plain import CURVE, FLOORS, mean, measure, table


@pytest.mark.bench
def test_faster_than_libcachesim() -> None:
    pytest.importorskip("libcachesim", reason="libcachesim is not installed: nothing to compare with")
    count, lines, curve = measure(2_000_000)
    print("\n" + table(count, lines, curve))
    assert curve[0] <= CURVE * lines[0].theirs["16"]
    assert curve[1] == pytest.approx(lines[0].missed, abs=0.002)
    for hashpower, (lru, all_of_them) in FLOORS.items():
        assert lines[0].ratio(hashpower) >= lru
        assert mean(lines, hashpower) >= all_of_them
