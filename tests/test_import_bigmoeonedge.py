"""The importer of BigMoeOnEdge route traces: what it makes of a file, and every trap of the format."""

import csv
import json
import random
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from conftest import Outcome

from replay.arena.bound import parse_budget
from replay.declare.semantics import Semantics
from replay.engine.frame import COUNTERS
from replay.errors import InputError
from replay.fidelity import check_fidelity
from replay.importers import IMPORTERS, Imported, Request, importer
from replay.importers.text_rows import TextRows
from replay.lane.lane import Lane, combine
from replay.lane.shape import Shape
from replay.prepare.chunk import prepare
from replay.spec.grammar import parse
from replay.spec.resolve import resolve
from replay.trace import Trace, open_trace

Cli = Callable[..., Outcome]
HEADER = "turn,phase,step,layer,slot,expert,weight,residency,expert_bytes"
PREAMBLE = (
    "# route_trace v1",
    "# model=/data/a model.gguf arch=test n_layer=2 n_expert=4 n_expert_used=2",
    "# layer=0 expert_bytes=10 dense_bytes=7",
    "# layer=1 expert_bytes=20 dense_bytes=7",
)
# one prompt of three rows (the last layer routes only the last), then two decode steps
ROWS = (
    "0,0,0,0,0,3,0.75,0,10",
    "0,0,0,0,1,1,0.25,0,10",
    "0,0,1,0,0,1,0.5,0,0",
    "0,0,1,0,1,2,0.5,0,10",
    "0,0,2,0,0,3,0.5,0,0",
    "0,0,2,0,1,0,0.5,0,10",
    "0,0,2,1,0,2,0.5,0,20",
    "0,0,2,1,1,0,0.5,0,20",
    "0,1,3,0,0,0,0.5,1,0",
    "0,1,3,0,1,1,0.5,1,0",
    "0,1,3,1,0,3,0.5,0,20",
    "0,1,3,1,1,2,0.5,1,0",
    "0,1,4,0,0,2,0.5,1,0",
    "0,1,4,0,1,3,0.5,1,0",
    "0,1,4,1,0,2,0.5,1,0",
    "0,1,4,1,1,3,0.5,1,0",
)


def write(path: Path, rows: Any = ROWS, preamble: Any = PREAMBLE, header: str = HEADER) -> Path:
    path.write_text("\n".join([*preamble, header, *rows]) + "\n", encoding="utf-8")
    return path


def convert(source: Path, request: Request | None = None) -> tuple[Imported, Trace]:
    """Import a file; the result, and the trace."""
    destination = source.parent / "trace"
    result = importer("bigmoeonedge")(source, destination, request or Request(bytes=10**6))
    return result, open_trace(destination)


def lists(trace: Trace) -> dict[tuple[int, int, int], tuple[list[int], list[float], list[int]]]:
    """Experts, weights and outcomes by (window, row, layer)."""
    found = {}
    for chunk in trace.chunks({"selections"}, {"selections": ("weights", "outcome")}):
        picks, layers = chunk.selections, trace.meta.layers
        assert picks is not None
        for at, (a, b) in enumerate(zip(picks.offsets[:-1], picks.offsets[1:], strict=True)):
            row = at // layers
            window = int(np.searchsorted(chunk.row_start, row, side="right")) - 1
            weights = [] if chunk.weights is None else chunk.weights[a:b].tolist()
            outcome = [] if chunk.outcome is None else chunk.outcome[a:b].tolist()
            key = (chunk.w0 + window, int(row - chunk.row_start[window]), at % layers)
            found[key] = picks.values[a:b].tolist(), weights, outcome
    return found


# --- what it makes of a file -----------------------------------------------------------------------


def test_windows_sessions_and_sizes(tmp_path: Path) -> None:
    result, trace = convert(
        write(tmp_path / "r.csv"), Request(bytes=60, licence="Apache-2.0", note="by hand")
    )
    windows = trace.windows
    assert windows.session.tolist() == [0, 0, 0]
    assert windows.rows.tolist() == [3, 1, 1]
    assert windows.prefill.tolist() == [True, False, False]
    assert trace.sizes.tolist() == [[10] * 4, [20] * 4]
    assert trace.classes.tolist() == [[0] * 4, [1] * 4]
    assert (trace.meta.name, trace.meta.top_k, trace.meta.layer_ids) == ("a model.gguf", 2, None)
    assert trace.meta.policy == {
        "prefetch": {"name": "none"}, "evict": "lru", "scope": "global", "order": "rows", "cell": "atomic",
        "start": "cold", "bytes": 60,
    }  # fmt: skip
    source = trace.meta.source
    assert source["licence"] == "Apache-2.0" and source["notes"].startswith("by hand; ")
    assert source["recorded"] == {"lookups": 14, "misses": 7, "read_ahead_hits": 0, "read_bytes": 100}
    assert (result.windows, result.rows, result.lookups, result.read, result.removed) == (3, 5, 14, 16, {})


def test_a_prompt_is_one_event_a_layer(tmp_path: Path) -> None:
    """Repeats inside the event are 255; rows that the last layer did not route are empty."""
    result, trace = convert(write(tmp_path / "r.csv"))
    found = lists(trace)
    assert found[0, 0, 0] == ([3, 1], [0.75, 0.25], [0, 0])
    assert found[0, 1, 0] == ([1, 2], [0.5, 0.5], [255, 0])
    assert found[0, 2, 0] == ([3, 0], [0.5, 0.5], [255, 0])
    assert found[0, 0, 1] == found[0, 1, 1] == ([], [], [])
    assert found[0, 2, 1] == ([2, 0], [0.5, 0.5], [0, 0])
    assert found[1, 0, 1] == ([3, 2], [0.5, 0.5], [0, 1])
    assert "layer 1 routed nothing in 2 prompt rows: empty lists" in result.notes


def test_columns_are_read_by_name(tmp_path: Path) -> None:
    """Other order, columns appended, blanks and Windows line ends change nothing."""
    plain = lists(convert(write(tmp_path / "r.csv"))[1])
    names = HEADER.split(",")
    order = [names.index(n) for n in reversed(names)]
    rows = [",".join(["x", *(row.split(",")[i] for i in order)]) for row in ROWS]
    other = tmp_path / "other"
    other.mkdir()
    path = write(other / "r.csv", rows, header="added," + ",".join(reversed(names)))
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes().replace(b"\n", b"\r\n"))
    result, trace = convert(path)
    assert lists(trace) == plain
    assert "columns ignored: added" in result.notes


def test_slots_give_the_rank(tmp_path: Path) -> None:
    swapped = [*ROWS[:8], ROWS[9], ROWS[8], *ROWS[10:]]
    assert lists(convert(write(tmp_path / "r.csv", swapped))[1])[1, 0, 0][0] == [0, 1]


def test_weights_that_are_not_known(tmp_path: Path) -> None:
    rows = [ROWS[0].replace("0.75", "nan"), *ROWS[1:]]
    result, trace = convert(write(tmp_path / "r.csv", rows))
    assert np.isnan(lists(trace)[0, 0, 0][1]).all()
    assert lists(trace)[0, 1, 0][1] == [0.5, 0.5]
    assert "1 lists have no weights: the graph exposed none (nan)" in result.notes


def test_lines_without_a_position_are_removed_and_counted(tmp_path: Path) -> None:
    rows = [*ROWS[:8], "0,0,-1,1,0,1,0.5,0,20", "0,0,-1,1,1,3,0.5,0,20", *ROWS[8:]]
    result, trace = convert(write(tmp_path / "r.csv", rows))
    assert lists(trace) == lists(convert(write(tmp_path / "r.csv"), Request(force=True))[1])
    assert result.removed == {"with a step below 0, so of no known row": 2}
    assert result.removed_text() == "2 of 18 (11.1%) with a step below 0, so of no known row"
    assert trace.meta.source["lines_removed"] == result.removed


def test_dropped_and_null_picks_are_removed_and_counted(tmp_path: Path) -> None:
    """What the engine dropped was never read; -1 is no expert."""
    rows = [row + ",0" for row in ROWS]
    rows[13] = "0,1,4,0,1,1,0.01,0,0,1"
    rows[15] = "0,1,4,1,1,-1,0.5,0,0,0"
    result, trace = convert(write(tmp_path / "r.csv", rows, header=HEADER + ",dropped"))
    assert lists(trace)[2, 0, 0][0] == [2] and lists(trace)[2, 0, 1][0] == [2]
    assert result.removed == {"without an expert (-1)": 1, "dropped by the engine, so never read": 1}
    assert "2 lists have fewer than 2 picks" in result.notes


def test_layers_without_experts_are_dense(tmp_path: Path) -> None:
    """Only layers with bytes are MoE layers; layer_ids keeps their numbers."""
    preamble = [
        *PREAMBLE[:1],
        "# model=m.gguf arch=test n_layer=4 n_expert=4 n_expert_used=2",
        "# layer=0 expert_bytes=0 dense_bytes=7",
        "# layer=1 expert_bytes=10 dense_bytes=7",
        "# layer=3 expert_bytes=20 dense_bytes=7",
    ]
    rows = [
        ",".join([*r.split(",")[:3], {"0": "1", "1": "3"}[r.split(",")[3]], *r.split(",")[4:]]) for r in ROWS
    ]
    result, trace = convert(write(tmp_path / "r.csv", rows, preamble))
    assert (trace.meta.layers, trace.meta.layer_ids) == (2, (1, 3))
    assert "layer 3 routed nothing in 2 prompt rows: empty lists" in result.notes
    assert lists(trace) == lists(convert(write(tmp_path / "r.csv"), Request(force=True))[1])


def test_read_ahead_is_an_outcome_and_leaves_the_policy_unknown(tmp_path: Path) -> None:
    rows = [*ROWS[:8], ROWS[8].replace(",1,0", ",2,0"), *ROWS[9:]]
    result, trace = convert(write(tmp_path / "r.csv", rows))
    assert lists(trace)[1, 0, 0][2] == [2, 1]
    assert "evict" not in trace.meta.policy and any("read-ahead" in note for note in result.notes)
    with pytest.raises(InputError, match="does not say which policy ran"):
        check_fidelity(trace)


def test_a_prompt_in_several_passes(tmp_path: Path) -> None:
    """An engine that cuts a prompt runs an event a piece: a window each."""
    second = [f"0,0,{step},0,{slot},{expert},0.5,1,0" for step, slot, expert in ((3, 0, 0), (3, 1, 1))]
    second += ["0,0,3,1,0,2,0.5,1,0", "0,0,3,1,1,0,0.5,1,0"]
    rows = [
        *ROWS[:8],
        *second,
        "0,1,4,0,0,1,1,1,0",
        "0,1,4,0,1,2,0,1,0",
        "0,1,4,1,0,1,1,0,20",
        "0,1,4,1,1,2,0,1,0",
    ]
    result, trace = convert(write(tmp_path / "r.csv", rows))
    assert trace.windows.rows.tolist() == [3, 1, 1]
    assert trace.windows.prefill.tolist() == [True, True, False]
    assert "1 prompts came in several passes, each of them a window" in result.notes


def test_a_decode_pass_of_several_steps_is_one_window(tmp_path: Path) -> None:
    """Drafts are verified together; a rejected one's position comes again."""
    verify = [f"0,1,{step},{layer},{slot},{slot + step - 5},0.5,1,0"
              for layer in (0, 1) for step in (5, 6) for slot in (0, 1)]  # fmt: skip
    again = [f"0,1,6,{layer},{slot},{slot},0.5,1,0" for layer in (0, 1) for slot in (0, 1)]
    trace = convert(write(tmp_path / "r.csv", [*ROWS, *verify, *again]))[1]
    assert trace.windows.rows.tolist() == [3, 1, 1, 2, 1]
    assert lists(trace)[3, 1, 0][2] == [255, 1]


def test_turns_are_sessions_and_a_late_start_is_noted(tmp_path: Path) -> None:
    later = [",".join(["7", "1", str(int(r.split(",")[2]) + 90), *r.split(",")[3:]]) for r in ROWS[8:]]
    result, trace = convert(write(tmp_path / "r.csv", later))
    assert trace.windows.session.tolist() == [7, 7]
    assert "the file begins at position 93: what came before is not in it" in result.notes


def test_a_file_cut_at_its_end(tmp_path: Path) -> None:
    """The last step is left out where it is not whole, and counted."""
    path = write(tmp_path / "r.csv", [*ROWS[:-1], "0,1,4,1,1"])
    path.write_bytes(path.read_bytes()[:-1])
    result, trace = convert(path)
    assert trace.windows.rows.tolist() == [3, 1]
    assert result.removed == {"of a last step that is not whole": 3, "cut short by the file's end": 1}
    assert result.read == 16


def test_comments_between_rows_are_passed_over(tmp_path: Path) -> None:
    result, trace = convert(write(tmp_path / "r.csv", [*ROWS[:4], "# summary: x", "", *ROWS[4:]]))
    assert len(lists(trace)) == 10
    assert "1 comment lines between the rows passed over" in result.notes


def test_without_residency_or_budget(tmp_path: Path) -> None:
    rows = [",".join(row.split(",")[:7]) for row in ROWS]
    result, trace = convert(write(tmp_path / "r.csv", rows, header=HEADER.rsplit(",", 2)[0]), Request())
    assert "outcome" not in trace.tables["selections"].columns
    assert "bytes" not in trace.meta.policy
    assert any("budget is not known" in note for note in result.notes)
    with pytest.raises(InputError, match="nothing to compare with"):
        check_fidelity(trace)


# --- what it refuses -------------------------------------------------------------------------------


def swap(index: int, old: str, new: str) -> list[str]:
    """The rows with a text replaced in one of them."""
    assert old in ROWS[index]
    return [*ROWS[:index], ROWS[index].replace(old, new, 1), *ROWS[index + 1 :]]


REFUSALS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("no preamble", {"preamble": ()}, "line 1: expected '# route_trace v1', found none"),
    ("version", {"preamble": ("# route_trace v2", *PREAMBLE[1:])}, "found '# route_trace v2'"),
    ("no model", {"preamble": (PREAMBLE[0], *PREAMBLE[2:])}, "expected one preamble line '# model="),
    ("two models", {"preamble": (*PREAMBLE[:2], *PREAMBLE[1:])}, "n_expert_used=..', found 2"),
    ("shape", {"preamble": (PREAMBLE[0], PREAMBLE[1].replace("n_expert=4", "n_expert=0"), *PREAMBLE[2:])},
     "found n_layer=2 n_expert=0 n_expert_used=2"),
    ("no sizes", {"preamble": PREAMBLE[:2]}, "no layer has expert_bytes"),
    ("a layer without bytes", {"preamble": PREAMBLE[:3]}, "line 11: layer 1 routes, but the preamble gives it no"),
    ("a layer of 0 bytes", {"preamble": (*PREAMBLE[:3], "# layer=1 expert_bytes=0 dense_bytes=7")},
     "layer 1 routes, but the preamble gives it no expert_bytes"),
    ("a layer twice", {"preamble": (*PREAMBLE, PREAMBLE[3])}, "layer=1 of the preamble stands there twice"),
    ("a layer too many", {"preamble": (*PREAMBLE, "# layer=2 expert_bytes=1 dense_bytes=1")}, "not below n_layer=2"),
    ("no rows", {"rows": ()}, "no whole step in it"),
    ("no column", {"header": HEADER.replace("slot", "rank")}, "expected a column slot, found turn, phase"),
    ("a column twice", {"header": HEADER.replace("weight", "slot")}, "line 5: expected each column once"),
    ("unknown layer", {"rows": swap(8, "0,1,3,0", "0,1,3,9")}, "line 14: layer 9 routes"),
    ("expert too large", {"rows": swap(8, "3,0,0,0", "3,0,0,4")}, "line 14: expected expert from -1 to 3, found 4"),
    ("expert below -1", {"rows": swap(8, "3,0,0,0", "3,0,0,-2")}, "expected expert from -1 to 3, found -2"),
    ("slot", {"rows": swap(9, "3,0,1", "3,0,2")}, "line 15: expected slot from 0 to 1, found 2"),
    ("phase", {"rows": swap(9, "0,1,3", "0,2,3")}, "expected phase from 0 to 1, found 2"),
    ("residency", {"rows": swap(9, "0.5,1", "0.5,3")}, "expected residency from 0 to 2, found 3"),
    ("bytes", {"rows": swap(0, "0,10", "0,11")}, "line 6: expected expert_bytes 0 or 10 as the preamble has"),
    ("a slot twice", {"rows": swap(9, "3,0,1", "3,0,0")}, "line 15: slot 0 of this turn, step and layer stands"),
    ("an expert twice", {"rows": swap(9, "3,0,1,1", "3,0,1,0")}, "line 15: expert 0 is picked twice in one row"),
    ("a decode layer missing", {"rows": [*ROWS[:10], *ROWS[12:]]}, "turn 0, step 3 has no lines of layer 1"),
    ("a second header", {"rows": [*ROWS, HEADER, *ROWS]}, "line 22: a second header: files of several runs"),
    ("a second file", {"rows": [*ROWS, *PREAMBLE, HEADER, *ROWS]}, "line 22: a second header"),
    ("two runs joined", {"rows": [*ROWS, *ROWS]}, "line 22: turn 0, phase 0, step 0 comes after turn 0, phase 1"),
    ("a step twice", {"rows": [*ROWS, *ROWS[12:]]}, "line 22: turn 0, phase 1, step 4 comes after"),
    ("shuffled", {"rows": ROWS[::-1]}, "comes after turn 0, phase 1"),
    ("prompt rows unsorted", {"rows": [*ROWS[2:4], *ROWS[:2], *ROWS[4:]]}, "line 8: step 0 after a later one"),
    ("too few values", {"rows": [*ROWS[:3], "0,0,1", *ROWS[3:]]}, "line 9: expected 9 values, found 3"),
    ("a text", {"rows": swap(8, "0,1,3,0,0", "0,1,3,x,0")}, "line 14: expected a whole number in layer, found 'x'"),
    ("a fraction", {"rows": swap(8, "0,1,3,0,0", "0,1,3,0.5,0")}, "expected a whole number in layer, found '0.5'"),
    ("too large a number", {"rows": swap(8, "0,1,3", f"0,1,{2**63}")}, "expected a whole number in step, found '92"),
    ("nothing", {"rows": swap(8, "0,1,3,0,0", "0,1,3,,0")}, "line 14: expected a whole number in layer, found nothing"),
    ("no weight", {"rows": swap(8, "0.5", "much")}, "line 14: expected a number in weight, found 'much'"),
)  # fmt: skip


@pytest.mark.parametrize(("damage", "message"), [r[1:] for r in REFUSALS], ids=[r[0] for r in REFUSALS])
def test_refusals(tmp_path: Path, cli: Cli, damage: dict[str, Any], message: str) -> None:
    """One line that says where, exit code 2, and nothing left behind."""
    path = write(tmp_path / "r.csv", **damage)
    code, out, err = cli("import", "bigmoeonedge", path, tmp_path / "trace")
    assert (code, out) == (2, "")
    assert message in err and str(path) in err
    assert err.startswith("replay: error: ") and err.count("\n") == 1
    assert list(tmp_path.iterdir()) == [path]


def test_files_that_are_none(tmp_path: Path, cli: Cli) -> None:
    empty, binary = tmp_path / "empty.csv", tmp_path / "binary.csv"
    empty.write_bytes(b"")
    binary.write_bytes(bytes(range(128, 256)))
    for path, message in (
        (tmp_path / "none.csv", "expected a file, found nothing"),
        (tmp_path, "expected a file, found a folder"),
        (empty, "expected a line of column names, found the file's end"),
        (binary, "line 1: expected text in UTF-8"),
    ):
        code, _, err = cli("import", "bigmoeonedge", path, tmp_path / "trace")
        assert code == 2 and message in err


def test_unknown_importer(tmp_path: Path, cli: Cli) -> None:
    code, out, err = cli("import", "bigmoeonedg", tmp_path, tmp_path / "trace")
    assert (code, out) == (2, "")
    assert "no importer is called 'bigmoeonedg'; did you mean bigmoeonedge?" in err
    assert all(importer(name) for name in IMPORTERS)


def test_an_old_trace_is_replaced_only_by_a_whole_one(tmp_path: Path, cli: Cli) -> None:
    good, bad = write(tmp_path / "r.csv"), write(tmp_path / "bad.csv", ROWS[::-1])
    target = tmp_path / "trace"
    assert cli("import", "bigmoeonedge", good, target).code == 0
    before = {each.name: each.read_bytes() for each in target.iterdir()}
    code, _, err = cli("import", "bigmoeonedge", good, target)
    assert code == 2 and "--force" in err
    assert cli("import", "bigmoeonedge", bad, target, "--force").code == 2
    assert {each.name: each.read_bytes() for each in target.iterdir()} == before
    assert cli("import", "bigmoeonedge", good, target, "--force", "--bytes", "1MiB").code == 0
    assert open_trace(target).meta.policy["bytes"] == 2**20


def test_command_output(tmp_path: Path, cli: Cli) -> None:
    path = write(tmp_path / "r.csv", [*ROWS[:8], "0,0,-1,1,0,1,0.5,0,20", *ROWS[8:]])
    code, out, err = cli("import", "bigmoeonedge", path, tmp_path / "a")
    assert code == 0
    assert "a: 3 windows, 5 rows, 14 lookups\nlines removed: 1 of 17 (5.9%) with a step below 0" in out
    assert "replay: note: the engine's byte budget is not known" in err
    code, out, err = cli("import", "bigmoeonedge", path, tmp_path / "b", "--json", "--quiet")
    assert (code, err) == (0, "")
    assert json.loads(out)["removed"] == {"with a step below 0, so of no known row": 1}


# --- against an engine -----------------------------------------------------------------------------


class Engine:
    """A byte LRU that streams experts and writes what it did as a route trace: slow, and ours."""

    def __init__(self, sizes: list[int], experts: int, k: int, budget: int, seed: int):
        self.sizes, self.experts, self.k, self.budget = sizes, experts, k, budget
        self.held: OrderedDict[tuple[int, int], int] = OrderedDict()  # least recent first
        self.random = random.Random(seed)

    def event(self, turn: int, phase: int, layer: int, steps: list[int]) -> Iterator[str]:
        """Route some rows at one layer."""
        weights = [1 / (1 + e) for e in range(self.experts)]
        picks = {}
        for step in steps:
            row: list[int] = []
            while len(row) < self.k:
                e = self.random.choices(range(self.experts), weights)[0]
                row += [] if e in row else [e]
            picks[step] = row
        before, read = set(self.held), set()
        for step in steps:
            for slot, e in enumerate(picks[step]):
                key = (layer, e)
                miss = key not in before
                stated = self.sizes[layer] if miss and key not in read else 0
                read.add(key)
                self.held[key] = self.sizes[layer]
                self.held.move_to_end(key)
                yield f"{turn},{phase},{step},{layer},{slot},{e},nan,{int(not miss)},{stated}"
        members = {(layer, e) for row in picks.values() for e in row}
        for key in list(self.held):
            if sum(self.held.values()) <= self.budget:
                break
            if key not in members:
                del self.held[key]

    def run(self, turns: int, pieces: int) -> Iterator[str]:
        """Prompts, each in pieces, and decode steps; the last layer routes a prompt's last row only."""
        last = len(self.sizes) - 1
        for turn in range(turns):
            position = 0
            for piece in range(pieces):
                steps = list(range(position, position + self.random.randint(1, 5)))
                for layer in range(last):
                    yield from self.event(turn, 0, layer, steps)
                if piece == pieces - 1:
                    yield from self.event(turn, 0, last, steps[-1:])
                position = steps[-1] + 1
            for step in range(position, position + 12):
                for layer in range(last + 1):
                    yield from self.event(turn, 1, layer, [step])


@pytest.mark.parametrize("seed", range(8))
def test_the_replay_does_what_the_engine_did(
    tmp_path: Path, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every recorded lookup and byte, whatever the size of the blocks that the file is read in."""
    monkeypatch.setattr("replay.importers.text_rows._BLOCK", 40 + 977 * seed)
    sizes = [[10, 30, 10], [7, 8, 9, 10], [50]][seed % 3]
    engine = Engine(sizes, experts=9, k=1 + seed % 3, budget=[60, 150, 100, 400][seed % 4], seed=seed)
    preamble = [
        "# route_trace v1",
        f"# model=m arch=a n_layer={len(sizes)} n_expert=9 n_expert_used={engine.k}",
        *(f"# layer={i} expert_bytes={size} dense_bytes=0" for i, size in enumerate(sizes)),
    ]
    # with one layer, pieces of a prompt could not be told apart
    rows = list(engine.run(turns=3, pieces=1 if len(sizes) == 1 else 1 + seed % 2))
    source = write(tmp_path / "r.csv", rows, preamble)
    result, trace = convert(source, Request(bytes=engine.budget))
    found = check_fidelity(trace)
    assert found.holds and found.first is None
    assert found.lookups == found.lookups_equal == result.lookups > 100
    stated = sum(int(row.split(",")[-1]) for row in rows)
    assert {t.name: (t.recorded, t.replayed) for t in found.totals}["demand_bytes"] == (stated, stated)
    assert len(trace.windows) == result.windows > 36


@pytest.mark.parametrize(
    ("name", "budget", "lookups", "read_bytes"),
    [("gemma", "4000MiB", 24_578, 22_585_964_544), ("gptoss", "3000MiB", 6_375, 56_961_532_800)],
)
def test_recorded_phones(
    shared: Path, tmp_path: Path, cli: Cli, name: str, budget: str, lookups: int, read_bytes: int
) -> None:
    """The recorded policy agrees with the recorded residency on every lookup, and on the bytes read."""
    source = shared / "traces" / "external" / "bigmoeonedge" / f"{name}.route.csv"
    if not source.is_file():
        pytest.skip(f"{source.name} is not in the shared folder")
    assert cli("import", "bigmoeonedge", source, tmp_path / name, "--bytes", budget).code == 0
    found = check_fidelity(open_trace(tmp_path / name))
    assert (found.lookups, found.lookups_equal) == (lookups, lookups)
    assert found.holds
    totals = {each.name: (each.recorded, each.replayed) for each in found.totals}
    assert totals["demand_bytes"] == (read_bytes, read_bytes)
    assert found.semantics["order"] == "rows"


@pytest.mark.parametrize(("name", "budget"), [("gemma", "4000MiB"), ("gptoss", "3000MiB")])
def test_published_curves(shared: Path, tmp_path: Path, cli: Cli, name: str, budget: str) -> None:
    """The authors' own LRU curves: hits and MiB read at eleven budgets, to the digits that they printed."""
    folder = shared / "traces" / "external" / "bigmoeonedge"
    if not (folder / f"{name}-curve.csv").is_file():
        pytest.skip(f"{name}-curve.csv is not in the shared folder")
    assert (
        cli("import", "bigmoeonedge", folder / f"{name}.route.csv", tmp_path / name, "--bytes", budget).code
        == 0
    )
    trace = open_trace(tmp_path / name)
    rows = csv.DictReader((folder / f"{name}-curve.csv").read_text().splitlines())
    published = [row for row in rows if row["policy"] == "lru"]
    policy, shape, ways = resolve(parse("none+lru"), trace.meta), Shape.of(trace), Semantics(order="rows")
    lanes = [
        Lane(shape, parse_budget(f"{row['budget_mib']}MiB").plan(trace.classes, False), policy, ways)
        for row in published
    ]
    totals = np.zeros((len(lanes), len(COUNTERS)), np.int64)
    for chunk in trace.chunks({"selections"}):
        prefill = trace.windows.prefill[chunk.w0 : chunk.w1]
        ready = prepare(chunk, shape.layers, shape.experts, prefill, combine(lanes), False)
        for lane, total in zip(lanes, totals, strict=True):
            out = lane.step(ready)
            assert out is not None
            total += out.counts.sum(axis=0)
    column = {counter: totals[:, at] for at, counter in enumerate(COUNTERS)}
    hits = 100 * column["hits"] / column["lookups"]
    assert [f"{each:.3f}" for each in hits] == [row["hit_pct_cum"] for row in published]
    assert [f"{each / 2**20:.1f}" for each in column["demand_bytes"]] == [
        row["read_mib"] for row in published
    ]
    assert len(published) == 11


def test_blocks_do_not_change_the_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write(tmp_path / "r.csv", [*ROWS[:4], "# x", *ROWS[4:]])
    seen = []
    for size in (30, 64, 2**20):
        monkeypatch.setattr("replay.importers.text_rows._BLOCK", size)
        with TextRows(path) as rows:
            batches = list(rows.batches({"step": int, "weight": float}))
        seen.append(
            [(int(a), int(b)) for each in batches for a, b in zip(each.line, each["step"], strict=True)]
        )
    assert seen[0] == seen[1] == seen[2]
    assert [line for line, _ in seen[0]] == [*range(6, 10), *range(11, 23)]
