"""The event loop: ``frame`` (in and out), ``move``, ``guess``, ``event`` (its parts), ``loop`` (the driver)."""
