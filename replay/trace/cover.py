"""What a reader refuses in whole windows: missing rows and layers, matches and residents that cannot be."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from replay.schema.trace import TRACE
from replay.trace.check import Frame, Report
from replay.trace.columns import Block, Lists
from replay.trace.gather import join, join_lists


def check_windows(
    parts: Sequence[Block], name: str, frame: Frame, first: int, stop: int, report: Report
) -> None:
    """Check the windows first .. stop-1 of a table as wholes.

    Parameters
    ----------
    parts : sequence of Block
        All rows of these windows, sorted, keys sound.
    name : str
        The table.
    frame : Frame
        What there is.
    first, stop : int
        The windows.
    report : Report
        Told what is wrong.
    """
    if name == "reads" or frame.rows is None:  # reads holds what happened: nothing can be missing
        return
    keys = _keys(parts, name, first)
    rows = frame.rows[first:stop]
    if name == "candidates":
        _check_layers(keys, frame, rows, first, report)
        return
    _check_whole(keys, frame, rows, first, report, TRACE[name].required)
    read = [part for part in parts if not part.bare]
    if name == "drafts":
        _check_matched(_keys(read, name, first), join(read, "matched").astype(bool), first, report)
    if name == "residents" and frame.slots is not None and not report.counts["unknown-expert"]:
        experts = join_lists(read, "experts", np.int32)
        _check_slots(_keys(read, name, first), experts, frame, first, stop - first, report)


def _keys(parts: Sequence[Block], name: str, first: int) -> dict[str, np.ndarray]:
    """Join the columns of the key, windows counted from ``first``."""
    keys = {key: join(parts, key) for key in TRACE[name].key}
    keys["window"] = keys["window"] - first
    return keys


def _check_whole(
    keys: dict[str, np.ndarray], frame: Frame, rows: np.ndarray, first: int, report: Report, all_windows: bool
) -> None:
    """Check that every window that is there has all its cells: (row, layer), or layers, or draft steps."""
    if "row" in keys:
        cells, wanted = keys["row"] * frame.layers + keys["layer"], rows * frame.layers
    elif "layer" in keys:
        cells, wanted = keys["layer"], np.full(len(rows), frame.layers)
    else:
        cells, wanted = keys["step"], rows - 1
    counts = np.bincount(keys["window"], minlength=len(rows))
    short = (counts != wanted) & (all_windows | (counts > 0))
    starts = np.cumsum(counts) - counts
    for each in np.flatnonzero(short):
        gap = _first_gap(cells[starts[each] : starts[each] + counts[each]])
        place = f"step {gap}" if "step" in keys else f"layer {gap % frame.layers}"
        if "row" in keys:
            place = f"row {gap // frame.layers}, {place}"
        report.one(
            "missing-rows",
            f"window {first + each}, {place}",
            f"{wanted[each]} rows of the window",
            f"{counts[each]}",
            "write them all" if all_windows else "write them all, or leave the whole window out",
        )


def _first_gap(numbers: np.ndarray) -> int:
    """Find the first number from 0 up that an ascending array lacks."""
    return int(np.argmax(np.append(numbers, -1) != np.arange(len(numbers) + 1)))


def _check_layers(
    keys: dict[str, np.ndarray], frame: Frame, rows: np.ndarray, first: int, report: Report
) -> None:
    """Check that every layer that has candidates has them for all rows of the window."""
    cell = keys["window"] * frame.layers + keys["layer"]
    counts = np.bincount(cell, minlength=len(rows) * frame.layers).reshape(-1, frame.layers)
    for window, layer in np.argwhere((counts != rows[:, None]) & (counts > 0)):
        gap = _first_gap(keys["row"][cell == window * frame.layers + layer])
        report.one(
            "missing-rows",
            f"window {first + window}, row {gap}, layer {layer}",
            f"{rows[window]} rows of the layer",
            f"{counts[window, layer]}",
            "write every row of a layer that has predictions, or leave the layer out",
        )


def _check_matched(keys: dict[str, np.ndarray], matched: np.ndarray, first: int, report: Report) -> None:
    """Check that the matched drafts of each window come before the others."""
    window = keys["window"]
    late = matched[1:] & ~matched[:-1] & (window[1:] == window[:-1])
    for each in np.flatnonzero(late) + 1:
        report.one(
            "matched",
            f"window {first + window[each]}, step {keys['step'][each]}",
            "the matched drafts to be the first ones",
            "matched after one that is not",
            "matched means that this draft and all before it were right",
        )


def _check_slots(
    keys: dict[str, np.ndarray], experts: Lists, frame: Frame, first: int, windows: int, report: Report
) -> None:
    """Check that no window shows more residents than the engine had slots.

    A layer gains residents only at its own event, so the snapshots of one window cannot add up to more than
    the slots that were in use when it began.
    """
    assert frame.slots is not None and frame.classes is not None
    kinds = len(frame.slots)
    places = frame.layers if frame.by_layer else 1
    place = keys["layer"] if frame.by_layer else np.zeros_like(keys["layer"])
    lengths = experts.lengths
    cell = np.repeat(keys["window"] * places + place, lengths) * kinds
    cell += frame.classes[np.repeat(keys["layer"], lengths), experts.values]
    counts = np.bincount(cell, minlength=windows * places * kinds).reshape(windows, places, kinds)
    slots = np.array(frame.slots)
    limits = slots // places + (np.arange(places)[:, None] < slots % places)
    for window, where, kind in np.argwhere(counts > limits):
        report.one(
            "residents-over-slots",
            f"window {first + window}" + (f", layer {where}" if frame.by_layer else ""),
            f"at most {limits[where, kind]} residents (slots of size class {kind})",
            f"{counts[window, where, kind]}",
            "correct the snapshot, or policy.slots in trace.json",
        )
