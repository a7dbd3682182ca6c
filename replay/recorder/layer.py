"""The hooks of one MoE layer: full ones at its first forward pass, then only those that its reading needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from replay.errors import InputError
from replay.recorder.find import Block
from replay.recorder.reading import Reading, Seen, decide, flat, project
from replay.recorder.topk import watch


class Layer:
    """One MoE layer while it is recorded.

    Parameters
    ----------
    block : Block
    ask : callable
        Called once a pass when the picks are known, with the layer, picks [rows, k], weights (or None) and scores
        [rows, E]; returns None, or picks and weights that the experts are to use instead.
    end : callable
        Called with the layer when its block is done.

    Attributes
    ----------
    index : int
        Its number among the MoE layers, in the order in which they run; -1 until it ran.
    """

    def __init__(self, block: Block, ask: Callable[..., Any], end: Callable[[Layer], None]):
        self.index = -1
        self.block = block
        self.reading: Reading | None = None
        self.norm: Any = None
        self._ask, self._end = ask, end
        self._seen = Seen()
        self._watch: Any = None
        self._asked = self._full = False
        self._normed: list[tuple[Any, Any]] = []
        self._handles: list[Any] = []

    def arm(self, ends: bool) -> None:
        """Put the hooks on: all of them while nothing is decided, then those that are needed.

        Parameters
        ----------
        ends : bool
            Whether the end of the block has to be told.
        """
        if self._handles and not (self._full and self.reading):
            return
        self.disarm()
        reading, block = self.reading, self.block
        self._full = reading is None
        watches = reading is None or reading.watches
        if watches or ends or (reading is not None and reading.picks != "experts"):
            self._hook(block.module.register_forward_pre_hook, self._begin)
            self._hook(block.module.register_forward_hook, self._finish, always_call=True)
        if reading is None or watches or reading.logits == "linear" or not reading.linear:
            self._hook(block.router.register_forward_pre_hook, self._enter_router, with_kwargs=True)
        if reading is None or watches or reading.logits in ("router", "log") or reading.picks == "router":
            self._hook(block.router.register_forward_hook, self._leave_router)
        if block.projection is not block.router and (reading is None or reading.logits == "projection"):
            self._hook(block.projection.register_forward_hook, self._project)
        if reading is None or watches or reading.picks == "experts":
            self._hook(block.experts[0].register_forward_pre_hook, self._enter_experts, with_kwargs=True)
        if ends:
            self._hook(block.experts[-1].register_forward_hook, self._computed)
        if reading is None and block.layer is not None:
            inside = set(block.module.modules()) if block.module is not block.layer else {block.layer}
            for module in set(block.layer.modules()) - inside:
                if all(each.ndim < 2 for each in module.parameters()):
                    self._hook(module.register_forward_hook, self._keep_normed)

    def _hook(self, register: Callable[..., Any], hook: Callable[..., Any], **options: Any) -> None:
        self._handles.append(register(hook, **options))

    def disarm(self) -> None:
        """Take the hooks off."""
        for handle in self._handles:
            handle.remove()
        self._handles = []
        self._unwatch()

    def open(self) -> None:
        """Begin a pass."""
        self._seen = Seen()
        self._normed = []
        self._asked = False

    def _begin(self, module: Any, args: Any) -> None:
        self._start_watch()

    def _start_watch(self) -> None:
        if self._watch is None and (self.reading is None or self.reading.watches):
            self._watch = watch(self.block.count)
            self._watch.__enter__()

    def _unwatch(self) -> None:
        if self._watch is not None:
            self._watch.__exit__(None, None, None)
            self._seen.choices = self._watch.seen
            self._watch = None

    def _enter_router(self, module: Any, args: Any, kwargs: Any) -> None:
        self._start_watch()  # a block whose forward is not what runs, such as a mixture of attention heads
        if self._watch is not None:
            self._watch.in_router = True
        tensors = _tensors([*args, *kwargs.values()])
        self._seen.given = tensors[0] if tensors else None
        self._seen.call = args, kwargs

    def _leave_router(self, module: Any, args: Any, output: Any) -> None:
        self._seen.router = _tensors(output)
        if self._watch is not None:
            self._watch.in_router = False
            if self.reading is not None and self.reading.in_router:
                self._unwatch()

    def _project(self, module: Any, args: Any, output: Any) -> None:
        self._seen.projected = output

    def _keep_normed(self, module: Any, args: Any, output: Any) -> None:
        tensors = _tensors(output)
        if tensors and len(tensors) == 1:
            self._normed.append((module, tensors[0]))

    def _enter_experts(self, module: Any, args: Any, kwargs: Any) -> Any:
        given = dict(enumerate(args)) | kwargs
        self._seen.experts = {key: value for key, value in given.items() if hasattr(value, "dtype")}
        if self._asked:
            return None
        self._unwatch()
        self._decide()
        assert self.reading is not None
        instead = self._tell()
        if instead is None:
            return None
        for key, value in zip((self.reading.pick_at, self.reading.weight_at), instead, strict=True):
            given[key] = value.reshape(given[key].shape).to(given[key].dtype)
        return tuple(given[i] for i in range(len(args))), {name: given[name] for name in kwargs}

    def _finish(self, module: Any, args: Any, output: Any) -> None:
        self._unwatch()
        if output is None:
            return  # the block failed
        if not self._asked:
            self._decide()
            self._tell()
        self._end(self)

    def _computed(self, module: Any, args: Any, output: Any) -> None:
        self._end(self)  # the block's own end, where its forward runs, comes later and counts

    def _decide(self) -> None:
        if self.reading is None:
            self.reading = decide(self.block, self._seen)
            self.norm = self._find_norm()

    def _find_norm(self) -> Any:
        """The module whose output the router was given."""
        given = self._seen.given
        for module, output in reversed(self._normed):
            if given is not None and output.numel() == given.numel():
                if output.data_ptr() == given.data_ptr() or bool(
                    (output.reshape(-1).float() == given.reshape(-1).float()).all()
                ):
                    return module
        return None

    def _tell(self) -> Any:
        """Hand over what this pass picked."""
        if self._asked:
            raise InputError(f"{self.block.path}: ran twice in one forward pass, which a trace cannot hold")
        self._asked = True
        reading, seen = self.reading, self._seen
        assert reading is not None
        if reading.picks == "topk":
            picks, weights = seen.choices[-1].ids, None
        else:
            held: Any = seen.experts if reading.picks == "experts" else seen.router
            if not held:
                raise InputError(f"{self.block.path}: its {reading.picks} did not run in this forward pass")
            picks = held[reading.pick_at]
            weights = None if reading.weight_at is None else held[reading.weight_at]
        width = picks.shape[-1]
        weights = None if weights is None else flat(weights, width)
        return self._ask(self, flat(picks, width), weights, self._scores(seen))

    def _scores(self, seen: Seen) -> Any:
        """Scores of a pass, as the reading says."""
        reading = self.reading
        assert reading is not None
        if reading.chosen and seen.choices:
            return flat(seen.choices[-1].scores, self.block.count)
        return self.logits(seen)

    def logits(self, seen: Seen | None = None) -> Any:
        """Logits of a pass before any bias of the selection.

        Parameters
        ----------
        seen : Seen, optional
            What the hooks saw; of the present pass by default.

        Returns
        -------
        torch.Tensor
            [rows, E].
        """
        reading, seen = self.reading, self._seen if seen is None else seen
        assert reading is not None
        if reading.logits == "projection":
            return flat(seen.projected, self.block.count)
        if reading.logits == "linear":
            return project(self.block, seen.given, reading.wide)
        value = flat(seen.router[reading.logit_at], self.block.count)
        return value.float().log() if reading.logits == "log" else value

    def candidates(self, residual: Any) -> Any:
        """Score a residual stream from an earlier layer with this layer's norm and router.

        Parameters
        ----------
        residual : torch.Tensor
            [.., hidden].

        Returns
        -------
        torch.Tensor
            [rows, E], what :meth:`logits` or the selection's scores would be.
        """
        reading = self.reading
        assert reading is not None
        given = residual if self.norm is None else self.norm(residual)
        if reading.linear and not (reading.chosen and reading.in_router):
            return project(self.block, given, reading.wide)
        return self._ahead(given)

    def _ahead(self, given: Any) -> Any:
        """Run the router itself on ``given`` as it was called in this pass, apart from what is recorded."""
        args, kwargs = self._seen.call
        now = self._seen.given
        given = given.reshape(now.shape).to(now.dtype)
        args = tuple(given if each is now else each for each in args)
        kwargs = {name: given if each is now else each for name, each in kwargs.items()}
        kept, self._seen = self._seen, Seen(given=given)
        try:
            with (watched := watch(self.block.count)):
                self._seen.router = _tensors(self.block.router.forward(*args, **kwargs))
            self._seen.choices = watched.seen
            return self._scores(self._seen)
        finally:
            self._seen = kept


def _tensors(output: Any) -> list[Any]:
    """Tensors of a module's output or arguments, in order."""
    items = output if isinstance(output, (tuple, list)) else [output]
    return [each for each in items if hasattr(each, "dtype") and hasattr(each, "shape")]
