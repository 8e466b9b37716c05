import asyncio
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from types import SimpleNamespace
from typing import Any

import pytest

from starqe.errors import DeadlineError
from starqe.serve.problems import BusyError, ClientGoneError
from starqe.serve.running.batches import MOST_STUCK, Batches
from starqe.serve.running.monitoring import Metrics
from starqe.serve.settings import ServeSettings


class Clock(threading.local):
    """A clock of its own for every thread, which advances only by hand, so that a busy machine changes nothing."""

    now = 0.0

    def pass_(self, seconds: float) -> None:
        self.now += seconds

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock(monkeypatch) -> Clock:
    """The clock of all deadlines; threads that take long are left alone only in the test about them."""
    made = Clock()
    monkeypatch.setattr("starqe.deadline.time", SimpleNamespace(monotonic=made, thread_time=made))
    monkeypatch.setattr("starqe.serve.running.batches.STUCK_SECONDS", 60.0)
    return made


async def never() -> None:
    await asyncio.Event().wait()


class Doubler:
    """Doubles numbers, keeps its input, and waits at the gate while it is closed, no longer than its deadline; text is an error."""

    def __init__(self) -> None:
        self.seen: list[tuple[Any, list[Any]]] = []
        self.gate, self.reached = threading.Event(), threading.Event()
        self.gate.set()

    def __call__(self, kind, items, deadline):
        self.reached.set()
        while not self.gate.wait(0.001):
            deadline.check()
        self.seen.append((kind, list(items)))
        return [2 * int(item) for item in items]


def run(scenario: Callable[[Batches, Doubler], Coroutine[Any, Any, None]], **settings: Any) -> Metrics:
    async def main() -> Metrics:
        work, metrics = Doubler(), Metrics()
        limits = ServeSettings.parse({"quick_seconds": 30.0, **settings})
        async with Batches(work, limits, metrics).running() as batches:
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


def test_what_waits_is_done_together_by_kind_and_each_job_gets_its_own_result():
    async def scenario(batches, work):
        first = await occupied(batches, work)
        jobs = [asyncio.ensure_future(batches.do("even" if i % 2 == 0 else "odd", i, never)) for i in range(1, 6)]
        await asyncio.sleep(0)
        assert len(batches) == 5
        work.gate.set()
        assert await asyncio.gather(first, *jobs) == [0, 2, 4, 6, 8, 10]
        assert work.seen == [("first", [0]), ("odd", [1, 3, 5]), ("even", [2, 4])]

    metrics = run(scenario)
    assert (metrics.value("starqe_batches_total"), metrics.value("starqe_batched_queries_total")) == (3, 6)


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


def test_a_job_that_waits_too_long_times_out_and_leaves_the_queue():
    async def scenario(batches, work):
        first = await occupied(batches, work)
        with pytest.raises(BusyError, match=r"a query may take 0\.05 seconds"):
            await batches.do("late", 1, never)
        assert len(batches) == 0
        with pytest.raises(BusyError):  # the first one has waited longer than that, too
            await first
        work.gate.set()
        batches._settings = batches._settings.replace(seconds=60.0)
        assert await batches.do("kind", 2, never) == 4

    run(scenario, seconds=0.05)


def test_work_that_notices_the_limit_first_is_reported_as_a_timeout_too():
    async def scenario(batches, _work):
        failed = asyncio.get_running_loop().create_future()
        failed.set_exception(DeadlineError("a question may take 10 seconds, and this one needs more"))
        with pytest.raises(BusyError, match="was not answered by then"):
            await batches.first(failed, never)

    run(scenario)


def test_the_job_of_a_client_that_went_away_is_dropped():
    async def scenario(batches, work):
        first = await occupied(batches, work)
        with pytest.raises(ClientGoneError):
            await batches.do("gone", 1, lambda: asyncio.sleep(0))
        assert len(batches) == 0
        work.gate.set()
        assert await first == 0
        assert await batches.do("kind", 2, never) == 4
        assert [kind for kind, _ in work.seen] == ["first", "kind"]

    run(scenario)


def test_a_slow_job_moves_over_and_quick_ones_go_on(clock):
    """The first job waits at its gate in the slow lane, with its own deadline, while others are done."""
    gate = threading.Event()

    def work(kind, items, deadline):
        while kind == "slow" and not gate.wait(0.001):
            clock.pass_(0.001)
            deadline.check()
        return items

    async def main():
        metrics = Metrics()
        async with Batches(work, ServeSettings(quick_seconds=0.02, slow_waiting=1, seconds=600), metrics).running() as batches:
            slow = [asyncio.ensure_future(batches.do("slow", i, never, alone=True)) for i in range(3)]
            done, _ = await asyncio.wait(slow, return_when=asyncio.FIRST_COMPLETED)
            with pytest.raises(BusyError, match="1 queries that take long wait already"):
                await done.pop()
            assert [await batches.do("quick", i, never) for i in range(5)] == list(range(5))
            assert len(batches) == 1
            gate.set()
            assert [await job for job in slow if not job.done() or job.exception() is None] == [0, 1]
        assert metrics.value("starqe_slow_queries_total") == 3

    asyncio.run(main())


def test_a_query_a_little_slower_than_usual_does_not_wait_behind_expensive_ones(clock):
    """Both processes of the slow lane are taken; a query that the quick lane gives up is done by the middle lane."""
    gate, lanes = threading.Event(), []

    def quick(kind, _, deadline):
        lanes.append((kind, "quick"))
        while True:
            clock.pass_(0.001)
            deadline.check()

    def in_process(kind, items, deadline):
        lanes.append((kind, "middle" if deadline.seconds < 150 else "slow"))
        while kind != "slower" and not gate.wait(0.001):
            clock.pass_(0.01 if kind == "surprise" else 0)
            deadline.check()
        return items

    async def main():
        metrics = Metrics()
        batches = Batches(quick, ServeSettings(quick_seconds=0.02, seconds=300), metrics)
        batches.use(in_process, 2)
        async with batches.running():
            expensive = [asyncio.ensure_future(batches.do("expensive", i, never, slow=True)) for i in range(4)]
            assert await batches.do("slower", 1, never) == 1
            surprise = asyncio.ensure_future(batches.do("surprise", 2, never))
            while len(batches) < 3:  # until the middle lane has given it up, too, and it waits with two of the expensive ones
                await asyncio.sleep(0.001)
            gate.set()
            assert await asyncio.gather(*expensive, surprise) == [0, 1, 2, 3, 2]
        return metrics.value("starqe_slow_queries_total")

    assert asyncio.run(main()) == 6  # four expensive ones, and two that were moved, one of them twice
    assert [lane for kind, lane in lanes if kind == "slower"] == ["quick", "middle"]
    assert [lane for kind, lane in lanes if kind == "surprise"] == ["quick", "middle", "slow"]


def test_what_is_usual_on_a_slow_machine_is_not_slow(monkeypatch):
    now = [0.0]
    time = SimpleNamespace(monotonic=lambda: now[0], thread_time=lambda: now[0])
    monkeypatch.setattr("starqe.deadline.time", time)
    monkeypatch.setattr("starqe.serve.running.batches.time", time)

    def work(kind, items, deadline):
        for _ in range(5 if kind == "usual" else 20):  # one job at a time, so that all threads can share the clock
            now[0] += 0.01
            deadline.check()
        return items

    async def main():
        metrics = Metrics()
        async with Batches(work, ServeSettings(quick_seconds=0.01), metrics).running() as batches:
            moved = []
            for kind in ("usual", "usual", "usual", "longer", "usual"):
                await batches.do(kind, 1, never)
                moved.append(metrics.value("starqe_slow_queries_total"))
        return moved

    # The first one is slow, since nothing is usual yet. It takes 0.05 seconds, so up to 8 times that is not slow.
    assert asyncio.run(main()) == [1, 1, 1, 1, 1]


def test_a_slow_job_is_stopped_when_its_time_is_over_or_its_client_leaves(clock):
    stopped: list[str] = []
    begun: Counter[str] = Counter()

    def work(kind, _, deadline):
        begun[kind] += 1
        while True:
            try:
                clock.pass_(0.01 if kind == "late" or begun[kind] == 1 else 0)
                deadline.check()
            except DeadlineError:
                stopped.append(kind)
                raise

    async def leave() -> None:
        while begun["left"] < 2:  # until it is in the slow lane
            await asyncio.sleep(0.001)

    async def main():
        async with Batches(work, ServeSettings(quick_seconds=0.02, seconds=60), Metrics()).running() as batches:
            with pytest.raises(BusyError, match=r"a query may take 60 seconds") as caught:
                await batches.do("late", 0, never)
            assert caught.value.kind == "TimeOver"
            with pytest.raises(ClientGoneError):
                await batches.do("left", 0, leave)
            while batches.working:
                await asyncio.sleep(0.001)

    asyncio.run(main())
    assert stopped == ["late", "late", "left", "left"]  # in the quick lane, then in the slow one


def test_a_batch_that_takes_too_long_is_done_one_by_one_and_only_the_slow_one_moves_over(clock):
    gate, seen = threading.Event(), []

    def work(_, items, deadline):
        seen.append(list(items))
        while "slow" in items and not gate.wait(0.001):
            clock.pass_(0.001)
            deadline.check()
        return items

    async def main():
        metrics = Metrics()
        async with Batches(work, ServeSettings(quick_seconds=0.05, seconds=600), metrics).running() as batches:
            jobs = [asyncio.ensure_future(batches.do("kind", item, never)) for item in ("first", "slow", "last")]
            assert [await jobs[0], await jobs[2]] == ["first", "last"]
            gate.set()
            assert await jobs[1] == "slow"
        assert metrics.value("starqe_slow_queries_total") == 1

    asyncio.run(main())
    assert seen[:3] == [["first", "slow", "last"], ["first"], ["slow"]]
    assert sorted(seen[3:]) == [["last"], ["slow"]]  # in lanes of their own


def test_batches_and_single_jobs_take_turns():
    async def scenario(batches, work):
        first = await occupied(batches, work)
        single = [asyncio.ensure_future(batches.do("single", i, never, alone=True)) for i in (1, 2)]
        await asyncio.sleep(0)
        shared = [asyncio.ensure_future(batches.do("shared", i, never)) for i in (3, 4, 5)]
        await asyncio.sleep(0)
        work.gate.set()
        await asyncio.gather(first, *single, *shared)
        assert work.seen[1:] == [("single", [1]), ("shared", [3, 4]), ("single", [2]), ("shared", [5])]

    run(scenario, batch=2)


def test_a_job_that_ignores_its_deadline_keeps_its_thread_and_another_one_takes_over(monkeypatch, caplog):
    monkeypatch.setattr("starqe.serve.running.batches.STUCK_SECONDS", 0.02)
    gate = threading.Event()

    def work(kind, items, _):
        assert kind != "stuck" or gate.wait(30)
        return items

    async def main():
        async with Batches(work, ServeSettings(quick_seconds=0.02, seconds=30), Metrics()).running() as batches:
            stuck = [asyncio.ensure_future(batches.do("stuck", i, never, alone=True)) for i in range(MOST_STUCK - 1)]
            assert await batches.do("quick", 1, never) == 1
            while batches.working < MOST_STUCK - 1:
                await asyncio.sleep(0.001)
            assert [await batches.do("quick", i, never) for i in range(3)] == [0, 1, 2]
            gate.set()
            assert await asyncio.gather(*stuck) == list(range(MOST_STUCK - 1))
            assert batches.working == 0

    asyncio.run(main())
    assert "does not stop at its deadline" in caplog.text


def test_what_waits_at_the_end_is_refused():
    jobs: list[asyncio.Future[Any]] = []

    async def scenario(batches, work):
        jobs.append(await occupied(batches, work))
        jobs.append(asyncio.ensure_future(batches.do("kind", 1, never)))
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_later(0.05, work.gate.set)

    async def main():
        work = Doubler()
        async with Batches(work, ServeSettings(quick_seconds=30), Metrics()).running() as batches:
            await scenario(batches, work)
        for job in jobs:
            with pytest.raises(BusyError, match="the service stops"):
                await job

    asyncio.run(main())
