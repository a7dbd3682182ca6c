"""What a reader of an imported trace has to know, in words: each trap of the source with its share."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replay.importers.routed.survey import Survey
from replay.importers.routed.window import Figures, Shape
from replay.units import spans

if TYPE_CHECKING:
    from replay.importers import Request
    from replay.importers.routed.log import Log

_APART = 0.01  # how far from 1 a sum of weights is remarked


def share(count: int, total: int) -> str:
    """Write a count with its share.

    Parameters
    ----------
    count, total : int
        ``total`` is above 0.

    Returns
    -------
    str

    Examples
    --------
    >>> share(3, 200)
    '3 of 200 (1.5%)'
    """
    return f"{count} of {total} ({100 * count / total:.1f}%)"


def remarks(log: Log, survey: Survey, shape: Shape, figures: Figures, request: Request) -> list[str]:
    """Say what was found.

    Parameters
    ----------
    log : Log
        The source, read twice.
    survey : Survey
        What it holds.
    shape : Shape
        What its windows share.
    figures : Figures
        What was written and left out.
    request : Request
        What was said of it.

    Returns
    -------
    list of str
        One remark each.
    """
    return [
        *log.remarks(),
        *_not_said(log, survey, shape, request),
        *_missing(log, survey, shape, figures),
        *_order(survey),
        *_weights(survey),
        *_steps(log, survey, figures),
    ]


def _not_said(log: Log, survey: Survey, shape: Shape, request: Request) -> list[str]:
    """Say what stands in for what nobody said."""
    notes = []
    stated = request.experts or log.experts
    if stated is None:
        notes.append(
            f"the number of experts is not stated: {shape.experts}, the largest id and one; give --experts if there "
            "are more"
        )
    if (request.top_k or log.top_k) is None:
        notes.append(f"top-k is not stated: {shape.top_k}, the longest list")
    elif survey.widest < shape.top_k:
        notes.append(f"top-{shape.top_k} is stated, the longest list has {survey.widest} picks")
    if (request.expert_bytes or log.expert_bytes) is None:
        notes.append(
            "the size of an expert is not known: 1 byte stands for it, so bytes count experts; give --expert-bytes"
        )
    if log.ordinals and not survey.dense_layers():
        notes.append("layers are counted without the dense ones; their numbers in the model are not known")
    return notes


def _missing(log: Log, survey: Survey, shape: Shape, figures: Figures) -> list[str]:
    notes = []
    dense = survey.dense_layers()
    if dense:
        kind = "zero-filled or -1" if log.zero_filled else "empty or -1"
        notes.append(f"layers {spans(dense)} never route ({kind} in every row): taken for dense, left out")
    nulls = sum(survey.nulls.values())
    if nulls:
        written = ", ".join(map(str, sorted(survey.nulls)))
        notes.append(f"{share(nulls, nulls + survey.picks)} picks are no expert ({written}): left out")
    if survey.zeros:
        lists = int(survey.lists.sum())
        notes.append(
            f"{share(survey.zeros, lists)} lists are zero-filled (every pick 0): taken for not written"
        )
    for layer, count in sorted(figures.empty.items()):
        notes.append(
            f"layer {shape.layer_ids[layer]} has no list in {share(count, figures.rows)} rows: empty ones stand there"
        )
    if figures.short:
        notes.append(f"{figures.short} lists have fewer than {shape.top_k} picks")
    return notes


def _order(survey: Survey) -> list[str]:
    if survey.several and survey.ascending == survey.several:
        return ["the ids of every list ascend: they were sorted, and the rank is lost"]
    return []


def _weights(survey: Survey) -> list[str]:
    if not survey.weighed:
        return []
    notes = [
        "weights are of the selected experts only, kept as written: no policy that needs candidates or router "
        "scores can use them"
    ]
    if survey.unweighed:
        notes.append(
            f"{share(survey.unweighed, survey.weighed)} lists have a weight that is no number: left without"
        )
    if survey.least < 1 - _APART or survey.most > 1 + _APART:
        notes.append(f"weights of a list sum to {survey.least:.3g} to {survey.most:.3g}: not renormalised")
    if survey.unordered:
        notes.append(
            f"{share(survey.unordered, survey.weighed)} lists have weights that rise with the rank: ranked by other "
            "scores (a selection bias), or the rank is lost"
        )
    return notes


def _steps(log: Log, survey: Survey, figures: Figures) -> list[str]:
    notes = []
    if survey.first is not None and survey.first > log.begins_at:
        notes.append(f"the source begins at position {survey.first}: what came before is not in it")
    if not log.phased and survey.unphased and not log.request.prompt:
        notes.append(
            "prompt and generated tokens are not told apart: windows have no phase (more than 8 rows then mean prefill)"
        )
    if figures.several:
        notes.append(f"{figures.several} windows of several rows have no phase")
    if figures.merged:
        notes.append(f"{figures.merged + 1} prompt rows came one by one: those of one prompt are one window")
    if figures.split:
        notes.append(f"prompts were cut into windows of at most 65535 rows, {figures.split} times")
    return notes
