"""The same devices as kube-scheduler's: cases played before it and before `stowplan run`.

`cases_*` are the cases, each a function that changes a cluster and waits for what follows;
`stage` is what they act on; `seen` is what of it can be seen from outside, made comparable.
`tests/e2e/test_same_devices.py` runs them; by hand, some or all of them:

    python -m tests.e2e.devices [NAME ...]
"""
