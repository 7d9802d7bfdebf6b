"""A TCP proxy on loopback whose connections can be cut, all at once and without a word.

What a load balancer that restarts does to watches and to calls under way: requests that passed
have their effect, and nobody hears of it.  TLS passes through untouched.
"""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import threading

CHUNK_BYTES = 65536
RESET_ON_CLOSE = struct.pack("ii", 1, 0)

_Pair = tuple[socket.socket, socket.socket]


class CuttingProxy:
    def __init__(self, target_port: int) -> None:
        self._target = ("127.0.0.1", target_port)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._lock = threading.Lock()
        self._carriers: dict[_Pair, threading.Thread] = {}
        self._swallows = False
        self._acceptor = threading.Thread(target=self._accept, daemon=True)
        self._acceptor.start()

    def swallow_answers(self) -> None:
        """From now on requests pass and answers do not, until the connections are cut."""
        self._swallows = True

    def cut(self) -> int:
        """Reset every connection there is, and say how many there were."""
        self._swallows = False
        with self._lock:
            carriers = dict(self._carriers)
            for pair in carriers:
                _shut_down(pair)
        for thread in carriers.values():
            thread.join()
        return len(carriers)

    def close(self) -> None:
        # Only a shutdown wakes the thread that waits in accept.
        self._listener.shutdown(socket.SHUT_RDWR)
        self._acceptor.join()
        self._listener.close()
        self.cut()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            try:
                server = socket.create_connection(self._target, timeout=5.0)
            except OSError:
                client.close()
                continue
            server.settimeout(None)
            pair = (client, server)
            thread = threading.Thread(target=self._carry, args=(pair,), daemon=True)
            with self._lock:
                self._carriers[pair] = thread
            thread.start()

    def _carry(self, pair: _Pair) -> None:
        with contextlib.suppress(OSError):
            self._copy_both_ways(pair)
        with self._lock:
            # Under the lock: a socket that `cut` shuts down is still the one it means.
            del self._carriers[pair]
            for end in pair:
                end.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
                end.close()

    def _copy_both_ways(self, pair: _Pair) -> None:
        client, server = pair
        with selectors.DefaultSelector() as selector:
            for end in pair:
                selector.register(end, selectors.EVENT_READ)
            while True:
                for key, _ in selector.select():
                    data = key.fileobj.recv(CHUNK_BYTES)  # type: ignore[union-attr]
                    if not data:
                        return
                    if key.fileobj is client:
                        server.sendall(data)
                    elif not self._swallows:
                        client.sendall(data)


def _shut_down(pair: _Pair) -> None:
    """Wakes the thread that carries it, which then closes both ends."""
    for end in pair:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
