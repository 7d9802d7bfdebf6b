"""The room `state`: cache, node table, counts."""
