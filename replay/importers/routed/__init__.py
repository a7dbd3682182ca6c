"""Routed lists: what an engine's log says row after row and layer after layer, on its way to a trace.

A format's file makes :class:`~replay.importers.routed.cells.Cells` of its source; cleaning, the cut into forward
steps, the tables and the account of what is missing are the same for all.
"""
