"""The same requests to kube-apiserver and to the embedded server: do they answer the same?

`vocabulary` has an object of every served kind and the values that its fields are tried with,
`grammar` makes sequences of requests out of them from a seed, `sides` sends one sequence to both
servers, `comparing` takes out of the answers what must differ (uids, times, versions).

    python -m tests.e2e.differential --seed 7 --requests 500

starts both, prints the agreement per class of request, and every answer that differs.
"""
