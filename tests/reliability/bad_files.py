"""Damaged files beside a trace: budgets, clocks, policy files, files of specs, runs, and recordings left behind."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import test_clock
import test_policy_file
import test_spec
from raw_trace import healthy

from reliability.bad import OUT, Bad, kept, run

PLAIN = ("-p", "lru", "--no-curves")
Edit = Callable[[Path], Any]


def _parameters(test: Any) -> list[tuple[Any, ...]]:
    return [each for mark in test.pytestmark if mark.name == "parametrize" for each in mark.args[1]]


def _text(content: str | bytes) -> Edit:
    return lambda path: path.write_bytes(content.encode() if isinstance(content, str) else content)


# what no TOML or Python file is
NOT_THERE: dict[str, Edit] = {
    "not there": lambda path: None,
    "a folder": lambda path: path.mkdir(),
    "not UTF-8": _text(b"slots = 1 # \xff\xfe"),
    "zero bytes of a file": _text(b"\0" * 64),
    "a link to itself": lambda path: path.symlink_to(path),
}

BUDGETS: dict[str, tuple[Edit, str]] = {
    "empty": (_text(""), "slots: expected a list for each size class"),
    "not TOML": (_text("slots = [["), "not TOML"),
    "slots a number": (_text("slots = 9"), "expected a list for each size class"),
    "slots a flat list": (_text("slots = [3, 3, 3]"), "expected a list for each size class"),
    "two classes": (_text("slots = [[3, 3, 3], [1, 1, 1]]"), "found 2 lists"),
    "a layer short": (_text("slots = [[3, 3]]"), "2 figures for this trace's 3 layers"),
    "a layer too many": (_text("slots = [[3, 3, 3, 3]]"), "4 figures"),
    "no slot": (_text("slots = [[3, 0, 3]]"), "layer 1"),
    "slots below zero": (_text("slots = [[3, -3, 3]]"), "layer 1"),
    "half a slot": (_text("slots = [[3, 2.5, 3]]"), "2.5"),
    "true for a slot": (_text("slots = [[3, true, 3]]"), "True"),
    "a text for a slot": (_text('slots = [[3, "3", 3]]'), "'3'"),
    "slots past any": (_text("slots = [[3, 9999999999999999999, 3]]"), "layer 1"),
    "slots of 5,000 digits": (_text(f"slots = [[3, {'9' * 5000}, 3]]"), "budget"),
    "another total": (_text("total = [10]\nslots = [[3, 3, 3]]"), "add up to [9]"),
    "a total of text": (_text('total = "9"\nslots = [[3, 3, 3]]'), "add up to [9]"),
    "too deep": (_text("slots = " + "[" * 50_000), "not TOML"),
    "tables too deep": (_text("[" + ".".join("a" * 5000) + "]\nslots = 1"), "budget"),
    "slots twice": (_text("slots = [[3, 3, 3]]\nslots = [[3, 3, 3]]"), "not TOML"),
}

CLOCKS: dict[str, str] = {
    "workers zero": "workers = 0",
    "workers past any": "workers = 65537",
    "workers a half": "workers = 1.5",
    "workers true": "workers = true",
    "workers a list": "workers = [8]",
    "workers of 5,000 digits": "workers = " + "9" * 5000,
    "reserved all": "workers = 2\nreserved = 2",
    "pieces below zero": "pieces = -1",
    "latency below zero": "latency_us = -1.0",
    "latency infinite": "latency_us = inf",
    "latency a date": "latency_us = 1979-05-27",
    "stream zero": "stream_gbps = 0.0",
    "device NaN": "device_gbps = nan",
    "pre past any": "pre_us = 1e300",
    "post a text": 'post_us = "600us"',
    "a key that is none": "queue = 3",
    "a key near one": "latency = 80",
    "a key twice": "workers = 8\nworkers = 8",
    "too deep": "workers = " + "[" * 50_000,
}

VERIFY: dict[str, str] = {
    "no table": "workers = 8",
    "a number": "verify = 3",
    "no cost": "[verify]\nfixed = 0.1",
    "empty cost": "[verify]\ncost = []",
    "a text in cost": '[verify]\ncost = [1.0, "a"]',
    "fixed a text": '[verify]\ncost = [1.0]\nfixed = "a"',
    "cost NaN": "[verify]\ncost = [1.0, nan]",
    "cost infinite": "[verify]\ncost = [inf]",
    "cost below zero": "[verify]\ncost = [-1.0]",
    "cost of nothing": "[verify]\ncost = [0.0, 0.0]\nfixed = 0.0",
    "cost of 5,000 digits": "[verify]\ncost = [" + "9" * 5000 + "]",
    "cost past a double": "[verify]\ncost = [1" + "0" * 400 + "]",
}


def _beside(name: str, edit: Edit, *options: object) -> Callable[[Path], list[object]]:
    """Write a file called ``name`` and compare with it."""

    def make(folder: Path) -> list[object]:
        trace = healthy().write(folder / "trace")
        edit(folder / name)
        given = [folder / name if each is ... else each for each in options]
        return ["compare", trace, "--out", folder / OUT, *PLAIN, *given]

    return make


def _toml() -> list[Bad]:
    budget, clock = ("--no-clock", "--scope", "layer", "--budget", ...), ("--clock", ...)
    found = []
    for name, edit in NOT_THERE.items():
        found.append(Bad(name, "budget", _beside("budget.toml", edit, *budget), ("budget.toml",)))
        found.append(Bad(name, "clock", _beside("clock.toml", edit, *clock), ("clock.toml",)))
        mine = _beside("mine.py", edit, "--no-clock", "--policy-file", ...)
        found.append(Bad(name, "policy file", mine, ("mine.py",)))
        found.append(Bad(name, "file of specs", _specs(edit), ("mine.toml",)))
    for name, (edit, word) in BUDGETS.items():
        found.append(Bad(name, "budget", _beside("budget.toml", edit, *budget), ("budget.toml", word)))
    for name, text in CLOCKS.items():
        found.append(Bad(name, "clock", _beside("clock.toml", _text(text), *clock), ("clock.toml",)))
    for number, (text, _) in enumerate(_parameters(test_clock.test_a_bad_clock_file_is_one_line)):
        found.append(Bad(f"refusal {number}", "clock", _beside("clock.toml", _text(text), *clock)))
    for name, text in VERIFY.items():
        found.append(Bad(name, "verify", _drafts(_text(text))))
    for number, text in enumerate(_parameters(test_spec.test_files_refused)):
        found.append(Bad(f"refusal {number}", "file of specs", _specs(_text(str(text))), ("mine.toml",)))
    many = '[policies]\na = "lru"\nb = "lru+lru"'
    found.append(Bad("a spec in it is wrong", "file of specs", _specs(_text(many)), ("lru is given twice",)))
    return found


def _specs(edit: Edit) -> Callable[[Path], list[object]]:
    def make(folder: Path) -> list[object]:
        trace = healthy().write(folder / "trace")
        edit(folder / "mine.toml")
        bound = ("--no-clock", "--no-curves", "--out", folder / OUT)
        return ["compare", trace, *bound, "-p", f"@{folder / 'mine.toml'}"]

    return make


def _drafts(edit: Edit) -> Callable[[Path], list[object]]:
    def make(folder: Path) -> list[object]:
        edit(folder / "clock.toml")
        return ["drafts", "--grid", "--clock", folder / "clock.toml"]

    return make


POLICY_FILES = {
    "an import of nothing": "import nowhere_at_all",
    "an exit": "raise SystemExit(0)",
    "an error": "1 / 0",
    "an endless recursion": "def f(): f()\nf()",
    "no policy": "x = 1",
    "a policy that is none": "POLICY = 3",
    "a null byte": "x = 1\0",
    "brackets": "(" * 5000,
    "another kind": test_policy_file.TEXT.replace('"evict"', '"gate"'),
    "a taken name": test_policy_file.TEXT.replace('"lives"', '"lru"'),
    "a name of two words": test_policy_file.TEXT.replace('"lives"', '"two words"'),
    "a step missing": test_policy_file.TEXT.replace("def victim", "def victims"),
    "a step that is none": test_policy_file.TEXT.replace("@step\ndef touch", "def touch"),
    "indented wrong": " x = 1\n  y = 2",
}


def _policy_files() -> list[Bad]:
    return [
        Bad(
            name,
            "policy file",
            _beside("mine.py", _text(text), "--no-clock", "--policy-file", ...),
            ("mine.py",),
        )
        for name, text in POLICY_FILES.items()
    ]


# --- q and coverage files, studies -----------------------------------------------------------------


def _gated(gate: str, edit: Edit) -> Callable[[Path], list[object]]:
    def make(folder: Path) -> list[object]:
        trace = healthy().write(folder / "trace")
        edit(folder / "q.json")
        spec = f"route:k=3+{gate}:q={folder / 'q.json'}"
        return ["compare", trace, "-p", spec, "--no-curves", "--no-clock", "--out", folder / OUT]

    return make


def _of_trace(document: dict[str, Any]) -> dict[str, Any]:
    """The document of the file's tests, for a model of the tiny trace's shape."""
    model = {"model": {"layers": 3, "experts": 8, "top_k": 2}}
    tables = {name: [document[name][0]] * 3 for name in ("q", "q_absent") if name in document}
    return document | model | tables


def _calibrated() -> list[Bad]:
    import test_calibration_file as files

    kinds = (
        ("q", "calibrated", files.Q, files.test_a_q_file_that_does_not_fit_is_refused),
        ("coverage", "coverage", files.COVERAGE, files.test_a_coverage_file_that_does_not_fit_is_refused),
    )
    found = []
    for kind, gate, document, test in kinds:
        for name, edit in NOT_THERE.items():
            found.append(Bad(name, kind, _gated(gate, edit), ("q.json",)))
        for number, (data, _) in enumerate(_parameters(files.test_what_is_no_q_file_is_refused)):
            found.append(Bad(f"no file {number}", kind, _gated(gate, _text(data)), ("q.json",)))
        for number, (change, _) in enumerate(_parameters(test)):
            text = json.dumps({**_of_trace(document), **change})
            found.append(Bad(f"refusal {number}", kind, _gated(gate, _text(text)), ("q.json",)))
    return found


STUDIES: dict[str, str] = {
    "empty": "",
    "no policies": 'traces = ["trace"]',
    "no traces": 'policies = ["lru"]',
    "traces a text": 'traces = "trace"\npolicies = ["lru"]',
    "traces of numbers": 'traces = [1]\npolicies = ["lru"]',
    "no such trace": 'traces = ["nowhere"]\npolicies = ["lru"]',
    "an unknown key": 'traces = ["trace"]\npolicies = ["lru"]\nslot = ["8"]',
    "a spec that is none": 'traces = ["trace"]\npolicies = ["lruu"]',
    "slots of words": 'traces = ["trace"]\npolicies = ["lru"]\nslots = ["many"]',
    "slots of nothing": 'traces = ["trace"]\npolicies = ["lru"]\nslots = []',
    "routes that are none": 'traces = ["trace"]\npolicies = ["lru"]\nroutes = ["x"]',
    "a clock that is none": 'traces = ["trace"]\npolicies = ["lru"]\nclocks = ["nowhere.toml"]',
    "a clock of no workers": 'traces = ["trace"]\npolicies = ["lru"]\nclocks = [{name = "a", workers = 0}]',
    "seeds of words": 'traces = ["trace"]\npolicies = ["none+random"]\nseeds = ["a"]',
    "semantics that are none": 'traces = ["trace"]\npolicies = ["lru"]\n[semantics]\norder = "x"',
    "too deep": "traces = " + "[" * 50_000,
    "5,000 digits": "seeds = [" + "9" * 5000 + "]",
}


def _studies() -> list[Bad]:
    def sweep(edit: Edit) -> Callable[[Path], list[object]]:
        def make(folder: Path) -> list[object]:
            healthy().write(folder / "trace")
            edit(folder / "grid.toml")
            return ["sweep", folder / "grid.toml", "--out", folder / OUT]

        return make

    found = [Bad(name, "study", sweep(edit), ("grid.toml",)) for name, edit in NOT_THERE.items()]
    return found + [Bad(name, "study", sweep(_text(text))) for name, text in STUDIES.items()]


# --- runs ------------------------------------------------------------------------------------------


@cache
def _run() -> Path:
    """A healthy run, made once."""
    folder = kept() / "run of the tiny trace"
    done = run(["compare", healthy().write(folder / "trace"), *PLAIN, "--no-clock", "--out", folder / "run"])
    assert done.code == 0, done.err
    return folder / "run"


def _json(change: Callable[[Any], Any], file: str = "run.json") -> Edit:
    def edit(path: Path) -> None:
        document = json.loads((path / file).read_text())
        (path / file).write_text(json.dumps(change(document)))

    return edit


def _without(name: str) -> Edit:
    return _json(lambda document: {key: value for key, value in document.items() if key != name})


def _file(name: str, content: str | bytes) -> Edit:
    return lambda path: _text(content)(path / name)


def _cut(name: str, last: int) -> Edit:
    return lambda path: (path / name).write_bytes((path / name).read_bytes()[:-last])


RUNS: dict[str, Edit] = {
    "no run.json": lambda path: (path / "run.json").unlink(),
    "no summary": lambda path: (path / "summary.json").unlink(),
    "no layers": lambda path: (path / "layers.parquet").unlink(),
    "no windows": lambda path: (path / "windows.parquet").unlink(),
    "run.json empty": _file("run.json", ""),
    "run.json cut": _file("run.json", '{"trace": '),
    "run.json a list": _file("run.json", "[]"),
    "run.json a number": _file("run.json", "3"),
    "run.json an empty object": _file("run.json", "{}"),
    "run.json not UTF-8": _file("run.json", b"\xff\xfe"),
    "run.json too deep": _file("run.json", "[" * 100_000),
    "run.json of 5,000 digits": _file("run.json", "9" * 5000),
    "summary a number": _file("summary.json", "3"),
    "summary of numbers": _file("summary.json", "[3]"),
    "summary cut": _file("summary.json", "[{"),
    "layers empty": _file("layers.parquet", b""),
    "layers cut": _cut("layers.parquet", 30),
    "layers no Parquet": _file("layers.parquet", b"hello"),
    "windows cut": _cut("windows.parquet", 3),
    "windows for layers": lambda path: shutil.copy(path / "windows.parquet", path / "layers.parquet"),
    "layers a folder": lambda path: ((path / "layers.parquet").unlink(), (path / "layers.parquet").mkdir()),
    "without a trace": _without("trace"),
    "without policies": _without("policies"),
    "without a bound": _without("bound"),
    "a trace of text": _json(lambda document: document | {"trace": "x"}),
    "policies of text": _json(lambda document: document | {"policies": "x"}),
    "policies of numbers": _json(lambda document: document | {"policies": [3]}),
}


def _runs() -> list[Bad]:
    def report(edit: Edit) -> Callable[[Path], list[object]]:
        def make(folder: Path) -> list[object]:
            shutil.copytree(_run(), folder / "run")
            edit(folder / "run")
            return ["report", folder / "run"]

        return make

    def diff(edit: Edit) -> Callable[[Path], list[object]]:
        def make(folder: Path) -> list[object]:
            return ["diff", _run(), report(edit)(folder)[1]]

        return make

    return [
        Bad(f"{name} ({command})", "run", make(edit), ("run",))
        for command, make in (("report", report), ("diff", diff))
        for name, edit in RUNS.items()
    ]


# --- recordings that a crash left ------------------------------------------------------------------

RECORDINGS: dict[str, Edit] = {
    "empty": lambda path: None,
    "no document": lambda path: (path / "recording.json").unlink(),
    "document empty": _file("recording.json", ""),
    "document a list": _file("recording.json", "[]"),
    "document of nothing": _file("recording.json", "{}"),
    "document not UTF-8": _file("recording.json", b"\xff"),
    "document too deep": _file("recording.json", "[" * 100_000),
    "another version": _json(lambda document: document | {"version": 99}, "recording.json"),
    "meta of text": _json(lambda document: document | {"meta": "x"}, "recording.json"),
    "no model": _json(lambda document: document | {"meta": {}}, "recording.json"),
    "no model at all": _json(lambda document: document | {"meta": {"model": 3}}, "recording.json"),
    "stream empty": _file("selections.arrows", b""),
    "stream of noise": _file("selections.arrows", bytes(range(256)) * 4),
    "windows of noise": _file("windows.arrows", bytes(range(256)) * 4),
    "stream a folder": lambda path: ((path / "windows.arrows").unlink(), (path / "windows.arrows").mkdir()),
    "stream a pipe": lambda path: ((path / "windows.arrows").unlink(), os.mkfifo(path / "windows.arrows")),
}


def _recordings() -> list[Bad]:
    def recover(name: str, edit: Edit) -> Callable[[Path], list[object]]:
        def make(folder: Path) -> list[object]:
            from test_record import spooled

            if name == "empty":
                (folder / "left").mkdir()
                return ["recover", folder / "left", folder / OUT]
            spool = spooled(folder / "own", 2)
            spool.close()
            edit(spool.folder)
            return ["recover", spool.folder, folder / OUT]

        return make

    return [Bad(name, "recording", recover(name, edit)) for name, edit in RECORDINGS.items()]


def cases() -> list[Bad]:
    """Every damaged file."""
    return [*_toml(), *_policy_files(), *_calibrated(), *_studies(), *_runs(), *_recordings()]
