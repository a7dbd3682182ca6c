"""The event loop. ``frame``: its inputs and outputs; ``move``, ``guess``, ``event``: its parts; ``loop``: the driver."""
