"""The port to a cluster, the clients behind it, informers and leases."""
