"""The loopback socket through which the commands on PATH reach the practice cluster's controller.

One request a connection: four bytes of length, JSON; the answer the same way. Only callers who know the
secret are heard.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import socketserver
import threading
from collections.abc import Callable

from labtui.practice.slurm.call import Answer, Call

MAX_REQUEST = 8 * 2**20


class ControlServer:
    """Listens on 127.0.0.1 and hands each call to `answer(program, call)`."""

    def __init__(self, secret: str, answer: Callable[[str, Call], Answer]) -> None:
        outer = self

        class Handler(socketserver.StreamRequestHandler):
            timeout = 60

            def handle(self) -> None:
                with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
                    outer._serve(self)

        class Server(socketserver.ThreadingTCPServer):
            daemon_threads = True
            allow_reuse_address = False

        self.secret = secret
        self._answer = answer
        self._server = Server(("127.0.0.1", 0), Handler)
        self.port: int = self._server.server_address[1]
        threading.Thread(
            target=self._server.serve_forever, args=(0.5,), name="practice-control", daemon=True
        ).start()

    def _serve(self, handler: socketserver.StreamRequestHandler) -> None:
        length = int.from_bytes(handler.rfile.read(4), "big")
        if not 0 < length <= MAX_REQUEST:
            return
        told = json.loads(handler.rfile.read(length))
        if not hmac.compare_digest(str(told["secret"]), self.secret):
            return
        call = Call(
            words=tuple(told["words"]),
            folder=told["folder"],
            environment=told["environment"],
            stdin=told["stdin"].encode("latin-1"),
        )
        status, out, err = self._answer(told["program"], call)
        data = json.dumps({"status": status, "stdout": out, "stderr": err}).encode()
        handler.wfile.write(len(data).to_bytes(4, "big") + data)

    def close(self) -> None:
        """Stop listening."""
        self._server.shutdown()
        self._server.server_close()
