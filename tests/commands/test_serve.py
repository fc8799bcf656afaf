"""The screens in a browser: nobody comes in without the token, and a page that may only look changes nothing."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from labtui.commands.cli import main
from tests.tui.replay import lab_session, make_folder, open_session

aiohttp = pytest.importorskip("aiohttp")
pytest.importorskip("textual_serve")
pytestmark = pytest.mark.timeout(900)


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    make_folder(tmp_path / "lab")
    with open_session(tmp_path / "lab") as session:
        lab_session(session)
    return tmp_path / "lab"


def start(lab: Path, *more: str) -> tuple[subprocess.Popen[str], str]:
    """A running server and its address."""
    environment = {**os.environ, "XDG_CONFIG_HOME": str(lab.parent / "config"), "PYTHONUNBUFFERED": "1"}
    process = subprocess.Popen(
        [sys.executable, "-m", "labtui", "serve", str(lab), *more],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    return process, process.stdout.readline().strip()


@pytest.fixture
def address(lab: Path) -> Iterator[str]:
    process, started = start(lab)
    yield started
    process.terminate()
    assert process.wait(20) == 0


def children(pid: int) -> list[int]:
    path = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(word) for word in path.read_text().split()] if path.exists() else []


def gone(pids: list[int]) -> None:
    """Wait until these processes have ended."""
    late = time.monotonic() + 160
    while any(
        Path(f"/proc/{pid}").exists() and " Z " not in Path(f"/proc/{pid}/stat").read_text() for pid in pids
    ):
        assert time.monotonic() < late
        time.sleep(0.2)


async def test_without_the_token_there_is_nothing(address: str) -> None:
    found = re.fullmatch(r"(http://127\.0\.0\.1:(\d+))/([\w-]{32})/", address)
    assert found is not None
    site, port, token = found.groups()
    wrong = token[:-1] + ("a" if token[-1] != "a" else "b")
    async with aiohttp.ClientSession() as client:

        async def status(path: str, **headers: str) -> int:
            async with client.get(f"{site}{path}", headers=headers) as answer:
                return int(answer.status)

        for path in ("/", "/ws", "/static/js/textual.js", "/download/x", f"/{wrong}/", f"/{wrong}/ws", "//"):
            assert await status(path) == 403, path
        assert await status(f"/{token}/") == 200
        assert await status(f"/{token}/static/js/textual.js") == 200
        assert await status(f"/{token}/", Host="evil.example") == 403
        assert await status(f"/{token}/", Origin="http://evil.example") == 403
        for path, headers in (
            ("/ws", {}),
            (f"/{wrong}/ws", {}),
            (f"/{token}/ws", {"Origin": "http://evil.example"}),
        ):
            with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
                await client.ws_connect(f"{site}{path}", headers=headers)
            assert refused.value.status == 403
        async with client.get(address) as answer:
            page = await answer.text()
            assert f"ws://127.0.0.1:{port}/{token}/ws" in page
            assert answer.headers["Referrer-Policy"] == "no-referrer"


async def look(websocket: Any, wanted: bytes) -> bytes:
    """Everything that is drawn until `wanted` is among it."""
    drawn = b""
    async with asyncio.timeout(90):
        async for message in websocket:
            drawn += message.data if isinstance(message.data, bytes) else message.data.encode()
            if wanted in re.sub(rb"\x1b\[[0-9;?]*[A-Za-z]", b"", drawn):
                return drawn
    raise AssertionError(drawn[-2000:])


async def test_a_page_that_may_only_look_shows_everything_and_changes_nothing(
    lab: Path, address: str
) -> None:
    async with (
        aiohttp.ClientSession() as client,
        client.ws_connect(f"{address}ws?width=120&height=40", origin=address.rsplit("/", 2)[0]) as page,
    ):
        await look(page, b"read-only")
        await page.send_json(["stdin", "p"])
        await look(page, b"This page is read-only")
        await page.send_json(["stdin", "e"])
        with open_session(lab) as session:  # the folder is nobody's: a labtui in the terminal may write it
            assert not session.read_only
            assert len(session.state.runs) == 5
        await page.send_json(["stdin", "q"])
        async with asyncio.timeout(60):
            async for _ in page:
                pass


async def test_with_write_the_page_has_the_folder_and_a_killed_server_leaves_nothing(lab: Path) -> None:
    process, address = start(lab, "--write")
    async with (
        aiohttp.ClientSession() as client,
        client.ws_connect(f"{address}ws?width=120&height=40") as page,
    ):
        await look(page, b"Tasks")
        with open_session(lab, start=False) as session:
            assert session.read_only
        left = children(process.pid)
        process.kill()
        process.wait(20)
        await asyncio.to_thread(gone, left)


def test_what_cannot_be_served_is_a_sentence_and_a_hint(
    lab: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TEXTUAL_DRIVER", raising=False)
    make_folder(tmp_path / "fresh")
    for words, started in (
        ([str(tmp_path / "fresh")], "nothing to show"),
        ([str(lab), "--port", "99999"], "99999"),
        ([str(lab), "--screens"], "--screens"),
        ([str(tmp_path)], "not a lab folder"),
    ):
        assert main(["serve", *words]) == 2
        err = capsys.readouterr().err
        assert started in err and "hint:" in err
    import importlib.util

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert main(["serve", str(lab)]) == 2
    hint = capsys.readouterr().err
    assert "pipx inject labtui textual-serve" in hint
    assert "'.[serve]'" in hint and "labtui[serve]" not in hint  # labtui is installed from its folder
