"""Every table declared once: what a trace holds and what a run writes.

The reader, the writer, ``replay schema`` and the files in ``schemas/`` all come from these declarations
(:data:`replay.schema.trace.TRACE`, :data:`replay.schema.result.RESULT`). They import nothing of ours.
"""
