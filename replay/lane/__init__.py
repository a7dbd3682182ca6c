"""A lane: one policy at one bound, its room, and the numbers that the event loop reads."""
