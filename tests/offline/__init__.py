"""The room `offline`: clusters made of manifests and dumps."""
