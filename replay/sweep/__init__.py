"""Sweeps: traces x policies x bounds x clocks x seeds, a cell each, on one machine or on a Dask cluster.

A study file (:mod:`replay.sweep.study`) becomes cells (:mod:`replay.sweep.plan`), each named by a hash of all that
its figures depend on, the files that its policy plays with included (:mod:`replay.sweep.file`). Cells of one trace are
played together in passes (:mod:`replay.sweep.task`): one read feeds many lanes. A driver (:mod:`replay.sweep.drive`)
hands passes to this process, to local processes or to a cluster (:mod:`replay.sweep.cluster`), and keeps every finished
cell as one Parquet file (:mod:`replay.sweep.folder`); a cell that is there is not played again.
"""
