"""Traces and what is done with them: nodes and pods over time, read, written, cut and made up.

`trace.py` has the type that everything here passes around: a trace in columns.  `files.py` finds
the reader of a file: `format.py` (our own), `csv_tables.py` with `mapping.py`, `audit.py`,
`simkube.py`; `building.py` is what readers share.  `transform.py` and `synthesise.py` make traces
of traces, `summary.py` says what one is like.  `docs/traces.md` describes the format.

`simulate.py` runs a trace: `run.py` is one run, `record.py` what is noted on the way, `measures.py`
what it comes to, `results.py` the folder, `report.py` the page.  `sweep.py`
makes many configurations of one.
"""
