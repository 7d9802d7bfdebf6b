"""The benchmark: workloads in the language of scheduler_perf, run on the whole scheduler.

`catalogue` finds a workload, `language` reads it, `run` carries it out with `ops` on a `stage`,
`measure` watches, `report` tells.  `yardstick` is the bare kernel that rates are compared with.
`stowplan bench` is the way in.
"""
