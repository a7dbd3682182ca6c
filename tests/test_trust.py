"""What a comparison says of itself: no decode window, sizes and ranks that the trace does not hold."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from conftest import ROOT, Outcome

import replay
from replay.importers import Request
from replay.trace import write_trace

Cli = Callable[..., Outcome]
COMMON = ("-p", "none+lru", "-p", "none+fifo", "--slots", "6")


def small(path: Path, phase: str = "decode", expert_bytes: int = 1000, ascending: bool = False) -> Path:
    """Write a trace of 12 windows, 2 layers of 8 experts, top-3."""
    rows = 2
    keys = [(w, r, layer) for w in range(12) for r in range(rows) for layer in range(2)]
    picks = [
        [(w + r) % 8, (3 * w + layer + r + 4) % 8, (w + r + 1 + 2 * (layer + 1)) % 8] for w, r, layer in keys
    ]
    picks = [[a, *(x for x in dict.fromkeys([b, c, *range(8)]) if x != a)][:3] for a, b, c in picks]
    if ascending:
        picks = [sorted(each) for each in picks]
    columns = list(zip(*keys, strict=True))
    tables = {
        "windows": pa.table(
            {"window": range(12), "session": [0] * 12, "phase": [phase] * 12, "rows": [rows] * 12}
        ),
        "selections": pa.table(
            {"window": columns[0], "row": columns[1], "layer": columns[2], "experts": picks}
        ),
    }
    meta = {
        "model": {"name": "small", "layers": 2, "experts": 8, "top_k": 3},
        "expert_bytes": expert_bytes,
        "router": {"protect": 0, "bonus": 0.0, "r1_bonus": 0.0, "draft_moce": False},
        "policy": None,
    }
    write_trace(path, meta, tables)
    return path


def test_a_trace_without_decode_windows(cli: Cli, tmp_path: Path) -> None:
    trace = small(tmp_path / "trace", "prefill")
    code, out, err = cli("compare", trace, *COMMON)
    assert code == 0 and "no decode window is counted" in err and "no decode window is counted" in out
    code, out, err = cli("compare", trace, *COMMON, "--out", tmp_path / "run")
    assert code == 0, err
    for name in ("report.md", "report.html"):
        text = (tmp_path / "run" / name).read_text()
        assert "o decode window is counted" in text and "Prefill" in text and "--no-curves" not in text
    assert (tmp_path / "run" / "layers.parquet").is_file()
    assert cli("report", tmp_path / "run").code == 0


def test_a_start_past_every_decode_window(cli: Cli, tmp_path: Path) -> None:
    trace = small(tmp_path / "trace")
    code, _, err = cli("compare", trace, *COMMON, "--start", "warm:11", "--out", tmp_path / "run")
    assert code == 0 and "no decode window" not in err


def test_sizes_that_are_not_known_are_warned_of(cli: Cli, tmp_path: Path) -> None:
    said = "the sizes of the experts are not known"
    run = replay.compare(small(tmp_path / "one", expert_bytes=1), ["none+lru"], slots=6, clock=False)
    assert any(said in each for each in run.warnings)
    run.save(tmp_path / "run")
    assert "sizes of the experts are not known" in (tmp_path / "run" / "report.html").read_text()
    known = replay.compare(small(tmp_path / "many"), ["none+lru"], slots=6, clock=False)
    assert not any(said in each for each in known.warnings)
    assert known.warnings == []


def test_experts_are_counted_where_their_sizes_are_not_known(cli: Cli, tmp_path: Path) -> None:
    unsized, sized = small(tmp_path / "one", expert_bytes=1), small(tmp_path / "many")
    for trace, known in ((unsized, False), (sized, True)):
        unit, out = ("MB", "bytes") if known else ("experts", "experts"), tmp_path / f"run-{known}"
        said = cli("compare", trace, *COMMON, "--out", out)
        assert said.code == 0, said.err
        assert f"{unit[0]} read/tok" in said.out and ("wait us/tok" in said.out) is known
        row = next(line.split() for line in said.out.splitlines() if line.startswith("none+lru"))
        assert known or row[1] == row[-1]  # without read-ahead each miss is an expert read
        for report in ("report.md", "report.html"):
            text = (out / report).read_text()
            assert f"Fewest {unit[1]}" in text and f"{unit[0]} per token" in text and "Fewest misses" in text
            for each in ("MB", "Shortest wait", "Times are those of a modelled disk"):
                assert (each in text) is known, each
        for chart in ("bytes_by_fate", "frontier", "trace_line"):
            axes = getattr(replay, f"plot_{chart}")(replay.load(out))
            labels = [label for each in np.ravel(axes) for label in (each.get_xlabel(), each.get_ylabel())]
            assert any("experts" in each for each in labels) is not known, (chart, labels)


def test_other_tables_count_experts_too(cli: Cli, tmp_path: Path) -> None:
    trace = small(tmp_path / "one", expert_bytes=1)
    spec = shutil.copytree(ROOT / "traces" / "e64-spec", tmp_path / "spec")
    meta = json.loads((spec / "trace.json").read_text()) | {"expert_bytes": 1}
    (spec / "trace.json").write_text(json.dumps(meta))
    said = cli("verdict", trace, "--baseline", "none+lru", "--candidate", "none+fifo", "--slots", "6")
    assert "9.083 experts" in said.out and " MB" not in said.out and "sizes of the experts" in said.err
    said = cli("curves", trace, "-p", "none+lru")
    assert "one token wants 6 experts\n" in said.err
    assert "16 of a size that is not known" in cli("info", trace).out
    said = cli("drafts", spec)
    assert said.out.splitlines()[0].endswith("experts/token") and "expert bytes" not in said.out
    assert said.out.splitlines()[2].endswith("164.72")
    split = ("--slots", "50%", "--train", "0-5", "--score", "6-11", "--phase", "decode")
    assert "experts read/tok" in cli("budget", spec, *split).out
    said = cli(
        "frontier", spec, "--sessions", "10-11", "--points", "2", "-p", "route:k=1..2", "--no-controls"
    )
    assert "experts ahead/tok" in said.out and "MB" not in said.out


@pytest.mark.parametrize(
    ("bound", "said"),
    [
        ({"slots": 16}, "the arena has room for all: 16 experts"),
        ({"slots": 15}, None),
        ({"bytes": "16000"}, "the arena has room for all: 16 experts"),
        ({"bytes": "15999"}, None),
        ({"bytes": "999"}, "the arena's 999 bytes hold no expert (the smallest has 1.00 kB)"),
    ],
)
def test_an_arena_of_all_experts_or_of_none_is_said_to_be_one(
    bound: dict[str, int | str], said: str | None, tmp_path: Path
) -> None:
    run = replay.compare(small(tmp_path / "trace"), ["none+lru"], clock=False, grid=None, **bound)
    assert [each.startswith(said or "") for each in run.warnings] == ([] if said is None else [True])


def test_lost_ranks_are_warned_of(tmp_path: Path) -> None:
    run = replay.compare(small(tmp_path / "t", ascending=True), ["none+lru"], slots=6, clock=False)
    assert any("the ranks are lost" in each for each in run.warnings)


def test_an_expert_of_no_bytes_is_refused(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("token,layer,expert\n0,0,1\n0,0,2\n")
    common = (
        "import",
        "table",
        tmp_path / "t.csv",
        tmp_path / "out",
        "--map",
        "token=token,layer=layer,expert=expert",
    )
    code, out, err = cli(*common, "--expert-bytes", "0")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "--expert-bytes 0: expected at least 1 byte; leave it out where" in err
    assert not (tmp_path / "out").exists()
    with pytest.raises(replay.errors.InputError, match="--bytes 0"):
        Request(bytes=0)


def test_layers_that_miss_most_are_those_of_decode_windows(cli: Cli, tmp_path: Path) -> None:
    """Prefill windows that miss in layer 0 only do not change which layer a token misses most in."""
    keys = [(w, r, layer) for w in range(8) for r in range(2) for layer in range(2)]
    picks = [[(2 * r + w) % 8 if layer == (0 if w < 4 else 1) else 0] for w, r, layer in keys]
    columns = list(zip(*keys, strict=True))
    phases = ["prefill"] * 4 + ["decode"] * 4
    tables = {
        "windows": pa.table({"window": range(8), "session": [0] * 8, "phase": phases, "rows": [2] * 8}),
        "selections": pa.table(
            {"window": columns[0], "row": columns[1], "layer": columns[2], "experts": picks}
        ),
    }
    meta = {"model": {"name": "m", "layers": 2, "experts": 8, "top_k": 1}, "expert_bytes": 9, "router": None}
    write_trace(tmp_path / "t", meta | {"policy": None}, tables)
    code, out, _ = cli("compare", tmp_path / "t", "-p", "none+lru", "--slots", "3", "--out", tmp_path / "run")
    assert code == 0
    summary = json.loads((tmp_path / "run" / "summary.json").read_text())
    assert summary[0]["misses"] > summary[0]["decode_misses"] > 0
    line = next(line for line in out.splitlines() if line.startswith("most misses"))
    layers = replay.load(tmp_path / "run").layers
    decode = {r["layer"]: r["misses"] for r in layers.iter_rows(named=True) if r["phase"] == "decode"}
    share = decode[1] / sum(decode.values())
    assert f"layer 1 ({share:.1%} of misses)" in line.split(", ")[0]
    assert f"layer 1 ({share:.1%})" in (tmp_path / "run" / "report.html").read_text()


def test_a_recorded_policy_that_is_not_known(cli: Cli, tmp_path: Path) -> None:
    trace = Path(shutil.copytree(ROOT / "traces" / "py64-loop", tmp_path / "loop"))
    meta = json.loads((trace / "trace.json").read_text())
    said = "trace.json: policy names 'engine-own': not known here, so what the engine did cannot be replayed"
    for name, known in (("engine-own", False), ("lru", True)):
        meta["policy"]["evict"] = name
        (trace / "trace.json").write_text(json.dumps(meta))
        assert (said in cli("info", trace).out) is not known
        compared = cli("compare", trace, "-p", "none+lru", "--no-curves", "--no-clock")
        assert compared.code == 0 and (f"warning    {said}" in compared.err) is not known
        options = ("-p", "route:k=1..2", "--points", "2", "--sessions", "0-0", "--no-controls")
        families = cli("frontier", trace, *options)
        assert families.code == 0 and (f"left out the recorded policy: {said}" in families.err) is not known
        verdict = cli("verdict", "--recorded", trace, trace)
        assert f"loop (none+{name})" in verdict.err
