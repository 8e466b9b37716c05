"""Load for a service on this machine: clients that ask one query after the other, or queries at a fixed rate.

Connections are kept open, and answers are read but not parsed, since clients and server share their cores.
"""

import asyncio
import contextlib
import re
import time
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from urllib.parse import urlsplit

MOST_ASKED = 400
"""Maximum number of open queries at a fixed rate; a further one counts as not sent."""
PATIENCE = 60.0
"""A query without an answer after this many seconds counts as failed."""


@dataclass(frozen=True)
class Asked:
    """One query and its outcome."""

    status: str
    """The HTTP status, ``503 without Retry-After``, ``failed`` or ``not sent``."""
    seconds: float
    text: str = ""


@dataclass
class Client:
    """One connection to the SPARQL endpoint, opened when it is needed and kept."""

    address: str
    _streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = field(default=None, init=False)

    async def ask(self, text: str, due: float | None = None) -> Asked:
        """Asks one query with predictions and reads the whole answer; the time counts from ``due`` (``time.perf_counter``) or from now."""
        began = time.perf_counter() if due is None else due
        try:
            async with asyncio.timeout(PATIENCE):
                status = await self._status(text.encode())
        except (OSError, EOFError, TimeoutError):
            status = "failed"
            await self.close()
        return Asked(status, time.perf_counter() - began, text)

    async def close(self) -> None:
        """Closes the connection."""
        if self._streams is not None:
            (_, writer), self._streams = self._streams, None
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _status(self, body: bytes) -> str:
        kept = self._streams is not None
        try:
            return await self._exchange(body)
        except (OSError, EOFError):
            if not kept:
                raise
        await self.close()  # the service closes idle connections, which is not a failure
        return await self._exchange(body)

    async def _exchange(self, body: bytes) -> str:
        place = urlsplit(self.address)
        self._streams = self._streams or await asyncio.open_connection(place.hostname, place.port)
        reader, writer = self._streams
        writer.write(
            f"POST /sparql?predicted=true HTTP/1.1\r\nHost: {place.netloc}\r\nContent-Type: application/sparql-query\r\n"
            f"Accept: application/sparql-results+json\r\nContent-Length: {len(body)}\r\n\r\n".encode()
            + body
        )
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = re.search(rb"\r\ncontent-length: (\d+)", head)
        await reader.readexactly(int(length[1]) if length else 0)
        if b"\r\nconnection: close" in head:
            await self.close()
        status = head[9:12].decode()
        return "503 without Retry-After" if status == "503" and b"\r\nretry-after: " not in head else status


@contextlib.asynccontextmanager
async def _clients(address: str, count: int) -> AsyncIterator[list[Client]]:
    clients = [Client(address) for _ in range(count)]
    try:
        yield clients
    finally:
        await asyncio.gather(*(client.close() for client in clients))


async def one_after_the_other(address: str, texts: Iterator[str], clients: int, seconds: float) -> list[Asked]:
    """Lets a number of clients ask concurrently; each sends its next query when it has the answer to the last."""
    end = time.perf_counter() + seconds

    async def ask(client: Client) -> list[Asked]:
        found = []
        while time.perf_counter() < end:
            found.append(await client.ask(next(texts)))
        return found

    async with _clients(address, clients) as opened:
        return [asked for of_client in await asyncio.gather(*map(ask, opened)) for asked in of_client]


async def at_a_rate(address: str, texts: Iterator[str], rate: float, seconds: float) -> list[Asked]:
    """Sends queries at a fixed rate per second, whether or not earlier ones are answered."""
    found: list[Asked] = []
    async with _clients(address, MOST_ASKED) as everyone, asyncio.TaskGroup() as tasks:
        idle = list(everyone)

        async def ask(client: Client, text: str, due: float) -> None:
            found.append(await client.ask(text, due))
            idle.append(client)

        began = time.perf_counter()
        for number in range(int(rate * seconds)):
            due = began + number / rate
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            if idle:
                tasks.create_task(ask(idle.pop(), next(texts), due))
            else:
                found.append(Asked("not sent", 0.0))
    return found
