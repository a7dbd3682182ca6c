"""Audits: the router's rule against its slow twin, the tail defect, recorded traces, and the command."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from random import Random

import numpy as np
import pyarrow as pa
import pytest
from conftest import Outcome
from slow.audit import audit_slow, recorded_by_engine
from slow.make import draw_trace, write
from slow.trace import SlowTrace

from replay.audit import RouterAudit, audit, audit_router
from replay.trace import open_trace, write_trace

Cli = Callable[..., Outcome]


def drawn(seed: int, **settings: object) -> SlowTrace:
    """A trace with snapshots of most windows; weights as they will be stored."""
    trace = draw_trace(seed)
    rng = Random(seed)
    for w in range(len(trace.windows)):
        if rng.random() < 0.9:
            for layer in range(trace.layers):
                held = sorted(rng.sample(range(trace.experts), trace.experts // 3))
                trace.residents.setdefault((w, layer), held)
    return replace(trace, **settings)


def stored(trace: SlowTrace) -> SlowTrace:
    """The same trace with weights rounded to float32."""
    rounded = {key: np.float32(values).tolist() for key, values in trace.weights.items()}
    return replace(trace, weights=rounded)


def check(trace: SlowTrace, path: Path) -> RouterAudit:
    """Write a trace, audit it, and hold every count against the twin's."""
    write(trace, path)
    found = audit_router(open_trace(path))
    if found.reason is None:
        expected = audit_slow(trace)
        assert {name: getattr(found, name) for name in expected} == expected
    return found


def test_counts_equal_the_twins(tmp_path: Path) -> None:
    """Rows by another rule, by the right one, and by the right one with some damage."""
    audited = 0
    for seed in range(50):
        trace = drawn(seed)
        rng = Random(seed)
        if rng.random() < 0.7:
            trace = recorded_by_engine(trace)
            for key in rng.sample(sorted(trace.weights), len(trace.weights) // 10):
                damage(trace, key, rng)
        found = check(stored(trace), tmp_path / str(seed))
        audited += found.rows
    assert audited > 1000


def damage(trace: SlowTrace, key: tuple[int, int, int], rng: Random) -> None:
    """Another expert, another order, a dropped rank, or another weight."""
    picks, weights = list(trace.picks[key]), list(trace.weights[key])
    kind = rng.randrange(4)
    if kind == 0 and picks:
        others = sorted(set(range(trace.experts)) - set(picks))
        if others:
            picks[rng.randrange(len(picks))] = rng.choice(others)
    elif kind == 1:
        picks.reverse()
        weights.reverse()
    elif kind == 2 and picks:
        del picks[-1], weights[-1]
    elif weights:
        weights[rng.randrange(len(weights))] *= 1 + rng.choice([1e-6, -1e-5, 0.1])
    trace.picks[key], trace.weights[key] = picks, weights


@pytest.mark.parametrize("seed", range(6))
def test_an_engine_that_follows_the_rule_passes(seed: int, tmp_path: Path) -> None:
    rng = Random(seed)
    settings = {
        "protect": rng.randint(0, 3),
        "bonus": rng.choice([0.0, 0.5]),
        "r1_bonus": rng.choice([0.0, 0.3]),
    }
    trace = stored(recorded_by_engine(drawn(seed, draft_moce=bool(seed % 2), **settings)))
    found = check(trace, tmp_path / "trace")
    assert found.holds and not found.first


@pytest.mark.parametrize("bonus", [0.0, -0.5])
def test_the_tail_defect_is_found_by_name(bonus: float, tmp_path: Path) -> None:
    """Right ids, wrong weights, in exactly the rows whose tail holds a resident beside others."""
    trace = drawn(7, protect=2, bonus=bonus, r1_bonus=0.4, draft_moce=True, top_k=4)
    wrong = stored(recorded_by_engine(trace, tail_defect=True))
    right = stored(recorded_by_engine(trace))
    assert wrong.picks == right.picks and wrong.weights != right.weights
    found = check(wrong, tmp_path / "wrong")
    assert not found.holds and found.ids == found.order == 0
    assert found.r1_tail == found.weights > 10
    assert found.worst_weight is not None and found.worst_weight > 0.01
    assert [each.what for each in found.first] == ["weights"] * 5
    assert check(right, tmp_path / "right").holds


def test_other_wrong_weights_are_not_called_the_tail_defect(tmp_path: Path) -> None:
    trace = recorded_by_engine(drawn(7, protect=2, bonus=0.0, r1_bonus=0.4, top_k=4))
    for key, weights in trace.weights.items():
        trace.weights[key] = [weights[0] * 1.1, *weights[1:]] if weights else weights
    found = check(stored(trace), tmp_path / "trace")
    assert found.weights > 10 and found.r1_tail == 0


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"bonus": None}, "router.bonus"),
        ({"protect": None, "bonus": 0.5}, "router.protect"),
        ({"router_scores": {}}, "router_scores"),
        ({"residents": {}, "protect": 3, "bonus": 0.5}, "residents"),
    ],
)
def test_what_cannot_be_audited_says_why(settings: dict[str, object], reason: str, tmp_path: Path) -> None:
    found = check(drawn(7, **settings), tmp_path / "trace")
    assert found.reason is not None and reason in found.reason
    assert found.rows == 0 and found.holds


def test_the_command_exits_1_where_an_audit_does_not_hold(cli: Cli, tmp_path: Path) -> None:
    trace = drawn(7, protect=2, bonus=0.0, r1_bonus=0.4, top_k=4)
    write(stored(recorded_by_engine(trace)), tmp_path / "right")
    write(stored(recorded_by_engine(trace, tail_defect=True)), tmp_path / "wrong")
    code, out, _ = cli("audit", tmp_path / "right")
    assert code == 0 and "the audit holds (of the router only)" in out and "fidelity   not checked" in out
    code, out, err = cli("audit", tmp_path / "wrong")
    assert code == 1 and "the r1 tail defect" in out and "weights of" in err and err.count("\n") == 1
    code, out, _ = cli("audit", tmp_path / "wrong", "--json")
    told = json.loads(out)
    assert code == 1 and told["holds"] is False and told["router"]["r1_tail"] == told["router"]["weights"] > 0
    assert cli("audit", tmp_path / "none")[0] == 2


@pytest.mark.parametrize("policy", [None, {"prefetch": None, "evict": "frob", "slots": [14]}])
def test_nothing_audited_is_no_audit_that_holds(
    policy: dict[str, object] | None, cli: Cli, tmp_path: Path
) -> None:
    write(drawn(7, router_scores={}), tmp_path / "trace")
    document = json.loads((tmp_path / "trace" / "trace.json").read_text())
    (tmp_path / "trace" / "trace.json").write_text(json.dumps(document | {"policy": policy}))
    code, out, err = cli("audit", tmp_path / "trace")
    assert code == 2 and "the audit holds" not in out and "nothing could be audited" in out
    assert "nothing could be audited: router: the trace has no table router_scores; fidelity: " in err
    assert err.count("\n") == 1
    code, out, _ = cli("audit", tmp_path / "trace", "--json")
    told = json.loads(out)
    assert code == 2 and told["holds"] is None and told["audited"] == [] and len(told["missing"]) == 2


def test_fidelity_is_part_of_it(shared: Path, tmp_path: Path) -> None:
    """A trace that names another policy than it was recorded under fails."""
    source = shared / "traces" / "recorded" / "e256-moce"
    for path in source.iterdir():
        (tmp_path / path.name).write_bytes(path.read_bytes())
    meta = json.loads((source / "trace.json").read_text())
    meta["policy"]["evict"] = "fifo"
    (tmp_path / "trace.json").write_text(json.dumps(meta))
    found = audit(open_trace(tmp_path))
    assert found.router.holds and not found.holds
    assert "fidelity" in found.failures[0] and found.fidelity is not None and found.fidelity.first is not None


@pytest.mark.parametrize("name", ["e64-moce", "e256-moce", "e64-plain", "e64-gen", "e64-spec"])
def test_recorded_traces_hold(name: str, shared: Path) -> None:
    """No pick, order or weight differs; fidelity reproduces every event of the closed loops."""
    found = audit(open_trace(shared / "traces" / "recorded" / name))
    assert found.holds
    router = found.router
    assert (router.ids, router.order, router.weights) == (0, 0, 0) and router.rows > 16_000
    if name in ("e64-moce", "e256-moce", "e64-plain"):
        assert router.weighed == router.rows
        assert found.fidelity is not None and found.fidelity.equal == found.fidelity.events == router.rows


@pytest.mark.parametrize("name", ["py64-loop", "py64-spec"])
def test_the_bundled_recordings_hold(name: str, root: Path) -> None:
    """Recorded with ``replay.record`` on a GPU in bfloat16: every row and every event, drafts' rows too."""
    trace = open_trace(root / "traces" / name)
    found = audit(trace)
    assert found.holds and found.failures == [] and found.missing == []
    router, decode = found.router, ~trace.windows.prefill
    assert (router.ids, router.order, router.weights, router.past) == (0, 0, 0, 0)
    assert router.rows == router.weighed == trace.windows.rows[decode].sum() * 12
    assert found.fidelity is not None and found.fidelity.equal == len(trace.windows) * 12


def weighed(path: Path, given: list[list[float]], **told: str) -> Path:
    """A trace of four experts, top-2, whose router logits are 0, 1, 2 and 3 in every row."""
    rows = len(given)
    key = {"window": range(rows), "row": [0] * rows, "layer": [0] * rows}
    tables = {
        "windows": pa.table(
            {"window": range(rows), "session": [0] * rows, "phase": ["decode"] * rows, "rows": [1] * rows}
        ),
        "selections": pa.table(
            key
            | {
                "experts": pa.array([[3, 2]] * rows, pa.list_(pa.uint16())),
                "weights": pa.array(given, pa.list_(pa.float32())),
            }
        ),
        "router_scores": pa.table(
            key | {"scores": pa.array([[0.0, 1.0, 2.0, 3.0]] * rows, pa.list_(pa.float32()))}
        ),
    }
    model = {"name": "four", "layers": 1, "experts": 4, "top_k": 2}
    router = {"protect": 0, "bonus": 0.0, "r1_bonus": 0.0, "draft_moce": False} | told
    write_trace(path, {"model": model, "expert_bytes": 8, "router": router, "policy": None}, tables)
    return path


E3, E2 = math.exp(3), math.exp(2)
ALL = 1 + math.e + E2 + E3
SIGMOIDS = 1 / (1 + 1 / E3), 1 / (1 + 1 / E2)
CHOSEN = [E3 / (E3 + E2), E2 / (E3 + E2)]


@pytest.mark.parametrize(
    ("formula", "weights"),
    [
        ("softmax over the chosen", CHOSEN),
        ("softmax over the chosen times 2.5", [each * 2.5 for each in CHOSEN]),
        ("softmax over all", [E3 / ALL, E2 / ALL]),
        ("sigmoid", list(SIGMOIDS)),
        ("sigmoid over their sum times 1.8", [1.8 * each / sum(SIGMOIDS) for each in SIGMOIDS]),
    ],
)
def test_weights_are_held_against_the_formula_that_the_trace_names(
    formula: str, weights: list[float], tmp_path: Path, cli: Cli
) -> None:
    wrong = [weights[0] * 1.001, weights[1]]
    path = weighed(tmp_path / "trace", [weights, weights, wrong], weights=formula)
    found = audit_router(open_trace(path))
    assert (found.rows, found.ids, found.order, found.weighed, found.weights) == (3, 0, 0, 3, 1)
    (sample,) = found.first
    assert sample.window == 2 and sample.expected_weights == pytest.approx(weights)
    code, out, _ = cli("audit", path)
    assert code == 1 and (formula == "softmax over the chosen") == ("the trace's own formula" not in out)


@pytest.mark.parametrize("told", ["unknown", "softmax over all, of the column logits", "sigmoid times x"])
def test_weights_of_an_unknown_formula_are_not_compared(told: str, tmp_path: Path, cli: Cli) -> None:
    path = weighed(tmp_path / "trace", [[9.0, 7.0]], weights=told)
    found = audit_router(open_trace(path))
    assert found.holds and (found.rows, found.weighed) == (1, 0) and told in str(found.weights_reason)
    code, out, _ = cli("audit", path)
    assert code == 0 and "weights are not compared" in out


@pytest.mark.parametrize(
    ("kind", "differing"), [("bfloat16", 1), ("float16", 2), ("float32", 2), ("bits", 2)]
)
def test_weights_are_as_precise_as_the_models_own_type(kind: str, differing: int, tmp_path: Path) -> None:
    near, far = [CHOSEN[0] * 1.005, CHOSEN[1]], [CHOSEN[0] * 1.01, CHOSEN[1]]
    path = weighed(tmp_path / "trace", [CHOSEN, near, far], weights_type=kind)
    assert audit_router(open_trace(path)).weights == differing
