"""Sizes of the queue policies: how they are written, what they come to in each part, and what is said of them."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from replay.arena.partition import plan_slots
from replay.declare.queue_size import parse_queue, queue_slots
from replay.declare.semantics import Semantics
from replay.engine.frame import LOOKUPS, MISSES
from replay.errors import InputError
from replay.lane.lane import Lane, combine
from replay.lane.shape import Shape
from replay.prepare.chunk import prepare
from replay.spec.grammar import parse
from replay.spec.resolve import resolve

META = SimpleNamespace(policy=None, router=None)


def lane_of(
    spec: str, slots: int, layers: int = 48, experts: int = 512, top_k: int = 10, scope: str = "global"
) -> Lane:
    """A lane over a model of unit-sized experts."""
    classes = np.zeros((layers, experts), np.uint8)
    shape = Shape(layers, experts, top_k, np.ones((layers, experts), np.int64), classes, 1)
    plan = plan_slots(classes, np.array([slots], np.int64), scope == "layer")
    return Lane(shape, plan, resolve(parse(spec), META), Semantics(scope=scope))


def play(lane: Lane, keys: Any) -> float:
    """Miss ratio of a stream of tokens: every layer's top_k keys, layer after layer."""
    layers, experts, top_k = lane.shape.layers, lane.shape.experts, lane.shape.top_k
    windows = len(keys) // (layers * top_k)
    picks = SimpleNamespace(
        values=(keys % experts).astype(np.int32),
        offsets=np.arange(windows * layers + 1, dtype=np.int64) * top_k,
    )
    chunk = SimpleNamespace(
        w0=0,
        w1=windows,
        row_start=np.arange(windows + 1),
        selections=picks,
        candidates=None,
        router_scores=None,
    )
    ready = prepare(chunk, layers, experts, np.zeros(windows, bool), combine([lane]), False)
    out = lane.step(ready)
    assert out is not None
    return float(out.counts[:, MISSES].sum() / out.counts[:, LOOKUPS].sum())


@pytest.mark.parametrize(
    ("text", "slots"),
    [
        ("0.1", 102),
        ("10%", 102),
        (".5", 512),
        ("100%", 1024),
        ("100", 100),
        ("1", 1),
        ("0", 1),
        ("0.0001", 1),
        ("2tok", 960),
        ("0.5tok", 240),
        ("1.5 tok", 720),
    ],
)
def test_a_size_is_a_share_or_slots_or_tokens(text: str, slots: int) -> None:
    written = parse_queue(text)
    assert queue_slots(written, 1024, 480) == slots
    assert parse_queue(written) == written


@pytest.mark.parametrize("text", ["", "tok", "1.5", "-1", "1e3", "2 tokens", "101%", "half", "nan"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="'small' of s3fifo"):
        parse(f"s3fifo:small={text}")


def test_sizes_that_are_the_same_make_the_same_policy() -> None:
    assert parse("s3fifo:small=10%").evict == parse("s3fifo:0.10").evict


@pytest.mark.parametrize(
    ("spec", "note"),
    [
        ("s3fifo", "small 102, main 922, ghost 922"),
        ("s3fifo:fill=lcs", "small 102, main 922, ghost 921"),
        ("s3fifo:1tok,ghost=2tok", "small 480, main 544, ghost 960"),
        ("2q", "a1in 256, a1out 512"),
        ("2q:a1in=100000", "a1in 1023, a1out 512"),
        ("lirs", "lir 1014, hir 10"),
    ],
)
def test_resolved_slots_are_said(spec: str, note: str) -> None:
    assert lane_of(spec, 1024).notes() == [f"slots of its queues: {note}"]


def test_every_queue_has_a_slot_in_every_part() -> None:
    for spec in ("s3fifo", "2q", "lirs", "lirs:stack=2,demote=1", "s3fifo:small=0,ghost=0"):
        for slots in (48, 96, 100):
            note = lane_of(spec, slots, scope="layer").notes()[0]
            assert "in each of 48 arenas" in note
            assert all(
                int(word) >= 1 for word in note.split(": ")[1].replace(",", "").split() if word.isdigit()
            )


def test_a_token_in_a_layer_s_arena_is_top_k() -> None:
    note = lane_of("s3fifo:1tok", 4800, scope="layer").notes()[0]
    assert note == "slots of its queues in each of 48 arenas: small 10, main 90, ghost 90"


def test_a_probation_queue_below_a_token_s_misses_is_warned_about(shared: Path) -> None:
    """At 1,024 slots a tenth is far below what a token misses, and half of them is not."""
    keys = np.load(shared / "traces/streams/moe96k.npy").astype(np.int64)
    ratios = {}
    for small, warned in (("0.1", True), ("0.5", False)):
        lane = lane_of(f"s3fifo:small={small}", 1024)
        ratios[small] = play(lane, keys)
        assert any("warning" in note for note in lane.notes()) == warned
    assert ratios["0.5"] < ratios["0.1"] - 0.1
    assert "small has 102 slots" in next(n for n in play_notes("s3fifo", keys) if "warning" in n)
    assert any("try a1in=1tok" in note for note in play_notes("2q:a1in=10", keys))
    assert any("try hir=1tok" in note for note in play_notes("lirs", keys))


def play_notes(spec: str, keys: Any) -> list[str]:
    """What is said of a policy after the stream."""
    lane = lane_of(spec, 1024)
    play(lane, keys)
    return lane.notes()
