"""Traces and what is done with them: nodes and pods over time, read, written, cut and made up.

`trace.py` has the type that everything here passes around: a trace in columns.  `files.py` finds
the reader of a file and writes the format of our own; `docs/traces.md` describes it.

`simulate.py` runs a trace: `run.py` is one run, `record.py` what is noted on the way, `measures.py`
what it comes to, `results.py` the folder, `report.py` the page.
"""
