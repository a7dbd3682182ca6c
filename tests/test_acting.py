"""How guesses act on the arena: where a claimed one enters (``guess``), what it may evict (``spare``)."""

from types import SimpleNamespace

import pytest
from slow.make import write
from test_slow_twin import stream_of

from replay.comparison.comparison import compare
from replay.errors import InputError
from replay.spec.grammar import parse
from replay.spec.resolve import identity, resolve
from replay.trace import open_trace


def dropped(tmp_path, wanted, spec: str, slots: str) -> int:
    """Guesses of the second layer that found nothing to evict."""
    trace = stream_of(wanted, layers=2)
    path = tmp_path / spec.replace("/", "_")
    write(trace, path)
    run = compare(open_trace(path), [spec], slots=slots, grid=())
    return run.layers["dropped"].sum()


def test_a_guess_evicts_only_what_it_beats(tmp_path):
    """One slot, held by layer 0's expert with one use, then guessed for layer 1: 0 uses so far, then 1, 2, 3."""
    wanted = [[[0], [1]]] * 4
    assert dropped(tmp_path, wanted, "oracle:spare=1/0", "1") == 1
    assert dropped(tmp_path, wanted, "oracle:spare=1/1", "1") == 2
    assert dropped(tmp_path, wanted, "oracle:spare=2/1", "1") == 3
    assert dropped(tmp_path, wanted, "oracle:spare=1.25/4", "1") == 4
    assert dropped(tmp_path, wanted, "oracle:spare=0/0", "1") == 0
    assert dropped(tmp_path, wanted, "oracle", "1") == 0


def test_a_free_slot_needs_no_victim(tmp_path):
    """Two slots: nothing has to go."""
    assert dropped(tmp_path, [[[0], [1]]] * 4, "oracle:spare=1.25/4", "2") == 0


def test_a_claimed_guess_at_the_tail_goes_first(tmp_path):
    """Two slots: layer 2's guess takes the slot of layer 1's where that entered at the tail, else layer 0's."""
    wanted = [[[0], [w % 4], [w % 4]] for w in range(12)]
    path = tmp_path / "trace"
    write(stream_of(wanted, layers=3), path)
    rows = {
        where: compare(open_trace(path), [f"oracle:guess={where}+lru"], slots="2", grid=())
        .layers["misses"]
        .to_list()
        for where in ("head", "tail")
    }
    assert (rows["tail"][0], rows["head"][0]) == (1, 12)


@pytest.mark.parametrize("evict", ["lfu", "arc", "heat", "belady"])
def test_no_tail_to_enter_at(evict):
    """Only policies that are one list have a tail."""
    with pytest.raises(InputError, match=rf"guess=tail: {evict} has no tail .* lru, decode2q, fifo"):
        parse(f"unpert1:guess=tail+{evict}")
    assert parse(f"unpert1:guess=head+{evict}").evict.name == evict


def test_specs_that_act_alike_are_one():
    """What guesses do to the arena is part of what a policy does."""
    known = SimpleNamespace(policy=None, router=None)
    does = [
        identity(resolve(parse(f"unpert1{options}"), known))
        for options in ("", ":guess=head", ":guess=tail", ":spare=1.25/4", ":touch=1")
    ]
    assert does[0] == does[1] and len(set(does)) == 4
