"""``replay audit``: does a trace hold together: its router, its recorded policy, its look."""

import json
from typing import TYPE_CHECKING

import typer

from replay.cli.flags import Json, TracePath
from replay.errors import CheckFailed, InputError

if TYPE_CHECKING:
    from replay.audit import Audit, RouterAudit, Sample


def audit(path: TracePath, as_json: Json = False) -> None:
    """Audit a trace: route every row again, replay the recorded policy, look at the rows.

    Router: picks and weights are computed again from the recorded router scores, resident snapshots and router
    settings. Fidelity: the recorded policy is replayed and held against outcomes, counters and snapshots. Look:
    warnings, which fail nothing. Exit code 1 where an audit does not hold; one that the trace does not allow
    says why. Exit code 2 where it allows neither: nothing was audited, so nothing holds.

    Examples
    --------
    replay audit TRACE
    replay audit TRACE --json
    """
    from replay.audit import audit as run_audit
    from replay.trace import open_trace

    found = run_audit(open_trace(path))
    if as_json:
        typer.echo(json.dumps(found.as_dict(), indent=1, allow_nan=False, default=str))
    else:
        typer.echo("\n".join(_lines(found)))
    if not found.audited:
        raise InputError(f"{path}: nothing could be audited: {'; '.join(found.missing)}")
    if not found.holds:
        raise CheckFailed(f"{path}: the audit does not hold: {'; '.join(found.failures)}")


def _lines(found: "Audit") -> list[str]:
    """Lay the audits out for a terminal."""
    from replay.units import counted

    lines = [*_router(found.router), *_fidelity(found)]
    warnings = found.look.warnings
    lines.append(f"look       {counted(len(warnings), 'warning') if warnings else 'no warnings'}")
    lines += [f"           {each.share:.2%} {each.text}" for each in warnings]
    return [*lines, "", _outcome(found)]


def _outcome(found: "Audit") -> str:
    if not found.audited:
        return "nothing could be audited"
    what = "the audit holds" if found.holds else "the audit does NOT hold"
    return what if not found.missing else f"{what} (of the {' and '.join(found.audited)} only)"


def _router(router: "RouterAudit") -> list[str]:
    if router.reason is not None:
        return [f"router     not audited: {router.reason}"]
    said = router.settings
    lines = [
        f"router     p {said['protect']}, b {said['bonus']:g}, r1 {said['r1']:g}, draft_moce "
        f"{'on' if said['draft_moce'] else 'off'}: {router.rows} rows (window, row, layer) routed again",
        f"           other ids {router.ids}, other order {router.order}, "
        + (
            f"other weights {router.weights} of {router.weighed} (beyond {router.tolerance:.2g}; largest "
            f"difference {router.worst_weight or 0:.2g})"
            if router.weighed
            else f"no weights {'recorded' if router.weights_reason is None else 'compared'}"
        ),
    ]
    if router.formula is not None and router.weighed:
        lines.append(f"           weights by the trace's own formula: {router.formula}")
    if router.weights_reason is not None:
        lines.append(f"           {router.weights_reason}")
    for count, text in (
        (router.without_residents, "rows without a resident snapshot: not audited"),
        (router.short, "rows with dropped ranks: picks compared as far as recorded"),
        (router.past, "sparse rows end too early to be exact"),
    ):
        lines += [f"           {count} {text}"] if count else []
    if router.r1_tail:
        lines.append(
            f"           the r1 tail defect: in {router.r1_tail} of the {router.weights} rows the tail's residents "
            f"still carry exp(r1 = {said['r1']:g}); the engine must divide it out of every boosted pick"
        )
    return [*lines, *(line for each in router.first for line in _sample(each))]


def _sample(sample: "Sample") -> list[str]:
    where = f"           {sample.what}: window {sample.window}, row {sample.row}, layer {sample.layer}"
    if sample.what == "weights" and sample.weights is not None and sample.expected_weights is not None:
        pairs = zip(sample.recorded, sample.weights, sample.expected_weights, strict=True)
        return [
            f"{where}: "
            + ", ".join(f"{e}: {w:.7g} not {x:.7g}" for e, w, x in pairs if abs(w - x) > 1e-7 * x)
        ]
    return [f"{where}: recorded {_ids(sample.recorded)}; the rule picks {_ids(sample.expected)}"]


def _ids(ids: list[int]) -> str:
    return " ".join(map(str, ids)) or "none"


def _fidelity(found: "Audit") -> list[str]:
    fidelity = found.fidelity
    if fidelity is None:
        said = "does not hold" if found.fidelity_failed else "not checked"
        return [f"fidelity   {said}: {found.fidelity_reason}"]
    lines = [
        f"fidelity   {fidelity.policy}, {fidelity.bound}: {fidelity.equal} of {fidelity.events} events equal "
        f"(compared: {', '.join(fidelity.compared)})"
    ]
    if fidelity.first is not None:
        lines.append(
            f"           first that differs: window {fidelity.first.window}, layer {fidelity.first.layer}; "
            "`replay fidelity` shows both sides"
        )
    return lines
