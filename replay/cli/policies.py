"""``replay policies``: every policy, what it reads and needs, and the engine's switches for it."""

import shlex
from collections.abc import Iterable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from replay.cli import flags

if TYPE_CHECKING:
    from replay.declare.policy import Policy
    from replay.spec.resolve import Recorded, Resolved
    from replay.trace import Trace

NOT_RECORDED = SimpleNamespace(policy=None, router=None)
"""What stands for a trace's description where no trace is given: nothing is known, defaults hold."""


def policies(
    trace: Annotated[
        Path | None, typer.Argument(metavar="[TRACE]", help="Say also what this trace has for each.")
    ] = None,
    policy: Annotated[
        list[str] | None,
        typer.Option("-p", "--policy", metavar="SPEC", help="Explain this spec instead (repeatable)."),
    ] = None,
    policy_file: flags.PolicyFiles = None,
    env: Annotated[
        str | None,
        typer.Option("--env", metavar="'NAME=V ..'", help="Explain the engine's switches instead."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """List every policy: its options and defaults, what it needs, its source, the engine's switches.

    With a trace: whether it has what each policy needs. With -p or --env: what a spec's options come to,
    where each value is from, and the engine's switches that run it.

    Examples
    --------
    replay policies
    replay policies traces/e256-moce --json
    replay policies -p route:p=1+decode2q
    replay policies --env "STRATA_METAL_PREFETCH_UNPERT=0 STRATA_METAL_DECODE_2Q=1"
    """
    from replay.spec.grammar import parse_all
    from replay.spec.switches import spec_from_switches

    flags.add_policies(policy_file)
    opened = _open(trace)
    texts = list(policy or [])
    if env is not None:
        texts.append(spec_from_switches(env))
    if texts:
        _explain([each.text for each in parse_all(texts)], opened, as_json)
    else:
        _list(opened, as_json)


def _open(path: Path | None) -> "Trace | None":
    if path is None:
        return None
    from replay.trace import open_trace

    return open_trace(path, verify=False)  # which tables there are, not what is in them


def _meta(trace: "Trace | None") -> "Recorded":
    return NOT_RECORDED if trace is None else trace.meta


def _print_json(value: Any) -> None:
    import json

    typer.echo(json.dumps(value, indent=1, allow_nan=False))


def _list(trace: "Trace | None", as_json: bool) -> None:
    """Print every policy, one a line."""
    from replay.spec.grammar import declaration, names

    rows = [_row(declaration(name), trace) for name in names()]
    if as_json:
        _print_json(rows)
        return
    _print_rows(rows, trace)
    if trace is None:
        typer.echo("\nnext: replay policies TRACE says what a trace has for each")
    else:
        typer.echo(f"\nnext: replay compare {shlex.quote(str(trace.path))} -p SPEC -p SPEC --out DIR")


def _row(policy: "Policy", trace: "Trace | None") -> dict[str, Any]:
    """What is shown of one policy."""
    from replay.declare.policy import NEEDS

    row: dict[str, Any] = {
        "policy": policy.name,
        "kind": policy.kind,
        "summary": policy.summary,
        "options": {name: each.default for name, each in policy.options.items()},
        "main": policy.main,
        "needs": {letter: NEEDS[letter] for letter in policy.needs},
        "source": policy.source,
        "switches": policy.environment,
    }
    if trace is not None:
        row["lacking"] = _lacking(policy, trace)
        row["runs"] = row["lacking"] is None
    return row


def _lacking(policy: "Policy", trace: "Trace") -> str | None:
    from replay.declare.policy import lacking

    return lacking(policy, trace.tables, trace.sparse)


def _print_rows(rows: Sequence[dict[str, Any]], trace: "Trace | None") -> None:
    """Print two tables: what each policy reads and needs; where its rule is from and how the engine runs it."""
    from replay.cli.table import aligned
    from replay.declare.policy import NEEDS, show_value

    headers = ["policy", "kind", "options (defaults)", "needs", "what it does"]
    if trace is not None:
        headers.insert(4, "this trace")
    table = []
    for row in rows:
        options = " ".join(f"{name}={show_value(value)}" for name, value in row["options"].items())
        line = [row["policy"], row["kind"], options, "".join(row["needs"]), row["summary"]]
        if trace is not None:
            line.insert(4, "yes" if row["runs"] else row["lacking"].replace("needs the table", "lacks"))
        table.append(line)
    typer.echo(aligned(headers, table))
    typer.echo(f"\nneeds: {'; '.join(f'{letter} {text}' for letter, text in NEEDS.items())}")
    typer.echo("options: the spec's, else what the trace records, else the default; - = not set\n")
    runs = [(row["policy"], row["source"], _switches(row["switches"])) for row in rows]
    typer.echo(aligned(["policy", "source", "the seed engine's switches"], runs))


def _switches(text: str | None) -> str | None:
    return "(none: the default)" if text == "" else text


def _explain(texts: Iterable[str], trace: "Trace | None", as_json: bool) -> None:
    """Print what each spec's options come to."""
    from replay.spec.grammar import parse
    from replay.spec.resolve import resolve, same_by_construction

    resolved = [resolve(parse(text), _meta(trace)) for text in texts]
    rows = [_explained(each, trace) for each in resolved]
    same = same_by_construction(resolved)
    if as_json:
        _print_json({"policies": rows, "same_by_construction": same})
        return
    for each, row in zip(resolved, rows, strict=True):
        typer.echo(f"{row['policy']}: {each.describe()}")
        switches = row["switches"]
        given = " ".join(f"{name}={value}" for name, value in (switches or {}).items())
        typer.echo(
            f"  switches: {'the engine has no such policy' if switches is None else given or 'none: the default'}"
        )
        if row.get("lacking"):
            typer.echo(f"  this trace: {row['lacking']}")
    for group in same:
        typer.echo(f"the same by construction: {', '.join(group)}")


def _explained(resolved: "Resolved", trace: "Trace | None") -> dict[str, Any]:
    """What is shown of one spec."""
    from replay.spec.grammar import declaration
    from replay.spec.switches import switches_of

    row: dict[str, Any] = {
        "policy": resolved.spec.text,
        "values": dict(resolved.values),
        "origins": dict(resolved.origins),
        "switches": switches_of(resolved),
    }
    if trace is not None:
        reasons = [_lacking(declaration(part.name), trace) for part in resolved.spec.parts]
        row["lacking"] = "; ".join(reason for reason in reasons if reason) or None
    return row
