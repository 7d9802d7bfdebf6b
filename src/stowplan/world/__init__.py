"""The public face: a whole cluster as one Python object.  `stowplan` re-exports it.

`cluster` is what users hold; it asks `engine` (store, scheduler, controllers, kubelet, time).
`setup` reads how a cluster is to be, `reading` reads files, `dump` and `live` fill a cluster from
elsewhere.  What users get back: `decision` and `history` (what was decided and why), `table`
(columns with names), `listing` (objects), `diff` (two clusters).  `dry_run` is a user of all this.
"""
