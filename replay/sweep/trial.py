"""Whether a policy can be played on a trace: asked while a study is planned, so that nothing is begun in vain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from replay.arena.bound import Bound
from replay.comparison.candidate import Builder, refusal
from replay.declare.semantics import Routes
from replay.errors import InputError
from replay.learning.price import asks_budget, with_price
from replay.prepare.training import teach
from replay.spec.grammar import PolicySpec
from replay.spec.resolve import resolve
from replay.sweep.file import File, at_places


@dataclass
class Trial:
    """The policies of a study on one of its traces.

    Attributes
    ----------
    builder : Builder
        Of the trace.
    """

    builder: Builder
    _tried: dict[str, str | None] = field(default_factory=dict)

    def refusal(self, spec: PolicySpec, routes: Routes, bound: Bound, files: Sequence[File]) -> str | None:
        """Why a policy cannot be played, or None where it can.

        Parameters
        ----------
        spec : PolicySpec
        routes : Routes
        bound : Bound
        files : sequence of File
            What it plays with.
        """
        reason = refusal(spec, routes, self.builder.trace, bound)
        if reason is not None:
            return reason
        if spec.text not in self._tried:
            self._tried[spec.text] = None
            try:
                self._try(spec, routes, bound, files)
            except InputError as problem:
                self._tried[spec.text] = str(problem).removeprefix(f"policy {spec.text}: ")
        return self._tried[spec.text]

    def _try(self, spec: PolicySpec, routes: Routes, bound: Bound, files: Sequence[File]) -> None:
        """Raise what is wrong with its draft retention, its files, or what it is to learn from."""
        builder = replace(self.builder)
        used, _ = builder.rows(spec)
        places = {file.name: file.place for file in files if not file.policy}
        policy = resolve(at_places(spec, places), builder.trace.meta)
        priced = with_price(policy, 0.0, "") if asks_budget(policy) else policy
        teach(builder.trace, [builder.entry(priced, routes, used, bound, False).lane])
