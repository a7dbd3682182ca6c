"""Recording: every family's picks are what its recorded scores say; windows, arena, drafts, crashes."""

import os
import signal
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from tiny_moe import FAMILIES, tiny

import replay
from replay import Arena, open_trace
from replay.audit import audit_router
from replay.errors import InputError
from replay.fidelity import check_fidelity
from replay.recorder.rank import Ranking, settle
from replay.recorder.spool import Spool, partial_path, recover
from replay.router.rule import route, weights
from replay.trace import Trace
from replay.trace.validate import validate

try:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        import torch
        import transformers

    transformers.logging.set_verbosity_error()
    ABSENT = None
except ImportError as missing:
    ABSENT = f"{missing.name} is not installed; install the extra: pip install 'moe-replay[record]'"

models = pytest.mark.skipif(ABSENT is not None, reason=str(ABSENT))


def prompt(rows: int = 7, batch: int = 1, seed: int = 0) -> Any:
    return torch.randint(2, 97, (batch, rows), generator=torch.Generator().manual_seed(seed))


def differing(trace: Trace) -> tuple[int, int]:
    """Rows with recorded scores, and those whose recorded picks are not what the router's rule says."""
    layers, experts, k = trace.meta.layers, trace.meta.experts, trace.meta.top_k
    router = trace.meta.router
    assert router is not None
    rows = wrong = 0
    for chunk in trace.chunks(["selections", "router_scores"] + ["residents"] * trace.has("residents")):
        scores = chunk.router_scores
        event = (scores.window - chunk.w0) * layers + scores.layer
        at = (chunk.row_start[scores.window - chunk.w0] + scores.row) * layers + scores.layer
        held = np.zeros(((chunk.w1 - chunk.w0) * layers, experts), bool)
        if chunk.residents is not None:
            own = (chunk.residents.window - chunk.w0) * layers + chunk.residents.layer
            held[np.repeat(own, np.diff(chunk.residents.experts.offsets)), chunk.residents.experts.values] = (
                True
            )
        picks = route(
            scores.scores.reshape(-1, experts), held[event], k, router.protect or 0, router.bonus or 0.0,
            router.r1_bonus or 0.0,
        )  # fmt: skip
        rows += len(picks)
        wrong += int((picks != chunk.selections.values.reshape(-1, k)[at]).any(axis=1).sum())
    return rows, wrong


def read(path: Path, table: str) -> pa.Table:
    return pq.read_table(path / f"{table}.parquet")


# how the families weigh their picks, where it is not a softmax over the chosen
WEIGHTS = {
    "qwen2_moe": "softmax over all",
    "qwen3_moe": "softmax over all",
    "olmoe": "softmax over all",
    "deepseek_v2": "softmax over all",
    "deepseek_v3": "sigmoid over their sum times 2.5, of the column logits",
    "deepseek_v4": "root of softplus over their sum times 1.5, of the column logits",
    "jamba": "softmax over all",
    "glm4_moe": "sigmoid over their sum, of the column logits",
    "ernie4_5_moe": "softmax over the chosen, of the column logits",
    "phimoe": "unknown",
    "jetmoe": None,
    "llama4_text": None,
}


@models
@pytest.mark.parametrize("family", FAMILIES)
def test_recorded_scores_say_what_was_picked(family: str, tmp_path: Path) -> None:
    model = tiny(family)
    path = tmp_path / "trace"
    with replay.record(model, path, prefill_scores=True) as recorder:
        model.generate(prompt(batch=2), max_new_tokens=5, do_sample=False)
    assert validate(path).valid
    trace = open_trace(path)
    layers = len(recorder.blocks)
    assert differing(trace) == ((14 + 4 * 2) * layers, 0)
    audited = audit_router(trace)
    assert (audited.rows, audited.ids, audited.order) == ((14 + 4 * 2) * layers, 0, 0)
    weighed = trace.meta.raw["router"].get("weights")
    assert weighed == WEIGHTS.get(family, "softmax over the chosen")
    compared = weighed is not None and weighed != "unknown" and "column" not in weighed
    assert (audited.weighed, audited.weights) == (audited.rows if compared else 0, 0)
    assert compared == (weighed is not None and audited.weights_reason is None)
    assert trace.windows.rows.tolist() == [14, 2, 2, 2, 2]
    assert trace.windows.prefill.tolist() == [True, False, False, False, False]
    assert trace.meta.source["counts"].get("rows whose picks the scores do not explain") is None
    sizes = {
        sum(p.numel() * p.element_size() for e in b.experts for p in e.parameters()) / 8
        for b in recorder.blocks
    }
    assert {size for block in recorder.blocks for size in block.bytes} == sizes


@models
@pytest.mark.parametrize("family", ["mixtral", "qwen3_moe", "gpt_oss", "granitemoe", "deepseek_v3"])
@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_ties_of_low_precision_are_settled(family: str, dtype: str, tmp_path: Path) -> None:
    """Few distinct scores, so that nearly every row has ties."""
    model = tiny(family)
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.shape == (8, 32):
                parameter.copy_((parameter * 2).round() / 2)
                parameter[4:] = parameter[:4]
    model.to(getattr(torch, dtype))
    path = tmp_path / "trace"
    with replay.record(model, path, prefill_scores=True):
        model.generate(prompt(24), max_new_tokens=8, do_sample=False)
    rows, wrong = differing(open_trace(path))
    assert rows > 0 and wrong == 0
    audited = audit_router(open_trace(path))
    assert (audited.ids, audited.order, audited.weights) == (0, 0, 0)
    own = (
        "float32" if family in ("mixtral", "deepseek_v3") else dtype
    )  # the others give their experts what they got
    assert open_trace(path).meta.raw["router"]["weights_type"] == own
    if family != "deepseek_v3":
        assert open_trace(path).meta.source["counts"] and audited.weighed == rows


@models
def test_router_scores_are_the_logits(tmp_path: Path) -> None:
    model = tiny("qwen3_moe", norm_topk_prob=True)
    path = tmp_path / "trace"
    ids = prompt(6)
    with replay.record(model, path, prefill_scores=True):
        expected = model(ids, output_router_logits=True).router_logits
    scores = np.array(read(path, "router_scores").column("scores").to_pylist()).reshape(6, 3, 8)
    np.testing.assert_array_equal(scores, torch.stack(expected, 1).detach().numpy())
    selections = read(path, "selections")
    picks = np.array(selections.column("experts").to_pylist())
    given = np.array(selections.column("weights").to_pylist())
    np.testing.assert_allclose(given, weights(scores.reshape(-1, 8), picks), rtol=1e-5)


@models
def test_softmaxed_logits_are_found_out(tmp_path: Path) -> None:
    """A router that returns probabilities for logits: told by its row sums, and undone."""
    model = tiny("qwen3_moe")
    expected = []

    def soften(module: Any, args: Any, output: Any) -> Any:
        expected.append(output[0].detach().clone())
        return output[0].softmax(-1), *output[1:]

    for layer in model.model.layers:
        layer.mlp.gate.register_forward_hook(soften)
    path = tmp_path / "trace"
    with replay.record(model, path, prefill_scores=True):
        model(prompt(6))
    trace = open_trace(path)
    assert any("softmaxed values" in note and "layers 0-2" in note for note in trace.meta.source["notes"])
    scores = np.array(read(path, "router_scores").column("scores").to_pylist()).reshape(6, 3, 8)
    np.testing.assert_allclose(scores, torch.stack(expected, 1).numpy(), rtol=1e-5, atol=1e-6)
    assert differing(trace) == (18, 0)


@models
def test_a_biased_selection_keeps_its_logits_too(tmp_path: Path) -> None:
    model = tiny("deepseek_v3")
    path = tmp_path / "trace"
    with replay.record(model, path) as recorder:
        model.generate(prompt(), max_new_tokens=4, do_sample=False)
    table = read(path, "router_scores")
    scores = np.array(table.column("scores").to_pylist())
    logits = np.array(table.column("logits").to_pylist())
    bias = torch.stack([block.router.e_score_correction_bias for block in recorder.blocks]).numpy()
    seen = 1 / (1 + np.exp(-logits)) + bias[table.column("layer").to_numpy()]
    masked = np.isneginf(scores)
    assert masked.any()
    np.testing.assert_allclose(scores[~masked], seen[~masked], rtol=1e-5, atol=1e-6)
    assert open_trace(path).meta.layer_ids == (1, 2)
    assert any("bias or groups" in note for note in open_trace(path).meta.source["notes"])


@models
@pytest.mark.parametrize("bonus", [None, 0.9])
def test_a_layer_that_picks_by_a_table_masks_the_other_experts(bonus: float | None, tmp_path: Path) -> None:
    """DeepSeek-V4's first layers: each token's experts are fixed, so no bonus may move them either."""
    model = tiny("deepseek_v4")
    path = tmp_path / "trace"
    ids = prompt(9)
    arena = None if bonus is None else Arena(20, bonus, protect=0)
    with replay.record(model, path, arena=arena, prefill_scores=True) as recorder, torch.no_grad():
        model(ids)
    table = read(path, "selections").filter(pc.equal(read(path, "selections").column("layer"), 0))
    expected = np.sort(recorder.blocks[0].router.tid2eid[ids[0]].numpy(), axis=1)
    assert (np.sort(np.array(table.column("experts").to_pylist()), axis=1) == expected).all()
    scores = read(path, "router_scores")
    first = np.array(scores.filter(pc.equal(scores.column("layer"), 0)).column("scores").to_pylist())
    assert (np.isfinite(first).sum(axis=1) == 3).all() and np.isfinite(
        np.take_along_axis(first, expected, 1)
    ).all()
    trace = open_trace(path)
    assert audit_router(trace).holds and differing(trace)[1] == 0
    assert any("masked" in note and note.startswith("layer 0:") for note in trace.meta.source["notes"])
    assert arena is None or check_fidelity(trace).holds


@models
@pytest.mark.parametrize("distance", [1, 2])
def test_candidates_are_the_targets_router_on_the_residual(distance: int, tmp_path: Path) -> None:
    model = tiny("olmoe")
    states: dict[int, Any] = {}
    layers = model.model.layers
    for i, layer in enumerate(layers):
        layer.register_forward_hook(
            lambda module, args, output, i=i: states.__setitem__(i, output.detach().clone())
        )
    path = tmp_path / "trace"
    with replay.record(model, path, distance=distance):
        model.generate(prompt(), max_new_tokens=2, do_sample=False)
    table = read(path, "candidates")
    targets = list(range(distance, 3))
    assert table.column("layer").to_pylist() == targets
    assert table.column("issued_after").to_pylist() == [target - distance for target in targets]
    assert pa.types.is_float16(table.schema.field("scores").type.value_type)
    for i, target in enumerate(targets):
        with torch.no_grad():
            normed = layers[target].post_attention_layernorm(states[target - distance])
            expected = torch.nn.functional.linear(normed, layers[target].mlp.gate.weight).reshape(-1)
        got = np.array(table.column("scores")[i].as_py(), np.float16)
        np.testing.assert_allclose(got, expected.numpy().astype(np.float16), rtol=2e-3, atol=1e-3)


@models
def test_windows_and_sessions(tmp_path: Path) -> None:
    model = tiny("mixtral")
    path = tmp_path / "trace"
    with replay.record(model, path, domain="prose") as recorder:
        model.generate(prompt(5), max_new_tokens=2, do_sample=False)
        with recorder.session(domain="code"):
            model.generate(prompt(4), max_new_tokens=2, do_sample=False)
            model.generate(prompt(3), max_new_tokens=1, do_sample=False)
        with torch.no_grad():
            out = model(prompt(6), use_cache=True)
            cache = out.get("past_key_values", out.get("cache"))
            name = "past_key_values" if "past_key_values" in out else "cache"
            model(prompt(3), **{name: cache})
            with recorder.phase("prefill"):
                model(prompt(2), **{name: cache})
    windows = open_trace(path).windows
    assert windows.rows.tolist() == [5, 1, 4, 1, 3, 6, 3, 2]
    assert windows.prefill.tolist() == [True, False, True, False, True, True, False, True]
    assert windows.session.tolist() == [0, 0, 1, 1, 1, 2, 2, 2]
    assert windows.domain == ["prose"] * 2 + ["code"] * 3 + ["prose"] * 3
    assert not open_trace(path).has("drafts")


@models
def test_padding_is_left_out(tmp_path: Path) -> None:
    model = tiny("mixtral")
    ids = prompt(6, batch=2)
    mask = torch.ones_like(ids)
    mask[0, :4] = 0
    path = tmp_path / "trace"
    with replay.record(model, path):
        model.generate(ids, attention_mask=mask, max_new_tokens=3, do_sample=False)
    trace = open_trace(path)
    assert trace.windows.rows.tolist() == [8, 2, 2]
    assert trace.meta.source["counts"]["rows of padding, left out"] == 4


@models
@pytest.mark.parametrize("bonus", [0.0, 0.8])
def test_an_emulated_arena_replays_exactly(bonus: float, tmp_path: Path) -> None:
    model = tiny("qwen3_moe")
    path = tmp_path / "trace"
    arena = Arena(slots=14, bonus=bonus, protect=1)
    with replay.record(model, path, arena=arena, prefill_scores=True):
        for seed in range(3):
            model.generate(prompt(5, seed=seed), max_new_tokens=12, do_sample=False)
    trace = open_trace(path)
    found = check_fidelity(trace)
    assert (
        found.holds
        and found.events == 3 * 12 * 3
        and set(found.compared) == {"outcome", "counters", "residents"}
    )
    assert differing(trace) == (3 * (5 + 11) * 3, 0)
    scores = trace.path / "router_scores.parquet"
    half = pa.types.is_float16(pq.read_schema(scores).field("scores").type.value_type)
    assert half == (bonus > 0)
    router = trace.meta.router
    assert router is not None and router.bonus == bonus


@models
@pytest.mark.parametrize(
    "family", ["mixtral", "qwen2_moe", "olmoe", "gpt_oss", "deepseek_v2", "deepseek_v3", "glm4_moe"]
)
def test_a_closed_loop_steers_the_model(family: str, tmp_path: Path) -> None:
    """The experts compute with what was recorded: a bonus too small to matter changes nothing, a large one does."""
    model = tiny(family)
    ids = prompt(2)
    handed: list[Any] = []
    blocks = replay.record(model, tmp_path / "none").blocks
    plain = model(ids).logits
    outputs = []
    for bonus in (1e-9, 50.0):
        path = tmp_path / f"b{bonus}"
        with replay.record(model, path, arena=Arena(8 * len(blocks), bonus, protect=0), prefill_scores=True):
            hook = (
                blocks[-1].experts[0].register_forward_hook(lambda module, args, output: handed.append(args))
            )
            with torch.no_grad():
                outputs.append(model(ids).logits)
                outputs.append(model(prompt(seed=5)).logits)
            hook.remove()
        trace = open_trace(path)
        assert differing(trace) == (9 * len(blocks), 0)
        assert check_fidelity(trace).holds
        table = read(path, "selections")
        last = table.column("layer").to_numpy() == len(blocks) - 1
        picks = np.array(table.column("experts").to_pylist())[last]
        given = np.array(table.column("weights").to_pylist())[last]
        np.testing.assert_array_equal(picks, np.concatenate([args[1].numpy() for args in handed[-2:]]))
        np.testing.assert_allclose(
            given, np.concatenate([args[2].numpy() for args in handed[-2:]]), rtol=1e-6
        )
    assert torch.allclose(outputs[0], plain, rtol=0.02, atol=0.02)
    assert not torch.allclose(outputs[1], outputs[3], rtol=0.02, atol=0.02)


@models
def test_a_closed_loop_that_cannot_be_is_refused(tmp_path: Path) -> None:
    for family, reason in (("llama4_text", "not handed their picks"), ("phimoe", "follow no formula")):
        model = tiny(family)
        arena = Arena(slots=24, bonus=0.5, protect=0)
        with pytest.raises(InputError, match=reason), replay.record(model, tmp_path / family, arena=arena):
            model(prompt(12))
        assert not partial_path(tmp_path / family).exists()


@models
def test_an_arena_too_small_says_so_and_keeps_what_was(tmp_path: Path) -> None:
    model = tiny("mixtral")
    path = tmp_path / "trace"
    with (
        pytest.raises(InputError, match="the arena has 3 slots") as caught,
        replay.record(model, path, arena=Arena(3)),
    ):
        model(prompt(1))
        model(prompt(30))
    assert not path.exists()
    assert "replay recover" in caught.value.__notes__[0]
    assert recover(partial_path(path), path)["windows"] == 1


@models
def test_times_of_layers(tmp_path: Path) -> None:
    model = tiny("jetmoe")
    path = tmp_path / "trace"
    with replay.record(model, path, timing=True):
        model.generate(prompt(), max_new_tokens=3, do_sample=False)
    times = read(path, "timing")
    assert times.num_rows == 3 * 6
    assert all(0 < us < 1e6 for name in ("pre_us", "post_us") for us in times.column(name).to_pylist())


@models
def test_assisted_generation_records_its_drafts(tmp_path: Path) -> None:
    """The drafter is the model itself with a little noise, so that drafts match and do not."""
    model, drafter = tiny("qwen3_moe"), tiny("qwen3_moe")
    with torch.no_grad():
        drafter.lm_head.weight.add_(torch.randn(drafter.lm_head.weight.shape) * 0.1)
    drafter.generation_config.num_assistant_tokens = 3
    drafter.generation_config.num_assistant_tokens_schedule = "constant"
    drafter.generation_config.assistant_confidence_threshold = 0.0
    path = tmp_path / "trace"
    with replay.record(model, path):
        got = model.generate(prompt(), assistant_model=drafter, max_new_tokens=24, do_sample=False)
    trace = open_trace(path)
    drafts = read(path, "drafts")
    window, step = drafts.column("window").to_numpy(), drafts.column("step").to_numpy()
    matched, p = drafts.column("matched").to_numpy(), drafts.column("p").to_numpy()
    assert ((p > 0) & (p <= 1)).all() and matched.any()
    assert set(window) == set(np.flatnonzero(~trace.windows.prefill & (trace.windows.rows > 1)))
    rows = trace.windows.rows
    for each in set(window):
        own = window == each
        assert step[own].tolist() == list(range(rows[each] - 1))
        assert (np.diff(matched[own].astype(int)) <= 0).all()
    first = trace.meta.source["counts"]["drafts verified in a prefill window, left out"]
    committed = sum(1 + int(matched[window == each].sum()) for each in np.flatnonzero(~trace.windows.prefill))
    assert 0 <= got.shape[1] - 7 - committed - 1 <= first


@models
def test_bits_per_weight(tmp_path: Path) -> None:
    model = tiny("mixtral")
    with replay.record(model, tmp_path / "trace", bits_per_weight=4.5, distance=0, scores=False):
        model(prompt())
    trace = open_trace(tmp_path / "trace")
    assert trace.meta.expert_bytes == 3 * 32 * 48 * 4.5 / 8
    assert set(trace.tables) == {"windows", "selections"}


@models
def test_models_and_blocks_that_cannot_be_recorded(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no MoE layer found"):
        replay.record(torch.nn.Sequential(torch.nn.Linear(3, 3)), tmp_path / "a")
    model = tiny("mixtral")
    with pytest.raises(InputError, match="no forward pass"), replay.record(model, tmp_path / "b"):
        pass
    partial_path(tmp_path / "c").mkdir()
    with pytest.raises(InputError, match="unfinished recording"):
        replay.record(model, tmp_path / "c")
    assert not [each for each in model.modules() if each._forward_hooks or each._forward_pre_hooks]
    assert "generate" not in vars(model)


@models
def test_the_model_is_left_as_it_was(tmp_path: Path) -> None:
    model = tiny("deepseek_v3")
    before = model.generate(prompt(), max_new_tokens=6, do_sample=False)
    topk = torch.topk, torch.Tensor.topk
    with replay.record(model, tmp_path / "trace"):
        during = model.generate(prompt(), max_new_tokens=6, do_sample=False)
    assert (before == during).all()
    assert (torch.topk, torch.Tensor.topk) == topk
    assert (before == model.generate(prompt(), max_new_tokens=6, do_sample=False)).all()
    assert not [each for each in model.modules() if each._forward_hooks or each._forward_pre_hooks]


@models
def test_what_waits_is_bounded_and_flushing_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Candidates are made for all waiting windows at once: however many these are."""
    bound, sizes = 2_000, []
    for name, size in (("often", bound), ("once", 2**30)):
        monkeypatch.setattr("replay.recorder.recorder.FLUSH_BYTES", size)
        model = tiny("glm4_moe")
        with replay.record(model, tmp_path / name, arena=Arena(20)) as recorder:
            for _ in range(2):
                model.generate(prompt(), max_new_tokens=30, do_sample=False)
                sizes.append(recorder._rows.nbytes)
            assert (recorder._spool.flushes > 5) == (name == "often")
    assert 0 < max(sizes[:2]) < bound + 2_000 < sizes[3]
    for table in open_trace(tmp_path / "once").tables:
        assert read(tmp_path / "once", table).equals(read(tmp_path / "often", table)), table


KILLED = """
    import os, signal, sys, torch, replay
    sys.path.insert(0, sys.argv[2])
    from tiny_moe import tiny
    from replay.recorder import recorder
    recorder.FLUSH_WINDOWS = 4
    model = tiny("mixtral")
    with replay.record(model, sys.argv[1]) as recording:
        model.register_forward_hook(
            lambda module, args, output: os.kill(os.getpid(), signal.SIGKILL) if recording.windows > 21 else None)
        model.generate(torch.ones((1, 5), dtype=torch.long), max_new_tokens=40, do_sample=False)
"""


@models
def test_a_killed_recording_is_recovered(tmp_path: Path, cli: Any) -> None:
    path = tmp_path / "trace"
    script = [sys.executable, "-c", textwrap.dedent(KILLED), path, Path(__file__).parent]
    ended = subprocess.run(script, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}, check=False)
    assert ended.returncode == -signal.SIGKILL
    assert not path.exists()
    told = cli("recover", partial_path(path), path)
    assert told.code == 0 and told.out.startswith(f"{path}: 20 windows recovered")
    assert validate(path).valid
    trace = open_trace(path)
    assert len(trace.windows) == 20 and differing(trace) == (19 * 3, 0)
    assert "recovered" in trace.meta.source["notes"][-1]


META = {"model": {"name": "m", "layers": 1, "experts": 4, "top_k": 1}, "expert_bytes": 8}


def spooled(path: Path, flushes: int) -> Spool:
    """A recording of one window a flush."""
    spool = Spool(path)
    for window in range(flushes):
        key = {"window": pa.array([window], pa.uint32())}
        windows = key | {
            "session": pa.array([0], pa.uint32()),
            "phase": pa.array(["decode"]),
            "rows": pa.array([1]),
        }
        picks = key | {"row": pa.array([0]), "layer": pa.array([0]), "experts": pa.array([[window % 4]])}
        spool.write(META, {"windows": pa.record_batch(windows), "selections": pa.record_batch(picks)})
    return spool


@pytest.mark.parametrize("table", ["windows", "selections"])
def test_any_cut_of_a_stream_leaves_whole_windows(table: str, tmp_path: Path) -> None:
    spool = spooled(tmp_path / "trace", 5)
    file = spool.folder / f"{table}.arrows"
    whole = file.read_bytes()
    found = set()
    for size in [*range(0, len(whole), 61), len(whole)]:
        file.write_bytes(whole[:size])
        try:
            found.add(recover(spool.folder, tmp_path / "got", force=True)["windows"])
            assert validate(tmp_path / "got").valid
        except InputError as problem:
            assert "nothing to recover" in str(problem)
            found.add(0)
    assert found == {0, 1, 2, 3, 4, 5}


def test_recover_refuses_what_is_no_recording(tmp_path: Path, cli: Any) -> None:
    got = cli("recover", tmp_path, tmp_path / "trace")
    assert got.code == 2 and "recording.json" in got.err and len(got.err.splitlines()) == 1
    (tmp_path / "recording.json").write_text("{}")
    assert "expected format" in cli("recover", tmp_path, tmp_path / "trace").err
    spool = spooled(tmp_path / "own", 1)
    spool.close()
    (spool.folder / "selections.arrows").unlink()
    assert "expected streams" in cli("recover", spool.folder, tmp_path / "trace").err


def test_a_finished_recording_leaves_no_streams(tmp_path: Path) -> None:
    spooled(tmp_path / "trace", 3).finish(META)
    assert [each.name for each in tmp_path.iterdir()] == ["trace"]
    assert len(open_trace(tmp_path / "trace").windows) == 3


def test_settled_scores_say_what_was_picked() -> None:
    rng = np.random.default_rng(3)
    scores = rng.integers(0, 4, (500, 12)).astype(np.float32)
    noisy = scores + rng.random(scores.shape) * 1e-3
    picks = np.argsort(-noisy, axis=1)[:, :4].astype(np.int64)
    before, chosen = scores.copy(), np.sort(picks, axis=1)
    counts = Ranking()
    order = settle(picks, scores, counts)
    assert order.shape == picks.shape and (np.sort(picks, axis=1) == chosen).all()
    assert (route(scores, np.zeros_like(scores, bool), 4) == picks).all()
    assert counts.rows == 500 and 0 < counts.raised < 500 and counts.unexplained == 0
    assert np.abs(scores - before).max() < 1e-5


def test_scores_that_explain_nothing_are_left_as_they_are() -> None:
    scores = np.array([[3.0, 2.0, 1.0, 0.0]], np.float32)
    picks, counts = np.array([[0, 3]]), Ranking()
    settle(picks, scores, counts)
    assert (counts.raised, counts.unexplained) == (0, 1)
    assert scores.tolist() == [[3.0, 2.0, 1.0, 0.0]]


def test_recording_needs_no_torch_to_be_imported() -> None:
    script = "import sys, replay; replay.record, replay.Arena(3); print('torch' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "False"
