"""The event log: what a residency pass did, in order, for a clock to lay time over.

A log is an int64 array of rows ``(OP, ARG)``; it covers whole windows.

===========  =========  ======================================================================
op           arg        what happens
===========  =========  ======================================================================
OP_WINDOW    window     a window starts
OP_ISSUE     key        a read-ahead read is queued now (key = layer * experts + expert)
OP_EVENT     layer      an event begins: its ``pre`` passes
OP_CLAIM     key        the event wants this read-ahead read
OP_DEMAND    key        the event needs a demand read of its own, as often as it is named
OP_RETIRE    key        this read-ahead read retires at the event, unwanted or reclaimed
OP_ASK       layer      the event's reads are all named, in any order: it asks, waits, computes
OP_FREE      layer      after the event: the generation retired at the event before is freed;
                        after every event in split mode
===========  =========  ======================================================================
"""

OP_WINDOW, OP_ISSUE, OP_EVENT, OP_CLAIM, OP_DEMAND, OP_RETIRE, OP_ASK, OP_FREE = range(8)
