"""The recorder: a context in which a model's forward passes become a trace."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from replay.errors import InputError
from replay.recorder import provenance
from replay.recorder.ahead import Ahead
from replay.recorder.arena import Emulation
from replay.recorder.assisted import watch_drafter
from replay.recorder.find import Block, find_blocks
from replay.recorder.forward import Forward, Gather, unpadded
from replay.recorder.layer import Layer, Stage
from replay.recorder.loop import Loop
from replay.recorder.option import Options
from replay.recorder.rows import Rows
from replay.recorder.session import Sessions
from replay.recorder.spool import Spool
from replay.recorder.stopwatch import Stopwatch
from replay.recorder.topk import unwrap_topk, wrap_topk
from replay.recorder.weigh import Formula, learn_of

FLUSH_WINDOWS = 256
FLUSH_BYTES = 16 * 2**20
FLUSH_SECONDS = 2.0


class Recorder:
    """Records a model's forward passes; made by :func:`replay.record`.

    Attributes
    ----------
    path : Path
        The trace's folder, there once the block ended well.
    blocks : list of Block
        The MoE layers found; after the first window, in the order in which they run.
    windows : int
        Windows recorded so far.
    sessions : Sessions
        ``session(domain)`` and ``phase(name)`` say what the rules cannot see.
    counts : Counter
        What was dropped or has to be known, by reason.
    """

    def __init__(self, model: Any, path: Any, options: Options, force: bool = False):
        if options.distance < 0:
            raise InputError(
                f"distance is {options.distance}; expected 1 or more layers, or 0 for no candidates"
            )
        self.model = model
        self.path = Path(path)
        self.options = options
        self.windows = 0
        self.sessions = Sessions(options.domain)
        self.counts: Counter[str] = Counter()
        self.blocks: list[Block] = find_blocks(model, options.bits_per_weight)
        self._spool = Spool(path, force)
        self._stage = Stage()
        self._layers = [Layer(block, self._ask, self._end, self._stage) for block in self.blocks]
        arena = options.arena
        self._emulation = None if arena is None else Emulation(arena, len(self.blocks), self.blocks[0].count)
        self._loop = Loop(self._emulation) if self._emulation and arena and arena.steers else None
        self._watch = Stopwatch(next(model.parameters()).device.type)
        self._rows = Rows()
        self._handles: list[Any] = []
        self._settled = False
        self._opened = self._layers
        self._gather = Gather(
            options.prefill_scores, options.distance, self._emulation, self._watch, self.counts
        )
        self._last: tuple[int, int, bool] | None = None
        self._flushed = time.monotonic()
        self._top_k = 0
        self._weighed: set[str] = set()
        self._weight_types: set[str] = set()

    def session(self, domain: str | None = None) -> AbstractContextManager[None]:
        """Put the block's passes in one new session; see :meth:`Sessions.session`."""
        return self.sessions.session(domain)

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Say the phase of the block's passes; see :meth:`Sessions.phase`."""
        return self.sessions.phase(name)

    def __enter__(self) -> Recorder:
        model = self.model
        wrap_topk()
        self._handles = [
            model.register_forward_pre_hook(self._open, with_kwargs=True),
            model.register_forward_hook(self._close, always_call=True),
        ]
        for source in {id(block.layer): block.layer for block in self.blocks}.values():
            if source is not None and self.options.distance:
                self._handles.append(source.register_forward_hook(self._keep_residual))
        if hasattr(model, "generate"):
            model.generate = self.sessions.wrap(model.generate)
        if hasattr(model, "_get_candidate_generator"):
            model._get_candidate_generator = watch_drafter(model._get_candidate_generator, self._round)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        for handle in self._handles:
            handle.remove()
        for layer in self._layers:
            layer.disarm()
        for name in ("generate", "_get_candidate_generator"):
            vars(self.model).pop(name, None)
        try:
            if problem is not None:
                self._leave_partial(problem)
                return
            if not self.windows:
                raise InputError(
                    f"{self.path}: not written: no forward pass of the model ran inside the block"
                )
            self.flush()
        finally:
            unwrap_topk()
        self._spool.finish(self._meta())

    def _leave_partial(self, problem: BaseException) -> None:
        """Keep what is whole, and say where it is."""
        try:
            self.flush()
        except Exception as other:  # the first problem is the one to tell
            problem.add_note(f"what was recorded last could not be kept: {other}")
        self._spool.close()
        if self._spool.flushes:
            problem.add_note(
                f"what was recorded before is in {self._spool.folder}; `replay recover` makes a trace of it"
            )

    def _open(self, module: Any, args: Any, kwargs: Any) -> None:
        """A forward pass begins."""
        due = len(self._rows.windows) >= FLUSH_WINDOWS or self._rows.nbytes >= FLUSH_BYTES
        if due or (self._rows.windows and time.monotonic() - self._flushed > FLUSH_SECONDS):
            self.flush()
        if not self._settled:
            for layer in self._layers:
                layer.arm(self.options.timing)
            self._settled = all(layer.reading is not None for layer in self._layers)
            self._opened = [layer for layer in self._layers if not layer.plain]
        for layer in self._opened:
            layer.open()
        given = kwargs.get("input_ids", args[0] if args else None)
        given = kwargs.get("inputs_embeds") if given is None else given
        if given is None:
            raise InputError(
                "the model was called without input_ids or inputs_embeds; nothing to count rows by"
            )
        batch, tokens = given.shape[:2]
        count = len(self._layers)
        prefill = self.sessions.enter(tokens, kwargs)
        self._stage.now = Forward(
            self.windows,
            self.sessions.current,
            self.sessions.domain,
            prefill,
            unpadded(kwargs.get("attention_mask"), batch, tokens),
            [None] * count,
            [None] * count,
            [None] * count,
            [None] * count,
            [None] * count,
        )
        if self.options.timing:
            self._stage.now.start = self._watch.mark()
            self._stage.now.asked, self._stage.now.ended = [None] * count, [None] * count

    def _ask(self, layer: Layer, picks: Any, weights: Any, scores: Any) -> Any:
        """A layer has picked."""
        now = self._stage.now
        if now is None:
            return None
        if layer.index < 0:
            layer.index = 1 + max(each.index for each in self._layers)
        i = layer.index
        instead = None
        before = self._watch.mark() if now.asked else None
        if self._loop is not None:
            picks, weights, scores, now.events[i] = self._loop.steer(
                layer, now.number, picks, weights, scores, now.keep
            )
            instead = picks, weights
        now.picks[i], now.weights[i] = picks, weights
        now.scores[i] = scores if self._loop is not None else scores.clone()
        if layer.reading is not None and (layer.reading.chosen or layer.reading.fixed):
            now.logits[i] = layer.logits().clone()
        if now.asked:
            now.asked[i] = before, self._watch.mark()
        return instead

    def _end(self, layer: Layer) -> None:
        """A layer's block is done."""
        if self._stage.now is not None and self._stage.now.ended:
            self._stage.now.ended[layer.index] = self._watch.mark()

    def _keep_residual(self, module: Any, args: Any, output: Any) -> None:
        now = self._stage.now
        if now is None or (now.prefill and not self.options.prefill_scores):
            return
        value = output[0] if isinstance(output, (tuple, list)) else output
        now.residuals[id(module)] = value if self._gather.copies is False else value.detach().clone()
        if self._gather.copies is None:
            now.originals[id(module)] = value

    def _close(self, module: Any, args: Any, output: Any) -> None:
        """A forward pass is done, or failed (no output): then it is forgotten."""
        now, self._stage.now = self._stage.now, None
        if now is None or output is None:
            return
        if any(each is None for each in now.picks):
            self.counts["windows without all layers, left out"] += 1
            return
        import torch

        if not self._settled:
            self._learn(now)
        with torch.no_grad():
            window = self._gather.window(now)
        if window is None:
            self.counts["windows of padding only, left out"] += 1
            return
        self._rows.add(window)
        self._top_k = window.picks.shape[2]
        self._last = now.number, len(window.picks), now.prefill
        self.windows += 1

    def _learn(self, now: Forward) -> None:
        """After the first pass: the layers' order, and what the passes to come can leave out."""
        self._layers.sort(key=lambda layer: layer.index)
        self.blocks = [layer.block for layer in self._layers]
        self._gather.fixed = [layer.index for layer in self._layers if layer.reading and layer.reading.fixed]
        if self._loop is not None:
            found: list[Formula | None] = [self._loop.formulas[layer.index] for layer in self._layers]
        elif all(each is not None for each in now.weights):
            own = zip(now.logits, now.scores, now.picks, now.weights, strict=True)
            found = [learn_of(b if a is None else a, picks, weights) for a, b, picks, weights in own]
        else:
            found = []
        for layer, formula in zip(self._layers, found, strict=False):
            reading = layer.reading
            of = ", of the column logits" if reading and (reading.chosen or reading.fixed) else ""
            self._weighed.add("unknown" if formula is None else f"{formula}{of}")
            kind = "float32" if self._loop is not None else str(now.weights[layer.index].dtype)
            self._weight_types.add(kind.removeprefix("torch."))
        if self._loop is None and not self.options.timing:
            for layer in self._layers:
                layer.learn()
        if self.options.distance:
            self._gather.ahead = Ahead(self._layers, self.options.distance)
        for layer in self._layers:
            layer.normed = None, None

    def drafts(self, p: Sequence[float], matched: int) -> None:
        """Record the drafts that the last window verified: draft j is its row j + 1.

        Parameters
        ----------
        p : sequence of float
            Probability that the draft head gave each.
        matched : int
            How many of them, from the first on, the model took.

        Raises
        ------
        InputError
            No decode window, or one without so many rows.
        """
        if self._last is None or self._last[2] or self._last[1] < len(p) + 1:
            raise InputError(
                f"drafts: expected a decode window of {len(p) + 1} rows before, found {self._last}"
            )
        window = self._last[0]
        self._rows.drafts += [(window, step, float(each), step < matched) for step, each in enumerate(p)]

    def _round(self, p: list[float] | None, count: int, matched: int) -> None:
        """A round of assisted generation is done."""
        if not count:
            return
        if self._last is None or self._last[2]:
            self.counts["drafts verified in a prefill window, left out"] += count
        elif p is None or self._last[1] != count + 1:
            self.counts["drafts without a probability, left out"] += count
        else:
            self.drafts(p, matched)

    def flush(self) -> None:
        """Write what waits."""
        self._flushed = time.monotonic()
        if not self._rows.windows:
            return
        self._gather.score(self._rows.windows)
        first = self._spool.flushes == 0
        batches = self._rows.batches(self.options.scores, self.options.distance > 0)
        if "experts" in (extra := self._experts()):
            batches["experts"] = extra["experts"] if first else extra["experts"].slice(0, 0)
        self._spool.write(self._meta(), batches)

    def _experts(self) -> dict[str, Any]:
        """The table ``experts``, where sizes differ."""
        import pyarrow as pa

        sizes = np.array([block.bytes for block in self.blocks], np.uint64)
        if len(np.unique(sizes)) == 1:
            return {}
        layer, expert = np.indices(sizes.shape).reshape(2, -1)
        columns = {
            "layer": layer.astype(np.uint16),
            "expert": expert.astype(np.uint16),
            "bytes": sizes.ravel(),
        }
        return {"experts": pa.record_batch({name: pa.array(values) for name, values in columns.items()})}

    def _meta(self) -> dict[str, Any]:
        options = self.options
        meta: dict[str, Any] = {
            "model": provenance.model_section(self.model, options.name, self.blocks, self._top_k)
        }
        sizes = {each for block in self.blocks for each in block.bytes}
        if len(sizes) == 1:
            meta["expert_bytes"] = sizes.pop()
        ranking = self._rows.ranking
        counts = dict(self.counts) | {
            "rows whose picks did not come in the order of their scores, sorted": ranking.unsorted,
            "rows with a score raised by the smallest step, as a pick lost its tie": ranking.raised,
            "rows whose picks the scores do not explain": ranking.unexplained,
        }
        return meta | {
            "router": provenance.router_section(options.arena, self._weighed, self._weight_types),
            "policy": provenance.policy_section(options.arena),
            "engine": provenance.engine_section(self.model),
            "source": provenance.source_section(
                options.licence, [*options.notes, *provenance.notes_of(self._layers, options)], counts
            ),
        }
