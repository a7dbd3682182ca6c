"""The clock: the disk, the log it lays time over, how fast both are, and the plan that gates may know."""
