from starqe.serve.running.monitoring import BUCKETS, Metrics


def test_counters_and_the_histogram_are_written_as_prometheus_reads_them():
    metrics = Metrics()
    metrics.add_request("/sparql", 200, 0.25)
    metrics.add_request("/sparql", 400, 0.5)
    metrics.add_request("other", 404, 20.0)
    metrics.add_batch(3)
    metrics.add_slow()
    metrics.add_gauge("starqe_waiting_queries", "Queries that wait.", lambda: 7)
    lines = metrics.text().decode().splitlines()
    assert lines[:5] == [
        "# HELP starqe_requests_total Requests by route and status.",
        "# TYPE starqe_requests_total counter",
        'starqe_requests_total{route="/sparql",status="200"} 1.0',
        'starqe_requests_total{route="/sparql",status="400"} 1.0',
        'starqe_requests_total{route="other",status="404"} 1.0',
    ]
    for line in (
        'starqe_request_seconds_bucket{le="0.1",route="/sparql"} 0.0',
        'starqe_request_seconds_bucket{le="0.25",route="/sparql"} 1.0',
        'starqe_request_seconds_bucket{le="+Inf",route="/sparql"} 2.0',
        'starqe_request_seconds_sum{route="/sparql"} 0.75',
        'starqe_request_seconds_count{route="/sparql"} 2.0',
        'starqe_request_seconds_bucket{le="10.0",route="other"} 0.0',
        'starqe_request_seconds_bucket{le="+Inf",route="other"} 1.0',
        "# TYPE starqe_request_seconds histogram",
        "starqe_batches_total 1.0",
        "starqe_batched_queries_total 3.0",
        "starqe_slow_queries_total 1.0",
        "# TYPE starqe_waiting_queries gauge",
        "starqe_waiting_queries 7.0",
        "# TYPE process_resident_memory_bytes gauge",
    ):
        assert line in lines
    assert not [line for line in lines if "_created" in line]


def test_services_of_one_process_count_for_themselves():
    one, other = Metrics(), Metrics()
    one.add_batch(2)
    assert (one.value("starqe_batched_queries_total"), other.value("starqe_batched_queries_total")) == (2.0, 0.0)


def test_buckets_ascend():
    assert list(BUCKETS) == sorted(set(BUCKETS))
