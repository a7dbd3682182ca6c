"""What a program or a notebook calls: ``import replay; run = replay.compare("traces/e256-moce")``.

A thin front: plain values as the command line takes them become options of :mod:`replay.comparison.comparison`, and a
run saves its whole folder, as ``replay compare --out`` does.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from replay import run
from replay.argument import (
    CALLABLE,
    MAPPING,
    NONE,
    NUMBER,
    PATH,
    TEXT,
    TRUTH,
    WHOLE,
    either,
    expect,
    instance,
    many,
)
from replay.clock.timing import ClockParams, load_clock
from replay.comparison import comparison
from replay.comparison.play import Progress
from replay.comparison.sensitivity import parse_grid
from replay.declare.semantics import routes_of, semantics_of
from replay.errors import InputError
from replay.evict.own import add_files
from replay.report import write_run
from replay.spec.grammar import names
from replay.survey.curve import DEFAULT_GRID
from replay.trace import Trace, open_trace
from replay.trace.shuffle import control_seed

Location = str | os.PathLike[str]
Clock = ClockParams | Mapping[str, Any] | Location | bool | None


_TEXTS = either(TEXT, many(TEXT, "a sequence of str"))
_TEXTS_OR_NONE = either(TEXT, many(TEXT, "a sequence of str"), NONE)
_KINDS = {
    "trace": either(instance(Trace, "a Trace"), PATH),
    "policies": _TEXTS,
    "slots": either(TEXT, NUMBER, many(WHOLE, "a sequence of whole numbers"), NONE),
    "bytes": either(TEXT, WHOLE, NONE),
    "budget": either(PATH, NONE),
    **dict.fromkeys(("scope", "order", "cell", "start", "prefill"), TEXT),
    **dict.fromkeys(("split", "skip", "reads"), TRUTH),
    "prompt_hot": either(WHOLE, NONE),
    "routes": _TEXTS_OR_NONE,
    "grid": either(many(NUMBER, "a sequence of numbers"), NONE),
    "clock": either(MAPPING, PATH, instance(ClockParams, "ClockParams"), TRUTH, NONE),
    **dict.fromkeys(("clock_grid", "baseline", "control"), either(TEXT, NONE)),
    "policy_file": either(PATH, many(PATH, "a sequence of paths")),
    "seed": WHOLE,
    "threads": either(WHOLE, NONE),
    "progress": either(CALLABLE, NONE),
}
"""What each argument of ``compare`` may be."""


class Run(run.Run):
    """A run at hand: its tables, and a ``save`` that writes charts and report beside them."""

    def save(self, path: str | Path, force: bool = False) -> Path:
        """Write the run's folder, whole or not at all: tables, charts, ``report.html`` and ``report.md``.

        Parameters
        ----------
        path : str or Path
            The folder to make.
        force : bool
            Replace a run that is there.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        InputError
            The folder is taken.
        """
        expect(locals(), {"path": PATH, "force": TRUTH})
        folder = Path(path)
        write_run(self, folder, force)
        return folder


def load(path: Location) -> Run:
    """Read a run's folder back, as ``save`` or ``replay compare --out`` wrote it.

    Parameters
    ----------
    path : path
        The folder.

    Returns
    -------
    Run

    Raises
    ------
    InputError
        The folder holds no run, or a file of it cannot be read.
    """
    expect(locals(), {"path": PATH})
    return _whole(run.load(Path(path)))


def compare(
    trace: Trace | Location,
    policies: str | Sequence[str] = (),
    *,
    slots: str | int | float | Sequence[int] | None = None,
    bytes: str | int | None = None,
    budget: Location | None = None,
    scope: str = "global",
    split: bool = True,
    order: str = "id",
    cell: str = "atomic",
    start: str = "cold",
    prefill: str = "demand",
    prompt_hot: int | None = None,
    routes: str | Sequence[str] | None = None,
    grid: Sequence[float] | None = DEFAULT_GRID,
    clock: Clock = None,
    clock_grid: str | None = None,
    baseline: str | None = None,
    policy_file: Location | Sequence[Location] = (),
    skip: bool = False,
    reads: bool = False,
    control: str | None = None,
    seed: int = 0,
    threads: int | None = None,
    progress: Progress | None = None,
) -> Run:
    """Replay a trace through policies and put their figures side by side, as ``replay compare`` does.

    Parameters
    ----------
    trace : Trace or path
        An open trace, or its folder.
    policies : str or sequence of str
        Specs such as ``unpert1:k=8+decode2q``; those of the command line where empty.
    slots : str, int, float or sequence of int, optional
        ``"17.6%"``, ``0.176``, ``721``, or one figure a size class. What the trace recorded, else 17.6%.
    bytes : str or int, optional
        A byte budget instead: ``"4000MiB"``.
    budget : path, optional
        A file of slots by layer, as ``replay budget`` writes; scope ``layer`` only.
    scope : str
        ``global`` or ``layer``: one arena, or one a layer.
    split : bool
        Unwanted speculation waits in limbo, or is freed at once.
    order, cell, start, prefill : str
        As the flags of the command line.
    prompt_hot : int, optional
        Most recent residents that a prefill window spares.
    routes : str or sequence of str, optional
        ``recorded`` (the default), ``rerouted``, ``predicted``, ``cacheprior:0.2,2``.
    grid : sequence of float, or None
        Capacities of ``curves``, as factors of the bound; None or empty: no curves.
    clock : mapping, path, ClockParams or bool, optional
        Parameters by name, or a TOML file of them, over those of the trace and the defaults; False: no clock.
    clock_grid : str, optional
        Further clocks over the same replays: ``"rate=0.5/1/2,latency_us=80/800"`` or ``"auto"``.
    baseline : str, optional
        Spec that changes are against; the first one.
    policy_file : path or sequence of path
        Python files that add a policy each.
    skip : bool
        Leave out policies that cannot run.
    reads : bool
        Keep every read (``run.reads``).
    control : str, optional
        ``shuffled``: the windows in random order within each session, a control for what uses time.
    seed : int
        Of the control.
    threads : int, optional
        Policies at once; results do not depend on it.
    progress : callable, optional
        Called with the number of windows that are done.

    Returns
    -------
    Run
        ``layers``, ``windows``, ``curves`` (polars frames), ``summary``, ``warnings``; ``save``.

    Raises
    ------
    InputError
        A policy cannot run, an option cannot be read, or the trace is damaged.
    IdentityError
        A result breaks a conservation identity.
    """
    given = dict(locals())
    expect(given, _KINDS)
    if threads is not None and threads < 1:
        raise InputError(f"threads: {threads}; expected at least 1")
    given = {name: _plain(value) for name, value in given.items() if name != "progress"}
    opened = trace if isinstance(trace, Trace) else open_trace(trace)
    params = _clock(clock, opened)
    if clock_grid is not None and params is None:
        raise InputError("clock_grid: needs a clock; leave out clock=False")
    files = [policy_file] if isinstance(policy_file, str | os.PathLike) else list(policy_file)
    if files:
        add_files([Path(each) for each in files], names())
    found = comparison.compare(
        opened,
        [policies] if isinstance(policies, str) else list(policies),
        slots=_slots(slots),
        bytes=None if bytes is None else str(bytes),
        budget=None if budget is None else Path(budget),
        semantics=semantics_of(scope, split, order, cell, start, prefill, prompt_hot),
        routes=routes_of([routes] if isinstance(routes, str) else routes),
        grid=() if grid is None else tuple(grid),
        clock=params,
        clock_grid=() if clock_grid is None or params is None else parse_grid(clock_grid, params),
        baseline=baseline,
        skip=skip,
        check=True,
        reads=reads,
        part=routes is None,
        control=control_seed(control, seed),
        threads=threads,
        progress=progress,
    )
    found.info["command"] = ["python", "-c", f"import replay; {_call(given)}"]
    return _whole(found)


def _whole(found: run.Run) -> Run:
    return Run(**{each.name: getattr(found, each.name) for each in fields(found)})


def _plain(value: Any) -> Any:
    """An array, or another collection that is compared by its members, as a list."""
    if isinstance(value, str | bytes | Mapping | list | tuple) or not hasattr(value, "tolist"):
        return value
    return value.tolist()


def _slots(slots: str | int | float | Sequence[int] | None) -> str | None:
    """Slots as the command line writes them."""
    if slots is None or isinstance(slots, str):
        return slots
    if WHOLE.holds(slots):
        return str(slots)
    if NUMBER.holds(slots):
        return f"{100 * slots:.12g}%" if slots <= 1 else f"{slots:.12g}"  # type: ignore[operator]
    return ",".join(map(str, slots))  # type: ignore[arg-type]


def _clock(clock: Clock, trace: Trace) -> ClockParams | None:
    if clock is False:
        return None
    if isinstance(clock, ClockParams):
        return clock
    return load_clock(None if clock is None or clock is True else clock, trace.meta.io)


def _call(given: dict[str, Any]) -> str:
    """The call as Python, options at their defaults left out: what a report names to make the run again."""
    defaults = compare.__kwdefaults__ or {}
    texts = [_written(given["trace"])]
    if given["policies"]:
        texts.append(_written(given["policies"]))
    texts += [
        f"{name}={_written(given[name])}"
        for name in defaults
        if name in given and given[name] != defaults[name]
    ]
    return f"replay.compare({', '.join(texts)})"


def _written(value: Any) -> str:
    if isinstance(value, Trace):
        return repr(str(value.path))
    if isinstance(value, os.PathLike):
        return repr(os.fspath(value))
    if isinstance(value, ClockParams):
        return repr(value.as_dict())
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_written, value))}]"
    return repr(value)
