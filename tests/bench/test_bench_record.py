"""What recording costs beside decoding, as a ratio in one run (``-s`` shows it)."""

import statistics
import time
from pathlib import Path
from typing import Any

import pytest
from tiny_moe import FAMILIES, tiny

pytest.importorskip(
    "torch", reason="torch is not installed; install the extra: pip install 'moe-replay[record]'"
)
pytest.importorskip("transformers", reason="transformers is not installed; install the extra record")

pytestmark = pytest.mark.bench

SHAPE = {
    "hidden_size": 256,
    "num_hidden_layers": 8,
    "num_experts": 64,
    "num_experts_per_tok": 8,
    "moe_intermediate_size": 64,
}
TOKENS = 96


def ratio(model: Any, folder: Path, tokens: int, turns: int = 7, **options: Any) -> tuple[list[float], float]:
    """Recorded over plain decode in processor time, by turns, and the trace's writing at the end over a decode.

    What waits is flushed inside the measured time.
    """
    import torch

    import replay

    ids = torch.randint(2, 97, (1, 8))

    def decode(tokens: int) -> float:
        start = time.process_time()
        model.generate(ids, max_new_tokens=tokens, do_sample=False)
        return time.process_time() - start

    decode(16)
    ratios, finishes = [], []
    for turn in range(turns):
        plain = decode(tokens)
        with replay.record(model, folder / f"trace{turn}", **options) as recorder:
            decode(4)  # the first pass finds out where to read
            start = time.process_time()
            decode(tokens)
            recorder.flush()
            recorded = time.process_time() - start
            start = time.process_time()
        finishes.append((time.process_time() - start) / plain)
        ratios.append(recorded / plain)
    return ratios, statistics.median(finishes)


def test_recording_costs_less_than_15_percent(tmp_path: Path) -> None:
    ratios, finish = ratio(tiny("qwen3_moe", **SHAPE), tmp_path, TOKENS)
    middle = statistics.median(ratios)
    print(
        f"\nrecorded / plain decode: {middle:.3f} ({min(ratios):.3f} to {max(ratios):.3f}); "
        f"writing the trace at the end: {finish:.3f} of the decode"
    )
    assert middle < 1.15


@pytest.mark.parametrize("family", FAMILIES)
def test_every_family_of_the_smallest_size_does(family: str, tmp_path: Path) -> None:
    """Three layers of width 32, about 2 ms a token: what recording costs beside least work."""
    ratios, _ = ratio(tiny(family), tmp_path, TOKENS, 5)
    print(f"\n{family}: {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
    assert statistics.median(ratios) < 1.15


def test_what_options_cost(tmp_path: Path) -> None:
    """Shown, with no bar: times of layers, an arena beside the model, and one in the loop."""
    from replay import Arena

    model = tiny("qwen3_moe", **SHAPE)
    given = {
        "timing": {"timing": True},
        "arena": {"arena": Arena(128)},
        "loop": {"arena": Arena(128, 0.5, 1)},
    }
    for name, options in given.items():
        ratios, _ = ratio(model, tmp_path / name, TOKENS, 5, **options)
        print(f"\n{name}: {statistics.median(ratios):.3f} ({min(ratios):.3f} to {max(ratios):.3f})")
