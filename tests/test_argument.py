"""The public functions given something of another type: one clear line, never a traceback of ours."""

from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from conftest import ROOT

import replay

TRACE = ROOT / "traces" / "py64-spec"
ODD: tuple[Any, ...] = (object(), [None], b"x", 2.5, {1: None}, [1, [2]], replay)
CHARTS = [name for name in dir(replay) if name.startswith("plot_")]


@pytest.fixture(scope="module")
def trace() -> replay.Trace:
    """An open trace."""
    return replay.open(TRACE)


def refused(function: Any, *given: Any, **named: Any) -> str:
    """What an argument is refused with."""
    with pytest.raises(replay.InputError) as caught:
        function(*given, **named)
    text = str(caught.value)
    assert "\n" not in text
    return text


def test_a_policy_that_is_none(trace: replay.Trace) -> None:
    expected = "policies: expected a str or a sequence of str, found [None]"
    assert refused(replay.compare, trace, [None]) == expected
    assert refused(replay.compare, None, []) == "trace: expected a Trace or a path, found None"
    assert refused(replay.compare, trace, threads=-1) == "threads: -1; expected at least 1"


@pytest.mark.parametrize("name", sorted(replay.compare.__kwdefaults__ or {}))
def test_options_of_compare(name: str, trace: replay.Trace) -> None:
    fits = (2.5,) if name == "slots" else ()
    for odd in ODD:
        text = refused(replay.compare, trace, ["none+lru"], **{name: odd})
        assert odd in fits or text.startswith(f"{name}: expected "), (odd, text)


def test_whole_numbers_of_numpy_are_numbers(trace: replay.Trace) -> None:
    plain = replay.compare(trace, ["none+lru"], slots=160, grid=[1.0, 2.0], clock=False)
    for slots in (np.int64(160), np.array([160])):
        run = replay.compare(
            trace, np.array(["none+lru"]), slots=slots, grid=np.array([1.0, 2.0]), clock=False, split=np.True_
        )  # type: ignore[arg-type]
        assert run.summary == plain.summary and run.info["command"][-1].count("160") == 1


@pytest.mark.parametrize("odd", ODD, ids=lambda odd: type(odd).__name__)
def test_every_other_function(odd: Any, tmp_path: Path) -> None:
    for function in (replay.open, replay.load):
        assert refused(function, odd).startswith("path: expected a path, found ")
    for name in CHARTS:
        assert refused(getattr(replay, name), odd).startswith(
            "data: expected a run or a polars frame, found "
        )
    assert refused(replay.save_chart, odd, tmp_path / "x.svg").startswith("axes: expected Axes")
    assert refused(replay.write_trace, odd, {}, {}).startswith("path: ")
    assert refused(replay.TraceWriter, odd, {}).startswith("path: ")
    for tables in (odd, {"windows": odd}):
        refused(replay.write_trace, tmp_path / "t", {}, tables)
    assert refused(replay.record, odd, tmp_path / "r").startswith("model: expected a torch.nn.Module")
    if odd != 2.5:
        assert refused(replay.Arena, 3, odd).startswith("bonus: expected a number")
    assert refused(replay.Arena, 3, protect=odd).startswith("protect: expected a whole number")
    assert not list(tmp_path.iterdir())


def test_a_frame_is_no_trace() -> None:
    assert refused(replay.compare, pl.DataFrame()).startswith("trace: expected a Trace or a path")
