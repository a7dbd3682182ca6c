"""Read-ahead policies that learn from the past: what they ask for by hand, and what refuses them."""

import pytest
from slow.history import Successors
from slow.make import write
from test_slow_twin import stream_of

from replay.comparison import compare
from replay.errors import InputError
from replay.semantics import routes_of
from replay.trace import open_trace


@pytest.fixture(scope="module")
def pairs(tmp_path_factory):
    """Layer 1 wants 6 always, and 3 and 4 for two windows each in turn; layer 0 wants 2, and 0 and 1 in turn."""
    wanted = [[[w % 2, 2], [3 + w // 2 % 2, 6]] for w in range(8)]
    path = tmp_path_factory.mktemp("predict") / "trace"
    write(stream_of(wanted, layers=2), path)
    return open_trace(path)


def test_previous_repeats_the_last_decode_window(pairs):
    """Two slots: both guesses of each later window are issued; four windows repeat, three change one expert."""
    first, second = compare(pairs, ["previous+lru"], slots="2", grid=()).layers.to_dicts()
    assert (first["issued"], second["issued"], second["dropped"]) == (0, 14, 0)
    assert (second["prefetch_hits"], second["misses"]) == (11, 5)


def test_stmoe_knows_more_than_the_previous_window(pairs):
    """Its guesses hold the previous window's, and at most its successors besides."""
    rows = {
        name: compare(pairs, [f"{name}+lru"], slots="4", grid=()).layers.to_dicts()[1]
        for name in ("previous", "stmoe")
    }
    assert rows["stmoe"]["prefetch_hits"] > rows["previous"]["prefetch_hits"]


def test_successors_learn_as_stated():
    """Raise, lower, enter into a free place, replace the oldest dead one, leave the living."""
    table = Successors(successors=2)

    def window(*wanted):
        table.learn(0, {0})
        table.learn(1, set(wanted))
        return table.tables[1, 0]

    assert window(5, 7, 6) == [[5, 1], [6, 1]]
    assert window(5) == [[5, 2], [6, 0]]
    assert window(6) == [[5, 1], [6, 1]]
    assert window(3) == [[6, 0], [3, 1]]
    assert window(3, 4) == [[3, 2], [4, 1]]
    assert window(3, 8) == [[3, 3], [8, 1]]
    table.learn(0, {0})
    assert table.propose(1) == [3, 8]


@pytest.mark.parametrize("name", ["previous", "stmoe"])
def test_predicted_routes_are_refused(pairs, name):
    """What ranks no candidates has no selections to offer."""
    with pytest.raises(InputError, match="predicted needs a ranked read-ahead policy"):
        compare(pairs, [f"{name}+lru"], slots="2", routes=routes_of(["predicted"]))
