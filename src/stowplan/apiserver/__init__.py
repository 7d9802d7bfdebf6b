"""The embedded cluster: object store, watches, journal, and what a kube-apiserver fills in."""
