"""What a reader refuses in the contents of each table: picks, scores, residents, sizes and the rest."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from replay.trace.check import Frame, Report
from replay.trace.columns import Block, Lists

_PAIRWISE = 16  # up to this many items a row, comparing all pairs beats sorting them
_OUTCOMES = np.isin(np.arange(256), [0, 1, 2, 255])


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
    if width <= _PAIRWISE and rows and (lengths == width).all():
        columns = np.ascontiguousarray(lists.values.reshape(rows, width).T)
        found = np.zeros(rows, bool)
        for step in range(1, width):
            same = columns[step:] == columns[:-step]
            if same.any():
                found |= same.any(axis=0)
        return found
    packed = np.repeat(np.arange(rows) * experts, lengths) + lists.values
    packed.sort()
    found = np.zeros(rows, bool)
    found[packed[1:][packed[1:] == packed[:-1]] // experts] = True
    return found


def _check_ids(block: Block, frame: Frame, report: Report, unique: bool = True) -> bool:
    """Check a list of expert ids: in range, and none twice in a row."""
    lists = block.lists("experts")
    values = lists.values
    if len(values) == 0:
        return True
    if int(values.max()) >= frame.experts or int(values.min()) < 0:
        outside = (values >= frame.experts) | (values < 0)
        expected = f"expert ids from 0 to {frame.experts - 1}"
        return _check_items(
            block,
            lists,
            outside,
            report,
            "unknown-expert",
            expected,
            "correct it, or model.experts in trace.json",
        )
    if not unique:
        return True
    found = repeats(lists, frame.experts)
    return report.rows(
        block,
        "repeated-expert",
        found,
        "each expert once in a row",
        lambda row: _told(lists, row),
        "write an id once",
    )


def _told(lists: Lists, row: int) -> str:
    items = lists.values[lists.offsets[row] : lists.offsets[row + 1]].tolist()
    return f"{items[:16]}"[:-1] + (", ...]" if len(items) > 16 else "]")


def check_selections(block: Block, frame: Frame, report: Report) -> None:
    """Check picks, and that weights and outcomes go with them."""
    if "experts" in block.columns:
        lengths = block.lists("experts").lengths
        report.rows(
            block,
            "picks",
            lengths > frame.top_k,
            f"at most top_k = {frame.top_k} picks",
            lambda row: f"{lengths[row]}",
            "correct the row, or model.top_k in trace.json",
        )
        _check_ids(block, frame, report)
    for name in ("weights", "outcome"):
        if name in block.columns and "experts" in block.columns:
            _check_beside(block, name, report)
    if "outcome" in block.columns:
        lists = block.lists("outcome")
        known = (lists.values >= 0) & (lists.values <= 255)
        known &= _OUTCOMES[np.clip(lists.values, 0, 255)]
        _check_items(
            block, lists, ~known, report, "outcome", "outcomes 0, 1, 2 or 255", "write 255 where unknown"
        )


def _check_beside(block: Block, name: str, report: Report, beside: str = "experts") -> bool:
    own, other = block.lists(name), block.lists(beside)
    if np.array_equal(own.offsets, other.offsets):
        return True
    lengths, wanted = own.lengths, other.lengths
    wrong = lengths != wanted
    if own.valid is not None:
        wrong &= own.valid
    return report.rows(
        block,
        "length",
        wrong,
        f"as many {name} as {beside}",
        lambda row: f"{lengths[row]} beside {wanted[row]}",
        "write one for each",
    )


def _check_items(
    block: Block, lists: Lists, wrong: np.ndarray, report: Report, reason: str, expected: str, fix: str
) -> bool:
    """Tell the rows that hold a wrong item, with the first such item."""
    items = np.flatnonzero(wrong)
    if len(items) == 0:
        return True
    rows, at = np.unique(lists.row_of(items), return_index=True)
    first = dict(zip(rows.tolist(), lists.values[items[at]].tolist(), strict=True))
    return report.rows(
        block, reason, np.isin(np.arange(block.rows), rows), expected, lambda row: f"{first[row]}", fix
    )


def _unsound(scores: np.ndarray) -> bool:
    """Say whether any score is NaN or +inf, by two integer maxima over the bits."""
    if len(scores) == 0:
        return False
    bits = scores.dtype.itemsize * 8
    infinity = np.array(np.inf, scores.dtype).view(f"i{bits // 8}")
    minus = np.array(-np.inf, scores.dtype).view(f"u{bits // 8}")
    return bool(scores.view(infinity.dtype).max() >= infinity or scores.view(minus.dtype).max() > minus)


def check_scores(block: Block, frame: Frame, report: Report) -> None:
    """Check scores, the ids they belong to where sparse, and the layer they were issued after."""
    scores = block.lists("scores")
    if _unsound(scores.values):
        wrong = np.isnan(scores.values) | (scores.values == np.inf)
        _check_items(
            block, scores, wrong, report, "score", "finite scores or -inf", "record logits as they are"
        )
    if "experts" in block.columns:
        _check_beside(block, "scores", report)
        _check_ids(block, frame, report)
    else:
        lengths = scores.lengths
        report.rows(
            block,
            "dense-length",
            lengths != frame.experts,
            f"{frame.experts} scores, one an expert",
            lambda row: f"{lengths[row]}",
            "write them all, or the column experts beside them",
        )
    if "issued_after" in block.columns:
        after = block.flat("issued_after")
        layer = block.flat("layer").values.astype(np.int64)
        wrong = (after.values >= layer) | (after.values < -1)
        if after.valid is not None:
            wrong &= after.valid
        report.rows(
            block,
            "issued-after",
            wrong,
            "issued_after from -1 to layer-1",
            lambda row: f"{after.values[row]}",
            "a prediction comes before its layer",
        )


def check_residents(block: Block, frame: Frame, report: Report) -> None:
    """Check residents: ids in range and ascending."""
    if not _check_ids(block, frame, report, unique=False):
        return
    lists = block.lists("experts")
    falls = lists.values[1:] <= lists.values[:-1]
    starts = lists.offsets[1:-1]
    falls[starts[(starts > 0) & (starts < len(lists.values))] - 1] = False
    if falls.any():
        rows = np.isin(np.arange(block.rows), lists.row_of(np.flatnonzero(falls) + 1))
        report.rows(
            block,
            "residents-order",
            rows,
            "ascending ids, each once",
            lambda row: _told(lists, row),
            "sort them",
        )


def check_experts(block: Block, frame: Frame, report: Report) -> None:
    """Check the sizes of experts: at least one byte."""
    report.rows(
        block,
        "size",
        block.flat("bytes").values == 0,
        "bytes of at least 1",
        lambda _: "0",
        "write the bytes that a read of the expert moves",
    )


def check_reads(block: Block, frame: Frame, report: Report) -> None:
    """Check the kind of each read."""
    kinds = block.flat("kind")
    names = kinds.names or ()
    known = np.array([name in ("demand", "prefetch") for name in names] + [True])
    report.rows(
        block,
        "kind",
        ~known[kinds.values],
        "kind demand or prefetch",
        lambda row: repr(names[kinds.values[row]]),
        "write one of the two",
    )


CONTENTS: dict[str, Callable[[Block, Frame, Report], None]] = {
    "selections": check_selections,
    "candidates": check_scores,
    "router_scores": check_scores,
    "residents": check_residents,
    "experts": check_experts,
    "reads": check_reads,
}
