"""The files that ``replay calibrate`` writes and the gates ``calibrated`` and ``coverage`` read (policies.md).

Both are JSON objects with a format name, a version and the shape of the model, nothing executable. A q file holds a
table by (layer, adjusted rank, margin bin); a candidate's bin is the number of edges that are at most its margin to
the predicted k-th. A coverage file holds ``theta`` and ``w`` of ``P(d extra suffice) = sigmoid(theta_d - w . q)``, q
being :data:`FEATURES` of the merged list; the gate then admits the candidates whose adjusted rank in their row is
below top_k + d.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from sys import float_info
from typing import Any

import numpy as np
from numpy.typing import NDArray

from replay.errors import InputError
from replay.trace.staging import write_text

VERSION = 1
Q_FORMAT, COVERAGE_FORMAT = "replay-q", "replay-coverage"

FEATURES = ("lead", "tail", "held", "rows")
"""What a coverage file weighs, of a prediction's merged list in its order (top_k is the model's):

- ``lead``: mean margin of the candidates whose adjusted rank is below top_k; 0 without any;
- ``tail``: mean margin of the others; 0 without any;
- ``held``: share of the first kind that is resident (speculative is not) when the list is made; 0 without any;
- ``rows``: rows of the prediction, less one.
"""


@dataclass(frozen=True)
class QTable:
    """Probabilities that a candidate is selected.

    Attributes
    ----------
    edges : float64[B - 1]
        Ascending margins; a candidate's bin is the number of them that are at most its margin.
    q, q_absent : float64[L, K, B]
        By layer, adjusted rank and bin, each in [0, 1]: of all candidates, and of those that are not resident, which
        is what a gate is asked about.
    ranking : mapping
        ``policy``, ``k``, ``p``, ``b``, ``r1`` of the ranking that the table was fitted for.
    """

    edges: NDArray[np.float64]
    q: NDArray[np.float64]
    q_absent: NDArray[np.float64]
    ranking: Mapping[str, Any]


@dataclass(frozen=True)
class Coverage:
    """Probabilities that the best top_k + d candidates of every row hold all that an event wants.

    Attributes
    ----------
    theta : float64[D]
        Not falling.
    w : float64[len(FEATURES)]
    ranking : mapping
        ``policy``, ``k``, ``p``, ``b``, ``r1`` of the ranking that it was fitted for.
    """

    theta: NDArray[np.float64]
    w: NDArray[np.float64]
    ranking: Mapping[str, Any]


def read_q(path: Path, layers: int, experts: int, top_k: int, ranks: int | None = None) -> QTable:
    """Read a q file for a model.

    Parameters
    ----------
    path : Path
    layers, experts, top_k : int
        Shape of the model that is replayed.
    ranks : int, optional
        Ranks of the ranking that will ask; any where None.

    Returns
    -------
    QTable

    Raises
    ------
    InputError
        The file cannot be read, is of another format, version, model shape or rank count, or holds a value that
        no q file has.

    Examples
    --------
    >>> from tempfile import mkdtemp
    >>> file = Path(mkdtemp()) / "q.json"
    >>> q = {"q": [[[0.1, 0.9]]], "q_absent": [[[0.1, 0.8]]]}
    >>> table = {"ranks": 1, "margin_edges": [0.0], "ranking": {"policy": "route", "k": 1}, **q}
    >>> about = {"format": Q_FORMAT, "version": 1, "model": shape(1, 8, 1), "trained_on": []}
    >>> write_file(file, {**about, **table})
    >>> read_q(file, 1, 8, 1).q.tolist()
    [[[0.1, 0.9]]]
    >>> read_q(file, 2, 8, 1)  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    replay.errors.InputError: ...q.json: fitted for 1 layers x 8 experts, top-1; this trace has 2 x 8, top-1; ...
    """
    found = _read(path, Q_FORMAT, layers, experts, top_k)
    count = _whole(path, found, "ranks")
    if ranks is not None and ranks != count:
        raise InputError(
            f"{path}: fitted for {count} ranks; the policy ranks {ranks}: give it k={count}, or run "
            f"`replay calibrate` with k={ranks}"
        )
    edges = _numbers(path, found, "margin_edges", (None,))
    if not (np.diff(edges) > 0).all():
        raise InputError(f"{path}: margin_edges do not ascend; run `replay calibrate` again")
    sizes = (layers, count, len(edges) + 1)
    q, absent = (_shares(path, found, name, sizes) for name in ("q", "q_absent"))
    for name in ("counts", "counts_absent"):
        if name in found and (_numbers(path, found, name, sizes) < 0).any():
            raise InputError(f"{path}: {name} holds a value below 0; run `replay calibrate` again")
    return QTable(edges, q, absent, _ranking(path, found))


def read_coverage(path: Path, layers: int, experts: int, top_k: int, ranks: int | None = None) -> Coverage:
    """Read a coverage file for a model.

    Parameters
    ----------
    path : Path
    layers, experts, top_k : int
        Shape of the model that is replayed.
    ranks : int, optional
        Ranks of the ranking that will ask; any where None.

    Returns
    -------
    Coverage

    Raises
    ------
    InputError
        The file cannot be read, is of another format, version, model shape or rank count, or holds a value that
        no coverage file has.
    """
    found = _read(path, COVERAGE_FORMAT, layers, experts, top_k)
    if found.get("features") != list(FEATURES):
        raise InputError(f"{path}: features are not {', '.join(FEATURES)}; run `replay calibrate` again")
    theta = _numbers(path, found, "theta", (None,))
    if not len(theta) or (np.diff(theta) < 0).any():
        raise InputError(f"{path}: theta is empty or falls; run `replay calibrate` again")
    ranking = _ranking(path, found)
    if ranks is not None and ranking.get("k") != ranks:
        raise InputError(
            f"{path}: fitted for {ranking.get('k')} ranks; the policy ranks {ranks}: give it the same k, or run "
            f"`replay calibrate` with k={ranks}"
        )
    return Coverage(theta, _numbers(path, found, "w", (len(FEATURES),)), ranking)


def shape(layers: int, experts: int, top_k: int) -> dict[str, int]:
    """A model's shape as the files state it."""
    return {"layers": layers, "experts": experts, "top_k": top_k}


def write_file(path: Path, content: Mapping[str, Any], force: bool = False) -> None:
    """Write a q or coverage file: JSON with sorted keys, whole or not at all; the same content, the same bytes.

    Parameters
    ----------
    path : Path
    content : mapping
        What :func:`read_q` or :func:`read_coverage` expects, and what a reader may like to know.
    force : bool
        Whether an old file is replaced.

    Raises
    ------
    InputError
        The path is taken.
    """
    text = json.dumps(content, sort_keys=True, allow_nan=False, separators=(",", ":"), ensure_ascii=False)
    write_text(path, f"{text}\n", force)


def _read(path: Path, form: str, layers: int, experts: int, top_k: int) -> Mapping[str, Any]:
    """The object of a file that is of the form, the version and the model shape that are asked for."""
    try:
        found = json.loads(path.read_bytes().decode("utf-8"))
    except OSError as problem:
        raise InputError(f"{path}: {problem.strerror}; give a file that `replay calibrate` wrote") from None
    except (ValueError, RecursionError):
        raise InputError(f"{path}: not JSON; give a file that `replay calibrate` wrote") from None
    name = found.get("format") if isinstance(found, dict) else None
    if name != form:
        raise InputError(f"{path}: format is {name!r}; expected {form!r}, as `replay calibrate` writes")
    if type(found.get("version")) is not int or found["version"] != VERSION:
        raise InputError(
            f"{path}: version {found.get('version')!r} of {form}; this program reads version {VERSION}: run "
            "`replay calibrate` again"
        )
    model = found.get("model")
    wanted = shape(layers, experts, top_k)
    if not isinstance(model, dict) or {name: model.get(name) for name in wanted} != wanted:
        fitted = model if isinstance(model, dict) else {}
        raise InputError(
            f"{path}: fitted for {fitted.get('layers')} layers x {fitted.get('experts')} experts, "
            f"top-{fitted.get('top_k')}; this trace has {layers} x {experts}, top-{top_k}; run `replay calibrate` "
            "on a trace of this model"
        )
    if not _sources(found.get("trained_on")):
        raise InputError(
            f"{path}: trained_on does not list traces (sha256) and their sessions; run `replay calibrate` again"
        )
    return found


def _sources(value: Any) -> bool:
    """Whether a value lists what was learned on: of each trace the hash, and sessions by number."""
    return isinstance(value, list) and all(
        isinstance(each, dict)
        and isinstance(each.get("sha256"), str)
        and isinstance(each.get("sessions"), list)
        and all(type(session) is int for session in each["sessions"])
        for each in value
    )


def _whole(path: Path, found: Mapping[str, Any], name: str) -> int:
    value = found.get(name)
    if type(value) is not int or not 0 <= value < 2**20:
        raise InputError(f"{path}: {name} is {value!r}; expected a whole number")
    return value


def _ranking(path: Path, found: Mapping[str, Any]) -> Mapping[str, Any]:
    ranking = found.get("ranking")
    if not isinstance(ranking, dict):
        raise InputError(f"{path}: ranking is missing; run `replay calibrate` again")
    return ranking


def _shares(path: Path, found: Mapping[str, Any], name: str, sizes: Sequence[int]) -> NDArray[np.float64]:
    q = _numbers(path, found, name, sizes)
    if not ((q >= 0) & (q <= 1)).all():
        raise InputError(f"{path}: {name} holds a value outside 0 to 1; run `replay calibrate` again")
    return q


def _numbers(
    path: Path, found: Mapping[str, Any], name: str, sizes: Sequence[int | None]
) -> NDArray[np.float64]:
    """Nested lists of finite numbers as an array of a shape (None: any length)."""
    problem = InputError(
        f"{path}: {name} is no list of finite numbers"
        f" of shape {' x '.join('any' if size is None else str(size) for size in sizes)}; run `replay calibrate` again"
    )
    if not _nested(found.get(name), sizes):
        raise problem
    try:
        return np.array(found[name], np.float64).reshape([-1 if size is None else size for size in sizes])
    except (ValueError, OverflowError):
        raise problem from None


def _nested(value: Any, sizes: Sequence[int | None]) -> bool:
    if not sizes:
        return type(value) in (int, float) and abs(value) <= float_info.max  # false for NaN
    if not isinstance(value, list) or sizes[0] not in (None, len(value)):
        return False
    return all(_nested(each, sizes[1:]) for each in value)
