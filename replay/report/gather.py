"""A report's content: sentences, tables and pictures, the same for Markdown and HTML."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from typing import Any

from replay.report import trust
from replay.report.along import domain_grid
from replay.report.brief import brief
from replay.report.capacity import capacity_grid
from replay.report.draft import draft_grid, step_grid
from replay.report.economy import Worth, worth
from replay.report.figure import Cell, Grid, Head, Row
from replay.report.layers import in_words, layer_grid
from replay.report.pairing import differences
from replay.report.pairing import in_words as in_brackets
from replay.report.picture import Picture, draw
from replay.report.policies import fate_grid, policy_grid, prefill_grid, routes_grid
from replay.report.prepared import prepare
from replay.report.sensitivity import Clocks, clocks
from replay.report.subject import Subject
from replay.report.wording import count, listing, sentence
from replay.run import Run
from replay.units import counted


@dataclass(frozen=True)
class Report:
    """All that a report says; None where the run has no data for it.

    Attributes
    ----------
    title, about : str
        The heading and the line below it.
    brief : list of str
        The answers, in sentences.
    facts : list of (str, str)
        What was replayed.
    routes, limits, warnings, left_out : list of str
        How far to trust it.
    clock : str
        The clock's parameters, or that there was none.
    pairing : str
        What the brackets of the policy table are; empty without any.
    policies, fates, layers, resolved, hashes : Grid
    sources : Grid or None
        Where the policies' rules are from.
    capacity, domains, prefill, picks, drafts, steps : Grid or None
    clocks : Clocks or None
        What other clocks would change.
    worth : Worth or None
        What drafts are worth.
    draft_notes : list of str
    layer_text : str
    pictures : dict of str to Picture
    command : str
    versions : list of (str, str)
    subject : Subject
    """

    title: str
    about: str
    brief: list[str]
    facts: list[tuple[str, str]]
    routes: list[str]
    limits: list[str]
    warnings: list[str]
    left_out: list[str]
    clock: str
    pairing: str
    policies: Grid
    fates: Grid
    layers: Grid
    resolved: Grid
    hashes: Grid
    sources: Grid | None
    capacity: Grid | None
    domains: Grid | None
    prefill: Grid | None
    picks: Grid | None
    drafts: Grid | None
    steps: Grid | None
    clocks: Clocks | None
    worth: Worth | None
    draft_notes: list[str]
    layer_text: str
    pictures: dict[str, Picture]
    command: str
    versions: list[tuple[str, str]]
    subject: Subject


def gather(run: Run) -> Report:
    """Make a report's content from a run's tables and info."""
    subject = Subject.folded(run)
    prepared = prepare(subject)
    paired = differences(subject)
    info, trace = run.info, _trace(run)
    survey = prepared.drafts
    return Report(
        title=f"Replay of {trace['name']}",
        about=_about(subject, len({row["policy"] for row in run.summary})),
        brief=brief(subject, prepared),
        facts=_facts(subject),
        routes=[*trust.routes_text(subject), *filter(None, [trust.fidelity_text(subject)])],
        limits=list(trust.LIMITS),
        warnings=[sentence(each) for each in run.warnings],
        left_out=[sentence(each) for each in (*info.get("left_out", ()), *info.get("notes", ()))],
        clock=trust.clock_text(subject),
        policies=policy_grid(subject, paired),
        pairing=in_brackets(subject, paired),
        fates=fate_grid(subject, prepared.fates),
        layers=layer_grid(subject, prepared.layers),
        resolved=_resolved(subject),
        hashes=_hashes(trace),
        sources=_sources(info.get("sources") or {}),
        capacity=None
        if prepared.curves is None or prepared.curves.is_empty()
        else capacity_grid(subject, prepared.curves),
        domains=domain_grid(subject),
        prefill=prefill_grid(subject),
        picks=routes_grid(subject),
        drafts=None if survey is None else draft_grid(survey, subject.amount),
        steps=None if survey is None else step_grid(survey),
        clocks=clocks(subject),
        worth=worth(survey, subject.amount),
        draft_notes=[] if survey is None else _draft_notes(survey),
        layer_text=in_words(subject, prepared.layers),
        pictures=draw(subject, prepared),
        command=shlex.join(map(str, info.get("command") or ["replay", "compare"])),
        versions=[(str(name), str(value)) for name, value in (info.get("versions") or {}).items()],
        subject=subject,
    )


def _about(subject: Subject, policies: int) -> str:
    return (
        f"{policies} {'policy' if policies == 1 else 'policies'}, an arena of {subject.arena}, "
        f"{_trace(subject.run)['model']}"
    )


def _trace(run: Run) -> dict[str, Any]:
    """What the run says of its trace; question marks where it does not."""
    unknown = dict.fromkeys(("name", "model", "layers", "experts", "top_k"), "?")
    counts = dict.fromkeys(("windows", "decode_windows", "sessions"), 0)
    return {**unknown, **counts, "sha256": {}, **(run.info.get("trace") or {})}


def _of(number: Any, noun: str) -> str:
    """Write a number of things, or that it is not known."""
    return counted(number, noun) if isinstance(number, int) else f"{number} {noun}s"


def _facts(subject: Subject) -> list[tuple[str, str]]:
    info = subject.run.info
    trace, bound = _trace(subject.run), info.get("bound") or {}
    tokens = sorted({row["tokens"] for row in subject.run.summary})
    windows, decode = (count(trace[name]) for name in ("windows", "decode_windows"))
    found = [
        ("trace", f"{trace['name']}: {trace['model']}"),
        (
            "shape",
            f"{_of(trace['layers'], 'layer')} of {_of(trace['experts'], 'expert')}, top {trace['top_k']}",
        ),
        (
            "windows",
            f"{windows} in {_of(trace['sessions'], 'session')}, {decode} of them decode",
        ),
        (
            "tokens",
            f"{' or '.join(map(count, tokens))} committed in decode windows: what per token divides by",
        ),
        ("arena", f"{subject.arena} ({bound.get('origin', 'as given')})"),
        ("semantics", trust.semantics_text(subject)),
        ("baseline", subject.baseline),
    ]
    same = [listing(list(group)) for group in info.get("same_by_construction") or ()]
    below = " (one row and one line below)" if subject.stands else ""
    return [*found, *(("the same by construction", f"{group}{below}") for group in same)]


def _resolved(subject: Subject) -> Grid:
    rows = []
    for each in subject.run.info.get("policies") or ():
        name = subject.name(each["policy"], each["routes"])
        rows.append(Row(name, [Cell(str(each["resolved"]))], subject.look(name), subject.note(name)))
    return Grid(
        "Policies as resolved", [Head("policy", numeric=False), Head("resolved to", numeric=False)], rows
    )


def _sources(sources: dict[str, str]) -> Grid | None:
    heads = [Head("part", numeric=False), Head("after", numeric=False)]
    rows = [Row(name, [Cell(source)]) for name, source in sources.items()]
    return Grid("Where the rules are from", heads, rows) if rows else None


def _hashes(trace: dict[str, Any]) -> Grid:
    heads = [Head("table", numeric=False), Head("sha256", numeric=False)]
    return Grid(
        "The trace's tables",
        heads,
        [Row(name, [Cell(value)]) for name, value in trace["sha256"].items()],
    )


def _draft_notes(survey: dict[str, Any]) -> list[str]:
    cost = survey["cost"]
    prices = ", ".join(f"{each:g}" for each in cost["verify"])
    return [
        "Tokens over cost decides: fewer wasted rows or fewer bytes are worth nothing where tokens are lost with them.",
        f"Cost of a round with k drafts: {cost['fixed']:g} + V[k], V = {prices}; "
        f"{cost['draft_step']:g} a draft step. "
        "Other costs: replay drafts TRACE --cost V --fixed F.",
        *map(sentence, survey["notes"]),
    ]
