import asyncio

from starqe.serve.running.batches import Batches
from starqe.serve.running.monitoring import Metrics
from starqe.serve.settings import ServeSettings
from tests.serve.running.test_batches import Doubler, never, occupied, run


def test_a_helper_answers_what_waits_while_the_thread_works():
    async def main():
        here, there, metrics = Doubler(), Doubler(), Metrics()
        batches = Batches(here, ServeSettings(quick_seconds=30.0), metrics)
        batches.use(here, 1, there, 1)
        async with batches.running():
            assert await batches.do("alone", 1, never) == 2
            here.reached.clear()
            first = await occupied(batches, here)
            assert await batches.do("kind", 3, never) == 6
            here.gate.set()
            assert await first == 0
            assert await asyncio.gather(*(batches.do("kind", i, never) for i in range(6))) == [0, 2, 4, 6, 8, 10]
        assert (here.seen, there.seen) == ([("alone", [1]), ("first", [0]), ("kind", [0, 1, 2])], [("kind", [3]), ("kind", [3, 4, 5])])

    asyncio.run(main())


def test_jobs_that_come_one_after_the_other_are_done_together_after_a_batch(monkeypatch):
    monkeypatch.setattr("starqe.serve.running.lanes.GATHER_SECONDS", 60.0)

    async def scenario(batches, work):
        await asyncio.gather(*(batches.do("kind", i, never) for i in range(4)))
        jobs = []
        for i in (1, 2):  # half of the batch before
            jobs.append(asyncio.ensure_future(batches.do("kind", i, never)))
            await asyncio.sleep(0.001)
        assert await asyncio.gather(*jobs) == [2, 4]
        assert await batches.do("kind", 5, never) == 10  # half of two: it does not wait
        assert [items for _, items in work.seen] == [[0, 1, 2, 3], [1, 2], [5]]

    run(scenario)


def test_a_job_that_comes_alone_does_not_wait_for_long(monkeypatch):
    monkeypatch.setattr("starqe.serve.running.lanes.GATHER_SECONDS", 0.001)

    async def scenario(batches, work):
        await asyncio.gather(*(batches.do("kind", i, never) for i in range(8)))
        assert await batches.do("kind", 5, never) == 10
        assert [len(items) for _, items in work.seen] == [8, 1]

    run(scenario)


def test_there_is_a_helper_for_each_further_core_but_not_too_many(monkeypatch):
    found = []
    for cores in (1, 2, 16):
        monkeypatch.setattr("os.sched_getaffinity", lambda _, cores=cores: set(range(cores)), raising=False)
        monkeypatch.setattr("sys.platform", "linux")
        found.append(ServeSettings().helping)
    assert found == [0, 1, 3]
    assert ServeSettings(helpers=5).helping == 5
