"""Read-ahead policies: one file each, a line each here (name: module). Nothing heavy is imported."""

POLICIES: dict[str, str] = {
    "none": "replay.predict.none",
    "unpert1": "replay.predict.unpert1",
    "unpert0": "replay.predict.unpert0",
    "route": "replay.predict.route",
    "oracle": "replay.predict.oracle",
    "previous": "replay.predict.previous",
    "stmoe": "replay.predict.stmoe",
    "finemoe": "replay.predict.finemoe",
}
