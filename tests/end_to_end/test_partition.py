"""Tests of the network that can be interrupted."""

import asyncio
from pathlib import Path

from tests.end_to_end.partition import partition

_NAME = ".s.PGSQL.5432"
_CLIENTS = 20


async def test_bytes_pass_in_both_directions(quick_folder: Path) -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(await reader.readline())
        await writer.drain()
        writer.close()

    server = quick_folder / "echo"
    server.mkdir(exist_ok=True)
    async with (
        await asyncio.start_unix_server(echo, server / _NAME),
        partition(quick_folder, [server]) as (
            between,
            places,
        ),
    ):
        reader, writer = await asyncio.open_unix_connection(f"{places[str(server)]}/{_NAME}")
        writer.write(b"asked\n")
        assert await reader.read() == b"asked\n"
        writer.close()
        assert between.connections == 1


async def test_clients_of_a_stopped_server_are_disconnected_or_refused(quick_folder: Path) -> None:
    async def ask(place: str, turns: int = 0) -> bytes:
        for _ in range(turns):
            await asyncio.sleep(0)
        try:
            reader, writer = await asyncio.open_unix_connection(f"{place}/{_NAME}")
        except ConnectionRefusedError:
            return b""
        try:
            return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    # Each client arrives one turn of the event loop later, so that some do so while the first one is ended.
    gone = quick_folder / "gone"
    async with partition(quick_folder, [gone]) as (between, places):
        answers = await asyncio.gather(*(ask(places[str(gone)], turns) for turns in range(_CLIENTS)))
        assert answers == [b""] * _CLIENTS
        assert await ask(places[str(gone)]) == b""
        assert between.connections == 0
