"""What a reader must know before believing a figure: how it was made, and what a replay cannot see."""

from __future__ import annotations

from typing import Any

from replay.report.subject import Subject
from replay.report.wording import count, listing, percent

LIMITS = (
    "It screens. A replay counts reads and puts them on a modelled disk; it does not run an engine. Take the rows that "
    "look good here as the ones to measure, not as results.",
    "A higher hit ratio is often a slower engine. Public engines that measured both say so of themselves: eviction "
    "by per-layer use counts gained 2 to 5 points of hit ratio and made one 30% slower; reading on speculation made "
    "others 18 to 38% slower.",
    "What papers claim for a rule is theirs, measured on their model and their system. A replay neither repeats nor "
    "refutes it: it says what the rule would have read on this trace.",
    "It does not see the machine: other traffic on the disk, the operating system's page cache, memory bandwidth, "
    "heat, the cost of a policy's own bookkeeping.",
    "It does not see the text: hidden states and what was generated stay as recorded, whatever a policy would have "
    "changed about the routes. It says nothing about quality.",
)

_ROUTES = {
    "recorded": "Routes recorded: the trace's own selections, whatever the cache does. Exact where the engine's "
    "resident bonus was 0; with a bonus a screen, as other evictions would have changed the routes.",
    "rerouted": "Routes rerouted: selections recomputed from the recorded router scores and the replayed residency. "
    "Hidden states stay as recorded, so it is first-order.",
    "predicted": "Routes predicted: the read-ahead's best candidates become the selections. A counterfactual about "
    "traffic, not about quality: what they give up of the router's softmax mass is not known, as they read no router "
    "scores.",
    "cacheprior": "Routes {}: rerouted, with a resident bonus that follows the spread of each layer's scores.",
}

NO_SIZES = (
    "The sizes of the experts are not known (1 byte stands for each), so experts are counted in place of bytes: all "
    "that were asked for. Which reads came late, were cancelled or made a token wait is not known."
)
NO_CLOCK = (
    "Replayed without a clock (--no-clock): which reads came late, were cancelled or made a token wait is not "
    "known, so those columns and pictures are left out, and bytes are those asked for."
)

_CLOCK_NAMES = (
    ("workers", "{} workers"),
    ("reserved", "{} kept from read-ahead"),
    ("pieces", "{} pieces a read"),
    ("latency_us", "{} us latency"),
    ("stream_gbps", "{} GB/s a stream"),
    ("device_gbps", "{} GB/s the device"),
    ("pre_us", "{} us before an event asks"),
    ("post_us", "{} us after"),
)
_OWN = {"pre_us": "the recorded time before an event asks", "post_us": "the recorded time after"}


def routes_text(subject: Subject) -> list[str]:
    """What the run's kinds of routes mean, with the share of picks that they keep."""
    found = []
    for kind in subject.run.info.get("routes") or ["recorded"]:
        text = _ROUTES.get(kind.partition(":")[0], "Routes {}.").format(kind)
        kept = [
            row["picks_kept_ratio"]
            for row in subject.run.summary
            if row["routes"] == kind and row.get("picks_kept_ratio")
        ]
        if kept and kind != "recorded":
            low, high = percent(min(kept)), percent(max(kept))
            text += f" Picks that equal the recorded ones: {low if low == high else f'{low} to {high}'}."
            text += _cost_to_picks(subject, kind)
        found.append(text)
    return found


def _cost_to_picks(subject: Subject, kind: str) -> str:
    """What new picks give up of the router's softmax mass, and how their agreement drifts."""
    rows = [row for row in subject.run.summary if row["routes"] == kind and row.get("picks_kept_ratio")]
    given = [row for row in rows if row.get("given_up_p99_ratio") is not None]
    ends = [(row.get("picks_kept_first_ratio"), row.get("picks_kept_last_ratio")) for row in rows]
    drifts = [last - first for first, last in ends if first is not None and last is not None]
    text = ""
    if given:
        most = max(given, key=lambda row: row["given_up_mean_ratio"])
        text += (
            f" They give up at most {percent(most['given_up_mean_ratio'])} of the softmax mass of the raw best picks "
            f"(p99 of a row {percent(most['given_up_p99_ratio'])}; {most['policy']})."
        )
    if drifts:
        widest = max(drifts, key=abs)
        moved = f"{abs(100 * widest):.1f} points"
        text += f" From the first tenth of the trace to the last the share moves by at most {moved}."
    return text


def fidelity_text(subject: Subject) -> str | None:
    """Whether a replay of the recorded policy gives what was recorded; None for a run that does not tell."""
    found: dict[str, Any] | None = subject.run.info.get("fidelity")
    if not found:
        return None
    if found["events"] is None:
        return f"Fidelity not measured: {found['reason'].rstrip('.')}."
    held = listing(found["compared"])
    if found["equal"] == found["events"]:
        return (
            f"Fidelity: the recorded policy ({found['policy']}), replayed, gives the recorded {held} in all of "
            f"{count(found['events'])} events."
        )
    return (
        f"Fidelity: the recorded policy ({found['policy']}), replayed, gives the recorded {held} in only "
        f"{count(found['equal'])} of {count(found['events'])} events; replay fidelity shows the first that differs."
    )


def clock_text(subject: Subject) -> str:
    """The clock, or that there was none."""
    if not subject.sized:
        return NO_SIZES
    clock: dict[str, Any] | None = subject.run.info.get("clock")
    if not subject.timed or clock is None:
        return NO_CLOCK
    own = subject.run.info.get("clock_from_timing") or []
    parts = [
        _OWN[name] if name in own else text.format(f"{clock[name]:g}")
        for name, text in _CLOCK_NAMES
        if name in clock
    ]
    return f"Times are those of a modelled disk: {', '.join(parts)}."


def semantics_text(subject: Subject) -> str:
    """How events were played, as the command line's options name it."""
    ways: dict[str, Any] = subject.run.info.get("semantics") or {}
    shown = {name: {True: "on", False: "off", None: "off"}.get(value, value) for name, value in ways.items()}
    return ", ".join(f"{name.replace('_', '-')} {value}" for name, value in shown.items())
