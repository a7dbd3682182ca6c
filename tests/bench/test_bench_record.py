"""What recording costs beside decoding, as a ratio in one run (``-s`` shows it)."""

import statistics
import time
from pathlib import Path

import pytest
from tiny_moe import tiny

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


def test_recording_costs_less_than_15_percent(tmp_path: Path) -> None:
    """Decode in processor time, plain and recorded by turns; what waits is flushed inside the measured time."""
    import torch

    import replay

    model = tiny("qwen3_moe", **SHAPE)
    ids = torch.randint(2, 97, (1, 8))

    def decode(tokens: int) -> float:
        start = time.process_time()
        model.generate(ids, max_new_tokens=tokens, do_sample=False)
        return time.process_time() - start

    decode(16)
    ratios, finishes = [], []
    for turn in range(7):
        plain = decode(TOKENS)
        with replay.record(model, tmp_path / f"trace{turn}") as recorder:
            decode(4)  # the first pass finds out where to read
            start = time.process_time()
            decode(TOKENS)
            recorder.flush()
            recorded = time.process_time() - start
            start = time.process_time()
        finishes.append((time.process_time() - start) / plain)
        ratios.append(recorded / plain)
    ratio = statistics.median(ratios)
    print(
        f"\nrecorded / plain decode: {ratio:.3f} ({min(ratios):.3f} to {max(ratios):.3f}); "
        f"writing the trace at the end: {statistics.median(finishes):.3f} of the decode"
    )
    assert ratio < 1.15
