"""``replay synth``: make a trace of a stated shape, popularity, reuse, drift and predictor error."""

import json
import shlex
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer


def synth(
    destination: Annotated[Path, typer.Argument(metavar="DST", help="The trace's folder, made here.")],
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same bytes.")] = 0,
    layers: Annotated[int, typer.Option("--layers", help="MoE layers.")] = 16,
    experts: Annotated[int, typer.Option("--experts", help="Experts of a layer.")] = 64,
    top_k: Annotated[int, typer.Option("--top-k", help="Experts that a token picks.")] = 8,
    sessions: Annotated[int, typer.Option("--sessions", help="Sessions, one after another.")] = 8,
    windows: Annotated[int, typer.Option("--windows", help="Decode windows of each session.")] = 128,
    prompt: Annotated[int, typer.Option("--prompt", help="Rows of each session's prompt; 0: none.")] = 0,
    popularity: Annotated[
        float, typer.Option("--popularity", metavar="S", help="Zipf's exponent; 0: all alike.")
    ] = 0.6,
    reuse: Annotated[
        float, typer.Option("--reuse", help="Share of picks that the token before picked too.")
    ] = 0.4,
    drift: Annotated[
        float, typer.Option("--drift", help="Share of experts that change places in 1,000 tokens.")
    ] = 0.0,
    domains: Annotated[int, typer.Option("--domains", help="Popularities; sessions take turns.")] = 1,
    domain_overlap: Annotated[
        float, typer.Option("--domain-overlap", help="Share of experts alike in all domains.")
    ] = 0.0,
    recall: Annotated[
        float | None, typer.Option("--recall", help="Write candidates whose best hold this share of picks.")
    ] = None,
    distance: Annotated[int, typer.Option("--distance", help="Layers between projection and target.")] = 1,
    scores: Annotated[bool, typer.Option("--scores", help="Write router scores.")] = False,
    drafts: Annotated[int, typer.Option("--drafts", help="Draft rows of each decode window.")] = 0,
    draft_p: Annotated[float, typer.Option("--draft-p", help="Mean confidence of a draft.")] = 0.6,
    calibration: Annotated[
        float, typer.Option("--calibration", help="A draft of confidence p matches with p to this power.")
    ] = 1.0,
    slots: Annotated[
        int | None, typer.Option("--slots", help="Run an LRU arena along: residents and counters.")
    ] = None,
    bonus: Annotated[float, typer.Option("--bonus", help="Resident bonus in the router's loop.")] = 0.0,
    protect: Annotated[int, typer.Option("--protect", help="Ranks that the bonus leaves alone.")] = 3,
    expert_bytes: Annotated[
        str, typer.Option("--expert-bytes", metavar="SIZE", help="Size of an expert.")
    ] = "1MiB",
    force: Annotated[bool, typer.Option("--force", help="Replace an old trace.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Make a synthetic trace: to try everything without an engine, and to test with.

    Popularity is Zipf's law; luck that lasts makes the reuse; candidates are the router's scores with as much
    noise as the recall asks for. Nothing about a real model can be learned from it.

    Examples
    --------
    replay synth made --layers 8 --experts 128 --reuse 0.5 --recall 0.85 --slots 180
    replay compare made -p unpert1 -p none+lru
    replay synth spec --drafts 3 --calibration 0.7 --prompt 64 --domains 2 --seed 7
    """
    from replay.synth import Recipe, synthesize
    from replay.units import parse_bytes

    made = synthesize(
        destination,
        Recipe(
            seed=seed, layers=layers, experts=experts, top_k=top_k, sessions=sessions, windows=windows, prompt=prompt,
            popularity=popularity, reuse=reuse or None, drift=drift, domains=domains, domain_overlap=domain_overlap,
            recall=recall, distance=distance, scores=scores, drafts=drafts, draft_p=draft_p, calibration=calibration,
            slots=slots, bonus=bonus, protect=protect, expert_bytes=parse_bytes(expert_bytes),
        ),
        force,
    )  # fmt: skip
    if as_json:
        typer.echo(json.dumps(asdict(made), indent=1))
        return
    typer.echo(f"{made.path}: {made.windows} windows, {made.rows} rows")
    typer.echo(f"next: replay info {shlex.quote(str(made.path))}")
