"""Read-ahead policies: one file each, a line each here (name: module). Nothing heavy is imported.

A policy's file holds its declaration ``POLICY``, and where it needs them

- ``ranking(values)``: the rule that ranks a row's candidates (:mod:`replay.predict.ranking`);
- ``picks(options, top_k)``: how many raw candidates of a row it ranks, without such a rule;
- ``words(shape, options)`` and ``setup(m, shape, options)``: words of the arena's memory in which it remembers past
  events (at ``m[PAST]``), and what to write there first;
- ``lay(options, shape)`` and ``ask``: its own admission of its guesses, as a gate's (:mod:`replay.gate`);
  ``notes(own)`` remarks on a finished run from its words.
"""

POLICIES: dict[str, str] = {
    "none": "replay.predict.none",
    "unpert1": "replay.predict.unpert1",
    "unpert0": "replay.predict.unpert0",
    "route": "replay.predict.route",
    "oracle": "replay.predict.oracle",
    "previous": "replay.predict.previous",
    "stmoe": "replay.predict.stmoe",
    "finemoe": "replay.predict.finemoe",
    "seqmoe": "replay.predict.seqmoe",
}
