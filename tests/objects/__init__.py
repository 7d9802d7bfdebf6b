"""The room `objects`: structs, quantities, selectors, requests, manifests."""
