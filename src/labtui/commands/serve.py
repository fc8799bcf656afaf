"""`labtui serve`: the screens in a browser on this computer, through textual-serve; each tab has a process of its own.

Whoever has the address has the screens, so it is hard to come by: the server listens on loopback alone, every path
begins with a random token, and without it there is nothing but 403, for the page, its files and the websocket. Host
and Origin must be the server's own, so that no other page can reach it through the browser.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import secrets
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from labtui.domain.errors import FolderError, UsageError

if TYPE_CHECKING:
    from aiohttp import web

HOST = "127.0.0.1"
LOOK_S = 2.0
LOOK_ONLY = FolderError(
    "This page is read-only: nothing can be changed here.", "`labtui serve --write` lets a page submit, too."
)


def serve_arguments(parser: argparse.ArgumentParser) -> None:
    """Folder, port, and whether pages may change something."""
    parser.add_argument(
        "folder", nargs="?", default=".", metavar="FOLDER", help="the lab folder (default: here or above)"
    )
    parser.add_argument(
        "--port", type=int, default=0, metavar="N", help="the port (default: one that is free)"
    )
    parser.add_argument(
        "--write", action="store_true", help="let the page do what the screens do: submit, cancel, answer"
    )
    parser.add_argument("--screens", action="store_true", help=argparse.SUPPRESS)  # what a page runs


def run_serve(arguments: argparse.Namespace) -> int:
    """Serve until interrupted.

    Raises:
        UsageError: textual-serve is not installed, or the port is taken or none.
        FolderError: no lab folder, or one in which there is nothing to look at.
    """
    from labtui.session.folder import LabFolder, find_folder

    folder = LabFolder.open(find_folder(arguments.folder))
    if arguments.screens:
        return _screens(folder.path, write=arguments.write)
    import importlib.util

    if importlib.util.find_spec("textual_serve") is None:
        raise UsageError(
            "`labtui serve` needs textual-serve, which is not installed here.",
            "`pipx inject labtui textual-serve`, or `uv tool install '.[serve]'` where labtui's own files are.",
        )
    if not arguments.write and not folder.database_path.is_file():
        raise FolderError(
            f"There is nothing to show in {folder.path} yet.",
            "Open it once with `labtui`, or serve it with --write.",
        )
    listener = _listen(arguments.port)
    token = secrets.token_urlsafe(24)
    port = listener.getsockname()[1]
    print(f"http://{HOST}:{port}/{token}/", flush=True)
    print(
        "Open this address in a browser on this computer. Anyone who has it can submit and cancel jobs as you."
        if arguments.write
        else "Open this address in a browser on this computer. It shows what another labtui (or `labtui watch`) stores."
    )
    print("Ctrl+C ends it.", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(screens_command(folder.path, write=arguments.write), token, listener))
    return 0


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except (OSError, OverflowError) as error:
        reason = error.strerror if isinstance(error, OSError) else "there is no such port"
        raise UsageError(
            f"Port {port} cannot be used: {reason}.", "Without --port labtui takes one that is free."
        ) from error


# --------------------------------------------------------------------------- the server


async def _serve(command: str, token: str, listener: socket.socket) -> None:
    from aiohttp import web

    runner = web.AppRunner(await application(command, token, listener.getsockname()[1]), access_log=None)
    await runner.setup()
    over = asyncio.Event()
    with contextlib.suppress(NotImplementedError):  # Windows: Ctrl+C interrupts by itself
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, over.set)
    try:
        await web.SockSite(runner, listener, shutdown_timeout=1.0).start()
        await over.wait()
    finally:
        await runner.cleanup()


async def application(command: str, token: str, port: int) -> web.Application:
    """The web application: textual-serve's own below the token's path, and a guard before everything."""
    from aiohttp import web
    from textual_serve.server import Server

    class Quiet(Server):
        """Prints nothing: the address is said already, and its token belongs in no log."""

        async def on_startup(self, app: web.Application) -> None:
            return

    server = Quiet(command, HOST, port, title="labtui")
    guarded = web.Application(middlewares=[_guard(token, port)])
    guarded.add_subapp(f"/{token}", await server._make_app())
    return guarded


def _guard(token: str, port: int) -> Any:
    """Refuses whatever does not know the token, or comes by way of another page or name."""
    from aiohttp import web

    hosts = {f"{HOST}:{port}", f"localhost:{port}"}
    origins = {"", *(f"http://{host}" for host in hosts)}
    policy = (
        "default-src 'self'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:;"
        f" connect-src 'self' ws://{HOST}:{port}; frame-ancestors 'none'"
    )

    @web.middleware
    async def guard(
        request: web.Request, handler: Callable[[web.Request], Awaitable[web.StreamResponse]]
    ) -> web.StreamResponse:
        first = request.path.split("/", 2)[1]
        known = secrets.compare_digest(first.encode(), token.encode())
        if not known or request.host not in hosts or request.headers.get("Origin", "") not in origins:
            return web.Response(status=403, text="403: this address lacks its token.\n")
        response = await handler(request)
        if not response.prepared:
            response.headers["Content-Security-Policy"] = policy
            response.headers["Referrer-Policy"] = "no-referrer"
            response.headers["Cache-Control"] = "no-store"
        return response

    return guard


# --------------------------------------------------------------------------- what a page runs


def screens_command(folder: Path, *, write: bool) -> str:
    """The command line of one page's process."""
    words = [
        sys.executable,
        "-m",
        "labtui",
        "serve",
        "--screens",
        *(["--write"] if write else []),
        str(folder),
    ]
    return subprocess.list2cmdline(words) if os.name == "nt" else f"exec {shlex.join(words)}"


def _screens(folder: Path, *, write: bool) -> int:
    """The screens, drawn for a page; they end with the server."""
    if "TEXTUAL_DRIVER" not in os.environ:
        raise UsageError("--screens is what a page of `labtui serve` runs.", "Leave it out.")
    from labtui.session.session import Session
    from labtui.tui.app import LabApp
    from labtui.tui.messages import ScreenPrompter

    prompter = ScreenPrompter()
    with Session.open(
        folder, prompter=prompter, start=False, opened_read_only=None if write else LOOK_ONLY
    ) as session:
        threading.Thread(target=_leave_with_the_server, args=(session.close,), daemon=True).start()
        try:
            return LabApp(session, prompter=prompter).run() or 0
        finally:
            prompter.close()


def _leave_with_the_server(close: Callable[[], object]) -> None:
    """A server that was killed cannot end its pages' processes."""
    server = os.getppid()
    while os.getppid() == server:
        time.sleep(LOOK_S)
    try:
        close()
    finally:
        os._exit(129)
