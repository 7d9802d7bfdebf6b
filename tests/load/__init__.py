"""The embedded cluster under load: `stowplan up` as a process, and clients good and bad.

`python -m tests.load` runs hundreds of clients for a minute, half of them slow or hostile, and
prints what the honest half got.  `python -m tests.load.soak` lets pods and nodes come and go for
half an hour and watches the memory.  Both end with a verdict and an exit code.

Where to read on: `target` is the process, `honest` and `hostile` are the clients, `running` puts
them together.  The tests here are small versions with the same verdicts.
"""
