"""Files of q and coverage: read back as written, and refused by name."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from replay.calibration.file import FEATURES, read_coverage, read_q, shape, write_file
from replay.errors import InputError

RANKING = {"policy": "route", "k": 3, "p": 3, "b": 0.85, "r1": 0.0}
Q: dict[str, Any] = {
    "format": "replay-q",
    "version": 1,
    "model": shape(2, 8, 2),
    "ranking": RANKING,
    "trained_on": [{"trace": "a", "sha256": "0", "sessions": [0, 1]}],
    "ranks": 3,
    "margin_edges": [-0.5, 0.5],
    "q": [[[0.0, 0.5, 1]] * 3] * 2,
    "q_absent": [[[0.0, 0.25, 1]] * 3] * 2,
}
COVERAGE: dict[str, Any] = {
    "format": "replay-coverage",
    "version": 1,
    "model": shape(2, 8, 2),
    "ranking": RANKING,
    "trained_on": [],
    "features": list(FEATURES),
    "theta": [-1.0, 0.5],
    "w": [0.0] * len(FEATURES),
}


def written(folder: Path, content: Any) -> Path:
    path = folder / "file.json"
    write_file(path, content, force=True)
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = written(tmp_path, Q)
    table = read_q(path, 2, 8, 2, ranks=3)
    assert table.q.shape == (2, 3, 3) and table.q[1, 2].tolist() == [0.0, 0.5, 1.0]
    assert table.q_absent[0, 0].tolist() == [0.0, 0.25, 1.0]
    assert table.edges.tolist() == [-0.5, 0.5] and table.ranking == RANKING
    assert [each.name for each in tmp_path.iterdir()] == ["file.json"]
    first = path.read_bytes()
    assert written(tmp_path, dict(reversed(Q.items()))).read_bytes() == first
    found = read_coverage(written(tmp_path, COVERAGE), 2, 8, 2, ranks=3)
    assert found.theta.tolist() == [-1.0, 0.5] and found.w.shape == (len(FEATURES),)


def test_without_edges_there_is_one_bin(tmp_path: Path) -> None:
    one = [[[0.5]] * 3] * 2
    table = read_q(written(tmp_path, {**Q, "margin_edges": [], "q": one, "q_absent": one}), 2, 8, 2)
    assert table.edges.dtype == np.float64 and table.q.shape == (2, 3, 1)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "replay-coverage"}, "format is 'replay-coverage'; expected 'replay-q'"),
        ({"version": 2}, "version 2 of replay-q; this program reads version 1"),
        ({"version": True}, "version True"),
        ({"model": shape(2, 9, 2)}, "fitted for 2 layers x 9 experts, top-2; this trace has 2 x 8, top-2"),
        ({"model": None}, "fitted for None layers"),
        ({"ranks": 4}, "fitted for 4 ranks; the policy ranks 3"),
        ({"ranks": 3.0}, "ranks is 3.0; expected a whole number"),
        ({"margin_edges": [0.5, 0.5]}, "margin_edges do not ascend"),
        ({"margin_edges": [0.5]}, "q is no list of finite numbers of shape 2 x 3 x 2"),
        ({"q": [[[0.0, 0.5, 1.5]] * 3] * 2}, "q holds a value outside 0 to 1"),
        ({"q": [[[0.0, 0.5, True]] * 3] * 2}, "q is no list"),
        ({"q": "0.5"}, "q is no list"),
        ({"q_absent": None}, "q_absent is no list"),
        ({"q_absent": [[[0.0, 0.5, -0.5]] * 3] * 2}, "q_absent holds a value outside 0 to 1"),
        ({"ranking": None}, "ranking is missing"),
        ({"counts": []}, "counts is no list of finite numbers of shape 2 x 3 x 3"),
        ({"counts_absent": [[[0, -1, 2]] * 3] * 2}, "counts_absent holds a value below 0"),
        ({"trained_on": None}, "trained_on does not list traces"),
        ({"trained_on": [{"sha256": "0", "sessions": "x"}]}, "trained_on does not list traces"),
    ],
)
def test_a_q_file_that_does_not_fit_is_refused(tmp_path: Path, change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says) as caught:
        read_q(written(tmp_path, {**Q, **change}), 2, 8, 2, ranks=3)
    assert "\n" not in str(caught.value) and str(caught.value).startswith(str(tmp_path))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "replay-q"}, "expected 'replay-coverage'"),
        ({"version": 0}, "version 0 of replay-coverage"),
        ({"model": shape(1, 8, 2)}, "fitted for 1 layers"),
        ({"ranking": {**RANKING, "k": 5}}, "fitted for 5 ranks; the policy ranks 3"),
        ({"features": ["lead"]}, "features are not lead, tail"),
        ({"theta": [0.5, 0.0]}, "theta is empty or falls"),
        ({"theta": []}, "theta is empty or falls"),
        ({"w": [1.0]}, "w is no list of finite numbers of shape 4"),
    ],
)
def test_a_coverage_file_that_does_not_fit_is_refused(
    tmp_path: Path, change: dict[str, Any], says: str
) -> None:
    with pytest.raises(InputError, match=says):
        read_coverage(written(tmp_path, {**COVERAGE, **change}), 2, 8, 2, ranks=3)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        (b"", "not JSON"),
        (b"\xff\xfe", "not JSON"),
        (b"[" * 100_000, "not JSON"),
        (b"[1]", "format is None"),
        (json.dumps({**Q, "q": [[[0.5, 0.5, float("nan")]] * 3] * 2}).encode(), "q is no list of finite"),
        (json.dumps({**Q, "margin_edges": [0, 10**400]}).encode(), "margin_edges is no list"),
    ],
)
def test_what_is_no_q_file_is_refused(tmp_path: Path, data: bytes, says: str) -> None:
    path = tmp_path / "q.json"
    path.write_bytes(data)
    with pytest.raises(InputError, match=says):
        read_q(path, 2, 8, 2)
    with pytest.raises(InputError, match="No such file"):
        read_q(tmp_path / "none.json", 2, 8, 2)
