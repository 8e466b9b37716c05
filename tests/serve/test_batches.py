import asyncio
import threading
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import pytest

from starqe.serve.batches import Batches
from starqe.serve.metrics import Metrics
from starqe.serve.problems import BusyError, ClientGoneError
from starqe.serve.settings import ServeSettings


async def never() -> None:
    await asyncio.Event().wait()


class Doubler:
    """Doubles numbers, keeps what it was given, and stops at the gate while it is closed; text is an error."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, list[Any]]] = []
        self.gate, self.reached = threading.Event(), threading.Event()
        self.gate.set()

    def __call__(self, kind, items):
        self.reached.set()
        assert self.gate.wait(30)
        self.seen.append((kind, list(items)))
        return [2 * int(item) for item in items]


def run(scenario: Callable[[Batches, Doubler], Coroutine[Any, Any, None]], **settings: Any) -> Metrics:
    async def main() -> Metrics:
        work, metrics = Doubler(), Metrics()
        async with Batches(work, ServeSettings.parse(settings), metrics).running() as batches:
            await scenario(batches, work)
        return metrics

    return asyncio.run(main())


async def occupied(batches: Batches, work: Doubler) -> Awaitable[Any]:
    """Closes the gate and sends a first job, which the thread is working on then."""
    work.gate.clear()
    first = asyncio.ensure_future(batches.do("first", 0, never))
    while not work.reached.is_set():
        await asyncio.sleep(0.001)
    return first


def test_what_waits_is_done_together_by_kind_and_everyone_gets_the_own_result():
    async def scenario(batches, work):
        first = await occupied(batches, work)
        jobs = [asyncio.ensure_future(batches.do("even" if i % 2 == 0 else "odd", i, never)) for i in range(1, 6)]
        await asyncio.sleep(0)
        assert len(batches) == 5
        work.gate.set()
        assert await asyncio.gather(first, *jobs) == [0, 2, 4, 6, 8, 10]
        assert work.seen == [("first", [0]), ("odd", [1, 3, 5]), ("even", [2, 4])]

    metrics = run(scenario)
    assert (metrics.batches, metrics.batched_queries) == (3, 6)


def test_a_batch_has_a_greatest_size():
    async def scenario(batches, work):
        first = await occupied(batches, work)
        jobs = [asyncio.ensure_future(batches.do("kind", i, never)) for i in range(1, 6)]
        await asyncio.sleep(0)
        work.gate.set()
        await asyncio.gather(first, *jobs)
        assert [len(items) for _, items in work.seen] == [1, 2, 2, 1]

    run(scenario, batch=2)


def test_one_that_fails_does_not_spoil_the_others_of_its_batch():
    async def scenario(batches, work):
        first = await occupied(batches, work)
        jobs = [asyncio.ensure_future(batches.do("kind", item, never)) for item in (1, "text", 3)]
        await asyncio.sleep(0)
        work.gate.set()
        results = await asyncio.gather(first, *jobs, return_exceptions=True)
        assert [results[0], results[1], results[3]] == [0, 2, 6]
        assert isinstance(results[2], ValueError)

    run(scenario)


def test_a_full_queue_refuses_at_once_and_says_when_to_try_again():
    async def scenario(batches, work):
        first = await occupied(batches, work)
        waiting = [asyncio.ensure_future(batches.do("kind", i, never)) for i in (1, 2)]
        await asyncio.sleep(0)
        for _ in range(5):
            with pytest.raises(BusyError, match="2 queries wait already") as caught:
                await batches.do("kind", 3, never)
            assert (caught.value.status, caught.value.headers) == (503, {"Retry-After": "7"})
        assert len(batches) == 2
        work.gate.set()
        assert await asyncio.gather(first, *waiting) == [0, 2, 4]

    run(scenario, waiting=2, retry_seconds=7)


def test_who_waits_too_long_is_told_so_and_the_job_is_never_done():
    async def scenario(batches, work):
        first = await occupied(batches, work)
        with pytest.raises(BusyError, match=r"a query may take 0\.05 seconds"):
            await batches.do("late", 1, never)
        work.gate.set()
        with pytest.raises(BusyError):  # the first one has waited longer than that, too
            await first
        assert await batches.do("kind", 2, never) == 4
        assert [kind for kind, _ in work.seen] == ["first", "kind"]

    run(scenario, seconds=0.05)


def test_the_job_of_a_client_that_went_away_is_dropped():
    async def scenario(batches, work):
        first = await occupied(batches, work)
        with pytest.raises(ClientGoneError):
            await batches.do("gone", 1, lambda: asyncio.sleep(0))
        work.gate.set()
        assert await first == 0
        assert await batches.do("kind", 2, never) == 4
        assert [kind for kind, _ in work.seen] == ["first", "kind"]

    run(scenario)


def test_what_waits_at_the_end_is_refused():
    jobs: list[asyncio.Future[Any]] = []

    async def scenario(batches, work):
        jobs.append(await occupied(batches, work))
        jobs.append(asyncio.ensure_future(batches.do("kind", 1, never)))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.05, work.gate.set)

    async def main():
        work = Doubler()
        async with Batches(work, ServeSettings(), Metrics()).running() as batches:
            await scenario(batches, work)
        for job in jobs:
            with pytest.raises(BusyError, match="the service stops"):
                await job

    asyncio.run(main())
