"""Whole days of bad luck from a seed: the real scheduler under virtual time.

`world` puts everything together and runs it; `weather` draws what goes wrong, `network` and
`process` make it go wrong, `users` and `storage` keep the cluster moving.  `invariants` is asked
after every step, `ending` when the faults have stopped.  `python -m tests.simulation --help`.
"""
