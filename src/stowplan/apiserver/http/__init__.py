"""The Kubernetes REST API over the embedded store, for kubectl and any other client.

A request passes `app` (who asks, is it well formed), `paths` (what is meant), and then `reads`,
`writes` or `watch_stream`; `negotiation` and `encoding` decide what the answer looks like.
"""

from stowplan.apiserver.http.app import Api
from stowplan.apiserver.http.auth import Authenticator
from stowplan.apiserver.http.server import HttpServer

__all__ = ["Api", "Authenticator", "HttpServer"]
