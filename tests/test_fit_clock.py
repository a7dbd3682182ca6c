"""fit-clock: parameters of the clock that made a record come back from it, and its file is taken."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from conftest import Outcome
from slow.make import write
from slow.sessions import sessions_trace

from replay.clock.timing import ClockParams, load_clock, load_verify
from replay.comparison.comparison import compare
from replay.errors import InputError
from replay.fit import fit_clock
from replay.fit.heldout import error, training_windows
from replay.fit.model import Disk, burst_us
from replay.trace import Trace, open_trace, write_trace

Cli = Callable[..., Outcome]
SPEC = "unpert1:k=3+lru"
SLOTS = "16"
CLOCKS = [{}, {"latency_us": 870.0, "stream_gbps": 1.9, "device_gbps": 1.9, "pre_us": 90.0}]
V = (1.0, 1.1, 1.4)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("fit") / "trace"
    write(sessions_trace(count=40, length=8, drafts=2), path)
    return path


def record(source: Path, path: Path, clock: ClockParams, noise: float = 0.0, io: bool = True) -> Trace:
    """A recording of a replay under a clock: its reads, and compute times that grow with the rows as V does."""
    trace = open_trace(source)
    run = compare(trace, [SPEC], slots=SLOTS, grid=(), clock=clock, reads=True)
    assert run.reads is not None
    document = json.loads((source / "trace.json").read_text())
    tables = {name: pq.read_table(source / entry["file"]) for name, entry in document.pop("tables").items()}
    tables["reads"] = run.reads.drop("policy", "routes").sort("window", "layer", "expert", "kind").to_arrow()
    rng, (windows, layers) = np.random.default_rng(4), (len(trace.windows), trace.meta.layers)
    factor = np.repeat(np.array(V)[trace.windows.rows - 1], layers) * rng.normal(1, noise, windows * layers)
    tables["timing"] = pa.table(
        {
            "window": pa.array(np.repeat(np.arange(windows), layers), pa.uint32()),
            "layer": pa.array(np.tile(np.arange(layers), windows), pa.uint16()),
            "pre_us": pa.array(clock.pre_us * factor, pa.float32()),
            "post_us": pa.array(clock.post_us * factor, pa.float32()),
        }
    )
    document["io"] = (
        {name: getattr(clock, name) for name in ("workers", "reserved", "pieces")} if io else None
    )
    write_trace(path, document, tables)
    return open_trace(path)


@pytest.mark.parametrize("given", CLOCKS)
def test_the_clock_comes_back(given: dict[str, float], source: Path, tmp_path: Path) -> None:
    """Latency, device rate and V are those of the clock that made the record; so are the waits it predicts."""
    clock = ClockParams(**given)
    found = fit_clock(record(source, tmp_path / "trace", clock, noise=0.02))
    assert found.disk is not None and found.compute is not None
    assert found.disk.latency_us == pytest.approx(clock.latency_us, rel=0.01)
    assert found.disk.device_gbps == pytest.approx(clock.device_gbps, rel=0.01)
    assert found.disk.hidden == ("stream_gbps",) and found.disk.stream_gbps == found.disk.device_gbps
    assert found.compute.verify == pytest.approx(V, rel=0.02)
    assert found.compute.pre_us / found.compute.post_us == pytest.approx(
        clock.pre_us / clock.post_us, rel=0.02
    )
    for held in (found.disk.error, found.compute.verify_error):
        assert (
            held is not None
            and held.windows > 50
            and held.median_ratio is not None
            and held.median_ratio < 0.02
        )
    (tmp_path / "clock.toml").write_text(found.to_toml())
    trace = open_trace(source)
    waits = []
    for params in (clock, load_clock(tmp_path / "clock.toml")):
        fixed = ClockParams(**{**params.as_dict(), "pre_us": clock.pre_us, "post_us": clock.post_us})
        waits.append(compare(trace, [SPEC], slots=SLOTS, grid=(), clock=fixed).summary[0]["wait_us"])
    assert waits[1] == pytest.approx(waits[0], rel=0.02)


def test_slow_streams_are_told_from_a_slow_device(source: Path, tmp_path: Path) -> None:
    """Where streams limit lone reads the stream is fitted, and what a burst takes is right on held-out windows."""
    clock = ClockParams(latency_us=50.0, stream_gbps=0.5, device_gbps=20.0)
    disk = fit_clock(record(source, tmp_path / "trace", clock)).disk
    assert disk is not None and "device_gbps" in disk.hidden and disk.error.median_ratio is not None
    assert disk.error.median_ratio < 0.01
    fitted = Disk(disk.latency_us, disk.stream_gbps, disk.device_gbps, 8, 2, 3)
    truth = Disk(50.0, 0.5, 20.0, 8, 2, 3)
    for reads in (1, 2, 3):
        assert burst_us(fitted, reads, reads * 1e6) == pytest.approx(
            burst_us(truth, reads, reads * 1e6), rel=0.02
        )


def test_what_is_not_recorded_is_said(source: Path, tmp_path: Path) -> None:
    trace = record(source, tmp_path / "trace", ClockParams(), io=False)
    notes = "; ".join(fit_clock(trace).notes)
    assert "workers, reserved, pieces cannot be seen" in notes
    with pytest.raises(InputError, match="nothing to fit a clock on.*--clock-grid"):
        fit_clock(open_trace(source))


def test_a_burst_takes_what_the_clock_gives_it() -> None:
    """A burst of demand reads on the disk's model ends when the clock's last read does."""
    from replay.clock.clock import Clock
    from replay.clock.log import OP_ASK, OP_DEMAND, OP_EVENT, OP_FREE, OP_WINDOW

    for params in (
        ClockParams(),
        ClockParams(workers=3, reserved=1, pieces=2, stream_gbps=0.4, latency_us=33.0),
    ):
        for reads in range(1, 9):
            log = [
                (OP_WINDOW, 0),
                (OP_EVENT, 0),
                *((OP_DEMAND, e) for e in range(reads)),
                (OP_ASK, 0),
                (OP_FREE, 0),
            ]
            clock = Clock(params, np.full((1, 8), 3_000_000))
            wait = clock.step(np.array(log), 0, 1).columns["wait_ns"][0] / 1000
            disk = Disk(
                params.latency_us, params.stream_gbps, params.device_gbps, params.workers, params.reserved,
                params.pieces,
            )  # fmt: skip
            assert burst_us(disk, reads, reads * 3e6) == pytest.approx(wait, abs=0.1)


def test_held_out_windows_are_other_sessions(source: Path) -> None:
    trace = open_trace(source)
    training = training_windows(trace)
    sessions = trace.windows.session
    assert not set(sessions[training]) & set(sessions[~training])
    assert training.sum() == len(training) / 2
    off = error(np.array([1.1, 2.0, 7.0]), np.array([1.0, 2.0, 0.0]))
    assert (off.windows, off.p90_ratio) == (2, pytest.approx(0.09)) and off.bias_ratio == pytest.approx(
        0.1 / 3
    )
    assert error(np.zeros(2), np.zeros(2)).median_ratio is None


def test_the_command_writes_a_file_that_compare_and_drafts_take(
    source: Path, tmp_path: Path, cli: Cli
) -> None:
    record(source, tmp_path / "trace", ClockParams())
    file = tmp_path / "clock.toml"
    code, out, err = cli("fit-clock", tmp_path / "trace", "--out", file)
    assert code == 0 and "V[2]" in out and "held-out error of" in out and f"--clock {file}" in err
    assert cli("fit-clock", tmp_path / "trace", "--out", file)[0] == 2
    code, out, _ = cli("fit-clock", tmp_path / "trace", "--out", file, "--force", "--json")
    assert code == 0 and json.loads(out)["clock"]["workers"] == 8
    assert load_verify(file)[0] == pytest.approx(V, rel=1e-3) and load_clock(
        file
    ).latency_us == pytest.approx(80)
    code, out, _ = cli("compare", source, "-p", SPEC, "--slots", SLOTS, "--clock", file, "--no-curves", "-q")
    assert code == 0 and "wait us/tok" in out
    code, out, err = cli("drafts", "--grid", "--clock", file)
    assert code == 0 and "cost: V 1,1.1,1.4, fixed 0" in err
    assert cli("drafts", "--grid", "--clock", file, "--cost", "1,2")[0] == 2
    (tmp_path / "plain.toml").write_text("workers = 4\n")
    assert "[verify]" in cli("drafts", "--grid", "--clock", tmp_path / "plain.toml").err
