"""Eviction policies: small worked examples, what they learn from, and what they remark."""

import numpy as np
import pytest

from replay.engine.frame import MISSES
from replay.errors import InputError
from replay.evict import Training, load
from tests.test_parity import combine, lane_of, misses, prepare, stream_of


def play(spec: str, keys: list[int], slots: int, counts: list[int] | None = None, experts: int = 16):
    """Play a stream of single picks; returns the lane and the places of its misses."""
    lane = lane_of(spec, experts, slots)
    if counts is not None:
        lane.steps.learn(lane.memory, np.array(counts + [0] * (experts - len(counts)), np.int64))
    chunk = stream_of(np.array(keys))
    out = lane.step(prepare(chunk, 1, experts, np.zeros(len(keys), bool), combine([lane]), False))
    assert out is not None
    return lane, np.flatnonzero(out.counts[:, MISSES]).tolist()


def test_lfuda_ages_and_keeps_half_the_count():
    """An evicted expert comes back with half its count; L follows the victims' keys."""
    # 0 has key 4; 1 to 4 pass through the other slot with keys 1, 2, 3, 4 as L rises; 5's key is 5, 0 goes;
    # 0 counts on from 2, key 4 + 3, and outlives 6 (key 6)
    _, missed = play("lfuda", [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 0], 2)
    assert missed == [0, 4, 5, 6, 7, 8, 9, 10]
    _, missed = play("lfu", [0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 0], 2)
    assert missed == [0, 4, 5, 6, 7, 8, 9]


def test_heat_lets_few_uses_go_first():
    """With h=1 the expert used twice outlives a more recent one used once."""
    assert play("heat:1", [0, 0, 1, 2, 0, 1], 2)[1] == [0, 2, 3, 5]
    assert play("lru", [0, 0, 1, 2, 0, 1], 2)[1] == [0, 2, 3, 4, 5]


def test_static_pins_declines_and_keeps():
    """Pinned experts are loaded once; others share what is left, or pass through a transient slot."""
    stream = [0, 1, 5, 6, 5, 0, 1]
    assert play("static:sessions/0", stream, 3, [9, 9])[1] == [0, 1, 2, 3, 4]
    lane, missed = play("static:sessions/0", [*stream, 2, 5, 2], 3, [9, 9, 1])
    assert missed == [0, 1, 2, 3, 4, 7, 8]
    assert lane.failure is None


def test_static_training():
    """Sessions of the trace or another trace; anything else is refused."""
    training = load("static").training
    assert training({"train": "sessions/3"}) == Training(None, ((3, 3),))
    assert training({"train": "sessions/2-11"}) == Training(None, ((2, 11),))
    assert training({"train": "sessions/0-1/4/7-9"}) == Training(None, ((0, 1), (4, 4), (7, 9)))
    assert training({"train": "other/trace"}) == Training("other/trace", None)
    for text in (None, "sessions/9-2", "sessions/", "sessions/x", "sessions/0-1//3", "sessions/0/"):
        with pytest.raises(InputError, match=r"sessions/0-9"):
            training({"train": text})


def test_random_is_seeded_and_uniform():
    """A seed fixes every draw; over many evictions each resident is as likely to go."""
    rng = np.random.default_rng(5)
    keys = rng.integers(0, 40, 20_000)
    assert misses("random:7", keys, 20) == misses("random:7", keys, 20) != misses("random:8", keys, 20)
    # a uniform stream misses (1 - slots / keys) of its requests whatever goes
    assert abs(misses("random", keys, 20) / len(keys) - 0.5) < 0.02
    # the expert that came first goes at the next eviction with probability 1 / 4
    gone = sum(5 in play(f"random:{seed}", [0, 1, 2, 3, 4, 0], 4)[1] for seed in range(200))
    assert 30 <= gone <= 70


@pytest.mark.parametrize("name", ["clock", "sieve"])
def test_a_hand_that_never_wraps_is_reported(name):
    """A lap over used experts brings the hand round; without an eviction there is nothing to say."""
    cold, _ = play(name, [0, 1], 4)
    assert cold.steps.notes(cold.memory) == []
    lane, _ = play(name, [0, 1, 2, 3, 0, 1, 2, 3, 4], 4)
    assert lane.steps.notes(lane.memory) == []
    lane, _ = play(name, [0, 1, 2, 3, 4], 4)
    (note,) = lane.steps.notes(lane.memory)
    assert note.startswith(f"{name}: the hand never wrapped (1 evictions)")
    assert load("lru").notes(lane.memory) == []
