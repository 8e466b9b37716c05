from starqe.serve.metrics import BUCKETS, Metrics


def test_counters_and_the_histogram_are_written_as_prometheus_reads_them():
    metrics = Metrics()
    metrics.add_request("/sparql", 200, 0.25)
    metrics.add_request("/sparql", 400, 0.5)
    metrics.add_request("other", 404, 20.0)
    metrics.add_batch(3)
    lines = metrics.text({"starqe_waiting_queries": ("Queries that wait.", 7)}).splitlines()
    assert lines[:5] == [
        "# HELP starqe_requests_total Requests by route and status.",
        "# TYPE starqe_requests_total counter",
        'starqe_requests_total{route="/sparql",status="200"} 1',
        'starqe_requests_total{route="/sparql",status="400"} 1',
        'starqe_requests_total{route="other",status="404"} 1',
    ]
    assert 'starqe_request_seconds_bucket{route="/sparql",le="0.1"} 0' in lines
    assert 'starqe_request_seconds_bucket{route="/sparql",le="0.25"} 1' in lines
    assert 'starqe_request_seconds_bucket{route="/sparql",le="+Inf"} 2' in lines
    assert 'starqe_request_seconds_sum{route="/sparql"} 0.75' in lines
    assert 'starqe_request_seconds_count{route="/sparql"} 2' in lines
    assert 'starqe_request_seconds_bucket{route="other",le="10.0"} 0' in lines
    assert 'starqe_request_seconds_bucket{route="other",le="+Inf"} 1' in lines
    assert lines[-9:] == [
        "# HELP starqe_batches_total Batches of queries that were answered together.",
        "# TYPE starqe_batches_total counter",
        "starqe_batches_total 1",
        "# HELP starqe_batched_queries_total Queries in these batches.",
        "# TYPE starqe_batched_queries_total counter",
        "starqe_batched_queries_total 3",
        "# HELP starqe_waiting_queries Queries that wait.",
        "# TYPE starqe_waiting_queries gauge",
        "starqe_waiting_queries 7",
    ]


def test_buckets_ascend():
    assert list(BUCKETS) == sorted(set(BUCKETS))
