"""What a reader refuses in the contents of each table: picks, scores, residents, sizes and the rest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from replay.trace.check import Frame, Report
from replay.trace.columns import Block, Lists

_PAIRWISE = 16  # up to this many items a row, comparing all pairs beats sorting them
_OUTCOMES = (0, 1, 2, 255)
_KINDS = ("demand", "prefetch")


def repeats(lists: Lists, experts: int) -> np.ndarray:
    """Find rows in which an id comes twice.

    Parameters
    ----------
    lists : Lists
        Ids from 0 to experts-1.
    experts : int
        How many ids there are.

    Returns
    -------
    numpy.ndarray of bool
        One a row.

    Examples
    --------
    >>> import numpy as np
    >>> repeats(Lists(np.array([3, 1, 3, 2, 2]), np.array([0, 3, 5])), 4).tolist()
    [True, True]
    """
    lengths = lists.lengths
    rows = len(lengths)
    width = int(lengths[0]) if rows else 0
    if (lengths == width).all():
        return _repeats_in_table(lists.values.reshape(rows, width))
    packed = np.repeat(np.arange(rows) * experts, lengths) + lists.values
    packed.sort()
    found = np.zeros(rows, bool)
    found[packed[1:][packed[1:] == packed[:-1]] // experts] = True
    return found


def _repeats_in_table(ids: np.ndarray) -> np.ndarray:
    """Find rows of a two-dimensional array in which an id comes twice."""
    rows, width = ids.shape
    found = np.zeros(rows, bool)
    if width > _PAIRWISE:
        ordered = np.sort(ids, axis=1)
        return (ordered[:, 1:] == ordered[:, :-1]).any(axis=1)
    columns = np.ascontiguousarray(ids.T)
    for step in range(1, width):
        same = columns[step:] == columns[:-step]
        if same.any():
            found |= same.any(axis=0)
    return found


def _check_ids(block: Block, frame: Frame, report: Report) -> bool:
    """Check that expert ids are in range; say whether they are."""
    lists = block.lists("experts")
    values = lists.values
    if len(values) == 0 or (int(values.max()) < frame.experts and int(values.min()) >= 0):
        return True
    outside = (values >= frame.experts) | (values < 0)
    expected, fix = f"expert ids from 0 to {frame.experts - 1}", "correct it, or model.experts in trace.json"
    _tell_items(block, lists, outside, report, "unknown-expert", expected, fix)
    return False


def _check_unique(block: Block, frame: Frame, report: Report) -> None:
    """Check that no id in range comes twice in a row."""
    lists = block.lists("experts")
    found = repeats(lists, frame.experts)
    if found.any():
        expected = "each expert once in a row"
        report.rows(
            block, "repeated-expert", found, expected, lambda row: _told(lists, row), "write an id once"
        )


def _told(lists: Lists, row: int) -> str:
    items = lists.values[lists.offsets[row] : lists.offsets[row + 1]].tolist()
    return f"{items[:16]}"[:-1] + (", ...]" if len(items) > 16 else "]")


def _check_beside(block: Block, name: str, report: Report) -> None:
    """Check that a list has as many items as the experts of its row; a null list may stand beside any."""
    own, other = block.lists(name), block.lists("experts")
    if np.array_equal(own.offsets, other.offsets):
        return
    lengths, wanted = own.lengths, other.lengths
    wrong = (lengths != wanted) & (True if own.valid is None else own.valid)
    expected, fix = f"as many {name} as experts", "write one for each"
    report.rows(block, "length", wrong, expected, lambda row: f"{lengths[row]} and {wanted[row]}", fix)


def _tell_items(
    block: Block, lists: Lists, wrong: np.ndarray, report: Report, reason: str, expected: str, fix: str
) -> None:
    """Tell the rows that hold a wrong item, with the first such item of each."""
    items = np.flatnonzero(wrong)
    rows, at = np.unique(lists.row_of(items), return_index=True)
    first = dict(zip(rows.tolist(), lists.values[items[at]].tolist(), strict=True))
    where = np.isin(np.arange(block.rows), rows)
    report.rows(block, reason, where, expected, lambda row: f"{first[row]}", fix)


def check_selections(block: Block, frame: Frame, report: Report) -> None:
    """Check picks, and that weights and outcomes go with them."""
    lengths = block.lists("experts").lengths
    if (lengths > frame.top_k).any():
        expected, fix = f"at most top_k = {frame.top_k} picks", "correct it, or model.top_k in trace.json"
        report.rows(block, "picks", lengths > frame.top_k, expected, lambda row: f"{lengths[row]}", fix)
    if _check_ids(block, frame, report):
        _check_unique(block, frame, report)
    for name in ("weights", "outcome"):
        if name in block.columns:
            _check_beside(block, name, report)
    if "outcome" in block.columns:
        lists = block.lists("outcome")
        unknown = ~np.isin(lists.values, _OUTCOMES)
        if unknown.any():
            expected, fix = "outcomes 0, 1, 2 or 255", "write 255 where it is not known"
            _tell_items(block, lists, unknown, report, "outcome", expected, fix)


def _unsound(scores: np.ndarray) -> bool:
    """Say whether any score is NaN or +inf, by two integer maxima over the bits.

    As signed integers +inf and the positive NaN are the largest; as unsigned ones the negative NaN, then -inf.
    """
    if len(scores) == 0:
        return False
    size = scores.dtype.itemsize
    plus = np.array(np.inf, scores.dtype).view(f"i{size}")
    minus = np.array(-np.inf, scores.dtype).view(f"u{size}")
    return bool(scores.view(plus.dtype).max() >= plus or scores.view(minus.dtype).max() > minus)


def check_scores(block: Block, frame: Frame, report: Report) -> None:
    """Check scores, the ids they belong to where sparse, and the layer they were issued after."""
    scores = block.lists("scores")
    if _unsound(scores.values):
        wrong = np.isnan(scores.values) | (scores.values == np.inf)
        expected, fix = "finite scores, or -inf for a masked expert", "record the logits as they are"
        _tell_items(block, scores, wrong, report, "score", expected, fix)
    if "experts" in block.columns:
        _check_beside(block, "scores", report)
        if _check_ids(block, frame, report):
            _check_unique(block, frame, report)
    else:
        lengths = scores.lengths
        if (lengths != frame.experts).any():
            expected = f"{frame.experts} scores, one an expert"
            fix = "write them all, or name the experts in a column experts"
            report.rows(
                block, "dense-length", lengths != frame.experts, expected, lambda row: f"{lengths[row]}", fix
            )
    if "issued_after" in block.columns:
        _check_issued(block, report)


def _check_issued(block: Block, report: Report) -> None:
    after = block.flat("issued_after")
    wrong = (after.values >= block.flat("layer").values) | (after.values < -1)
    if after.valid is not None:
        wrong &= after.valid
    expected, fix = "issued_after from -1 to layer-1", "a prediction comes before its layer"
    report.rows(block, "issued-after", wrong, expected, lambda row: f"{after.values[row]}", fix)


def check_residents(block: Block, frame: Frame, report: Report) -> None:
    """Check residents: ids in range and ascending."""
    if not _check_ids(block, frame, report):
        return
    lists = block.lists("experts")
    falls = lists.values[1:] <= lists.values[:-1]
    starts = lists.offsets[1:-1]
    falls[starts[(starts > 0) & (starts < len(lists.values))] - 1] = False
    if falls.any():
        rows = np.isin(np.arange(block.rows), lists.row_of(np.flatnonzero(falls) + 1))
        expected = "ascending ids, each once"
        report.rows(block, "residents-order", rows, expected, lambda row: _told(lists, row), "sort them")


def check_experts(block: Block, frame: Frame, report: Report) -> None:
    """Check the sizes of experts: at least one byte."""
    fix = "write the bytes that a read of the expert moves"
    report.rows(block, "size", block.flat("bytes").values == 0, "bytes of at least 1", lambda _: "0", fix)


def check_reads(block: Block, frame: Frame, report: Report) -> None:
    """Check the kind of each read."""
    kinds = block.flat("kind")
    names = kinds.names or ()
    unknown = np.array([name not in _KINDS for name in names] + [False])[kinds.values]
    expected, fix = "kind demand or prefetch", "write one of the two"
    report.rows(block, "kind", unknown, expected, lambda row: repr(names[kinds.values[row]]), fix)


CONTENTS: dict[str, Callable[[Block, Frame, Report], None]] = {
    "selections": check_selections,
    "candidates": check_scores,
    "router_scores": check_scores,
    "residents": check_residents,
    "experts": check_experts,
    "reads": check_reads,
}
