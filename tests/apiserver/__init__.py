"""The embedded cluster: store, watches, journal, and what a kube-apiserver fills in."""
