"""What the scheduler believes: nodes and pods as the cache counts them, and as columns.

`Cache` takes in what the cluster says and what was decided; `NodeTable` is the snapshot that
plugins read, refreshed from the cache before every decision.
"""
