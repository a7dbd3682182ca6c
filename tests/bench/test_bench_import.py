"""What an import, and a synthetic trace, cost: memory that does not grow with the source."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

LAYERS, EXPERTS, TOP_K = 32, 128, 8

RUN = """
import json, sys
from pathlib import Path
from replay.importers import Request, importer
from replay.synth import Recipe, synthesize

kind, source, to = sys.argv[1], Path(sys.argv[2]), sys.argv[3]
if kind == "synth":
    synthesize(to, Recipe(layers=32, experts=128, sessions=int(sys.argv[4]), windows=64, scores=True), True)
else:
    importer(kind)(source, Path(to), Request(force=True))
with open("/proc/self/status") as status:
    print(json.dumps(int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024))
"""


def peak_mb(kind: str, source: Path, to: Path, size: int) -> float:
    done = subprocess.run(
        [sys.executable, "-c", RUN, kind, source, to, str(size)], capture_output=True, text=True, check=True
    )
    return float(json.loads(done.stdout))


def write(kind: str, path: Path, tokens: int) -> Path:
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        for start in range(0, tokens, 500):
            ids = np.argsort(rng.random((500, LAYERS, EXPERTS), np.float32), axis=2)[..., :TOP_K]
            if kind == "strata":
                records = np.zeros((500, LAYERS, 2 + 2 * TOP_K), "<i4")
                records[..., 0], records[..., 1], records[..., 2 : 2 + TOP_K] = np.arange(LAYERS), TOP_K, ids
                file.write(records.tobytes())
            elif kind == "waste":
                for i, each in enumerate(ids):
                    file.write(json.dumps({"tok": start + i, "layers": each.tolist()}).encode() + b"\n")
            else:
                if not start:
                    file.write(b"pos,layer," + ",".join(f"e{i}" for i in range(TOP_K)).encode() + b"\n")
                for i, each in enumerate(ids):
                    for layer, row in enumerate(each.tolist()):
                        file.write(f"{start + i},{layer},{','.join(map(str, row))}\n".encode())
    return path


@pytest.mark.bench
@pytest.mark.parametrize("kind", ["strata", "waste", "llamacpp"])
def test_memory_does_not_grow_with_the_source(tmp_path: Path, kind: str) -> None:
    few, many = (
        peak_mb(kind, write(kind, tmp_path / "s", tokens), tmp_path / "t", tokens)
        for tokens in (4_000, 16_000)
    )
    assert many < few + 60, f"{few:.0f} MB for 4,000 tokens, {many:.0f} MB for 16,000"


@pytest.mark.bench
def test_memory_does_not_grow_with_a_synthetic_trace(tmp_path: Path) -> None:
    few, many = (peak_mb("synth", tmp_path, tmp_path / "t", sessions) for sessions in (4, 16))
    assert many < few + 60, f"{few:.0f} MB for 4 sessions, {many:.0f} MB for 16"
