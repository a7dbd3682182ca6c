"""The lines of layers."""

from __future__ import annotations

from typing import Any

import numpy as np

from replay.importers.json_lines import nested, numbers, whole_numbers
from replay.importers.jsonl.header import Header, is_whole
from replay.importers.routed.survey import NULLS

COUNTERS = ("hits", "prefetch_hits", "late", "misses", "issued", "cancelled", "wait_us")
_READ = {
    "layer", "experts", "weights", "outcome", "residents", "router_scores", "router_experts", "candidates",
    "candidate_experts", "issued_after", "counters", "pre_us", "post_us",
}  # fmt: skip
_NO_EXPERT = frozenset((*NULLS, 2**64 - 1))


def check_event(
    header: Header, line: int, value: dict[str, Any], layer: int, rows: int, ignored: set[str]
) -> dict[str, Any]:
    """Check the line of a layer.

    Parameters
    ----------
    header : Header
    line : int
        Where it stands.
    value : dict
        The line.
    layer : int
        The layer that has to come.
    rows : int
        Rows of the window.
    ignored : set of str
        Told of keys that are not read.

    Returns
    -------
    dict
        ``experts`` (lists without picks of -1), ``nulls`` (how many those were), and what else is there.

    Raises
    ------
    InputError
        It is not as the format says.
    """
    ignored |= value.keys() - _READ
    if not is_whole(value.get("layer"), layer, layer):
        raise header.wrong(line, f"expected layer {layer}, found {str(value.get('layer'))[:40]}")
    event: dict[str, Any] = {"layer": layer, "nulls": 0}
    lists = _lists(header, line, value, "experts", rows)
    kept = [
        [i for i, each in enumerate(ids) if not (isinstance(each, int) and each in _NO_EXPERT)]
        for ids in lists
    ]
    event["experts"] = [
        _picks(header, line, [ids[i] for i in chosen]) for ids, chosen in zip(lists, kept, strict=True)
    ]
    event["nulls"] = sum(map(len, lists)) - sum(map(len, kept))
    for name in ("weights", "outcome"):
        if value.get(name) is not None:
            event[name] = _beside(header, line, value, name, lists, kept)
    if value.get("residents") is not None:
        event["residents"] = _ids(header, line, value["residents"], "residents")
    for name, sparse in (("router_scores", "router_experts"), ("candidates", "candidate_experts")):
        if value.get(name) is not None:
            event[name] = _scores(header, line, value, name, sparse, rows)
    if "candidates" in event:
        event["issued_after"] = _issued(header, line, value.get("issued_after", layer - 1), layer, rows)
    if value.get("counters") is not None:
        event["counters"] = _counters(header, line, value["counters"])
    if value.get("pre_us") is not None or value.get("post_us") is not None:
        event["timing"] = [_number(header, line, value.get(name), name) for name in ("pre_us", "post_us")]
    return event


def _lists(header: Header, line: int, value: dict[str, Any], name: str, rows: int) -> list[list[Any]]:
    """A list for each row; null is an empty one."""
    flat, lengths = nested(value.get(name), lambda text: header.wrong(line, text), name)
    if len(lengths) != rows:
        raise header.wrong(line, f"expected {rows} lists in {name}, one a row, found {len(lengths)}")
    ends = np.cumsum(lengths).tolist()
    return [flat[end - length : end] for end, length in zip(ends, lengths, strict=True)]


def _picks(header: Header, line: int, ids: list[Any]) -> list[int]:
    _ids(header, line, ids, "experts")
    if len(ids) > header.top_k:
        raise header.wrong(line, f"expected at most {header.top_k} picks, found {len(ids)}")
    if len(set(ids)) < len(ids):
        again = next(each for i, each in enumerate(ids) if each in ids[:i])
        raise header.wrong(line, f"expert {again} is picked twice in one list; correct it")
    return ids


def _ids(header: Header, line: int, ids: Any, name: str) -> list[int]:
    if not isinstance(ids, list):
        raise header.wrong(line, f"expected {name} as a list, found {str(ids)[:40]}")
    for each in ids:
        if not is_whole(each, 0, header.experts - 1):
            raise header.wrong(
                line, f"expected expert ids from 0 to {header.experts - 1} in {name}, found {str(each)[:40]}"
            )
    return ids


def _beside(
    header: Header, line: int, value: dict[str, Any], name: str, lists: list[list[Any]], kept: list[list[int]]
) -> list[list[Any] | None]:
    """Weights or outcomes of the picks; a list with null is left out whole."""
    found: list[list[Any] | None] = []
    given = value[name]
    if not isinstance(given, list) or len(given) != len(lists):
        raise header.wrong(line, f"expected {len(lists)} lists in {name}, one a row")
    for own, ids, chosen in zip(given, lists, kept, strict=True):
        if own is None:
            found.append(None)
            continue
        if not isinstance(own, list) or len(own) != len(ids):
            raise header.wrong(line, f"expected {len(ids)} {name} beside the experts, found {str(own)[:40]}")
        if name == "outcome":
            codes = whole_numbers(own, lambda text: header.wrong(line, text), name).tolist()
            if not set(codes) <= {0, 1, 2, 255}:
                raise header.wrong(line, f"expected outcomes 0, 1, 2 or 255, found {codes}")
            found.append([codes[i] for i in chosen])
        else:
            weights = numbers(own, lambda text: header.wrong(line, text), name)[chosen]
            found.append(weights.tolist() if np.isfinite(weights).all() else None)
    return found


def _scores(header: Header, line: int, value: dict[str, Any], name: str, sparse: str, rows: int) -> Any:
    """Scores of each row, null for a masked expert (-inf), and the ids they belong to where sparse."""
    lists = _lists(header, line, value, name, rows)
    scores = []
    for own in lists:
        values = numbers(own, lambda text: header.wrong(line, text), name)
        masked = np.array([each is None for each in own], bool)
        scores.append(np.where(masked, -np.inf, values) if masked.any() else values)
    if value.get(sparse) is None:
        return scores, None
    ids = _lists(header, line, value, sparse, rows)
    for own, values in zip(ids, scores, strict=True):
        if len(_ids(header, line, own, sparse)) != len(values):
            raise header.wrong(
                line, f"expected as many {sparse} as {name}, found {len(own)} and {len(values)}"
            )
    return scores, ids


def _issued(header: Header, line: int, given: Any, layer: int, rows: int) -> list[int]:
    each = given if isinstance(given, list) else [given] * rows
    if len(each) != rows or not all(is_whole(after, -1, layer - 1) for after in each):
        raise header.wrong(line, f"expected issued_after from -1 to {layer - 1}, found {str(given)[:40]}")
    return each


def _counters(header: Header, line: int, given: Any) -> dict[str, Any]:
    if not isinstance(given, dict):
        raise header.wrong(line, f"expected counters as an object, found {str(given)[:40]}")
    for name in COUNTERS[:4]:
        if not is_whole(given.get(name), 0, 2**32 - 1):
            raise header.wrong(line, f"expected {name} from 0 in counters, found {str(given.get(name))[:40]}")
    for name in COUNTERS[4:6]:
        if given.get(name) is not None and not is_whole(given[name], 0, 2**32 - 1):
            raise header.wrong(line, f"expected {name} from 0 in counters, found {str(given[name])[:40]}")
    wait = given.get("wait_us")
    if wait is not None:
        _number(header, line, wait, "wait_us")
    return {name: given.get(name) for name in COUNTERS}


def _number(header: Header, line: int, given: Any, name: str) -> float:
    if not isinstance(given, int | float) or isinstance(given, bool):
        raise header.wrong(line, f"expected {name} as a number, found {str(given)[:40]}")
    return float(given)
