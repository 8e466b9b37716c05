import http.client
import io
import urllib.request

import pytest

from starqe.errors import InputError, StorageError
from starqe.kg.published import download as module
from starqe.kg.published.download import download
from tests.kg.file_server import FileServer, running

CONTENT = bytes(range(256)) * 1000
OTHER = bytes(reversed(range(256))) * 1100


@pytest.fixture
def server(monkeypatch):
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    monkeypatch.setattr(module, "PAUSE", 0.001)
    with running() as server:
        server.files["/file"] = CONTENT
        yield server


@pytest.fixture
def bring(server: FileServer, tmp_path):
    """Downloads the file and gives its content, the bytes the progress bar ended at, and what was said."""

    def run() -> tuple[bytes, int, list[str]]:
        steps: list[int] = []
        said: list[str] = []
        download(f"{server.url}/file", tmp_path / "file", steps.append, said.append)
        return (tmp_path / "file").read_bytes(), sum(steps), said

    return run


def bytes_sent(server: FileServer) -> list[int]:
    return [count for _, _, count in server.sent]


def test_a_file_arrives_and_is_not_asked_for_again(server, bring):
    assert bring() == (CONTENT, len(CONTENT), [])
    assert bring() == (CONTENT, len(CONTENT), [])
    assert server.sent == [("file", None, len(CONTENT))]


def test_a_broken_connection_is_taken_up_where_it_broke(server, bring):
    server.plan = [("break", 100_000), ("break", 50_000)]
    content, shown, said = bring()
    assert (content, shown) == (CONTENT, len(CONTENT))
    assert server.sent == [("file", None, 100_000), ("file", "bytes=100000-", 50_000), ("file", "bytes=150000-", 106_000)]
    assert said == [
        f"{server.url}/file: the connection broke after 100,000 of 256,000 bytes; trying again in 0.001 s (2 of 5)",
        f"{server.url}/file: the connection broke after 150,000 of 256,000 bytes; trying again in 0.002 s (3 of 5)",
    ]


def test_what_arrived_outlives_a_download_that_gave_up(server, bring):
    server.plan = [("break", 40_000), *[("status", 503)] * 4]
    with pytest.raises(StorageError, match=r"/file: the server answers 503 Service Unavailable \(tried 5 times\)$"):
        bring()
    assert bring() == (CONTENT, len(CONTENT), [])
    assert bytes_sent(server) == [40_000, len(CONTENT) - 40_000]


def test_a_server_without_ranges_starts_over(server, bring):
    server.ranges = False
    server.plan = [("break", 100_000)]
    content, shown, _ = bring()
    assert (content, shown) == (CONTENT, len(CONTENT))
    assert bytes_sent(server) == [100_000, len(CONTENT)]


@pytest.mark.parametrize("etag", ["", 'W/"{}"'])
def test_without_a_strong_etag_the_first_part_is_not_trusted(server, bring, etag):
    server.etag = etag
    server.plan = [("break", 100_000)]
    assert bring()[:2] == (CONTENT, len(CONTENT))
    assert server.sent == [("file", None, 100_000), ("file", None, len(CONTENT))]


def test_a_file_that_changed_meanwhile_starts_over(server, bring):
    server.plan = [("break", 100_000), *[("status", 500)] * 4]
    with pytest.raises(StorageError):
        bring()
    server.files["/file"] = OTHER
    assert bring() == (OTHER, len(OTHER), [])
    assert server.sent[1:] == [("file", "bytes=100000-", len(OTHER))]


def test_the_part_of_another_address_is_not_completed(server, bring, tmp_path):
    server.files["/mirror"] = CONTENT  # with the same ETag
    server.plan = [("break", 100_000), *[("status", 500)] * 4]
    with pytest.raises(StorageError):
        bring()
    download(f"{server.url}/mirror", tmp_path / "file", lambda _: None, lambda _: None)
    assert server.sent[1:] == [("mirror", None, len(CONTENT))]


def test_a_part_that_is_longer_than_the_file_starts_over(server, bring, tmp_path):
    server.plan = [("break", 100_000), *[("status", 500)] * 4]
    with pytest.raises(StorageError):
        bring()
    with (tmp_path / "file").open("ab") as file:
        file.write(bytes(len(CONTENT)))
    content, shown, said = bring()
    assert (content, shown, len(said)) == (CONTENT, len(CONTENT), 1)


@pytest.mark.parametrize("said", ["bytes 0-255999/256000", "bytes 100000-255999/300000", "nonsense"])
def test_an_unexpected_range_starts_over(server, bring, said):
    server.plan = [("break", 100_000), ("range", said)]
    assert bring()[:2] == (CONTENT, len(CONTENT))
    assert ("file", None, len(CONTENT)) in server.sent  # the server may note the answer that was refused later


def test_a_server_that_does_not_send_the_length_is_accepted(server, bring):
    server.length = False
    assert bring() == (CONTENT, len(CONTENT), [])
    assert bring()[0] == CONTENT
    assert len(server.sent) == 1


@pytest.mark.parametrize("code", [500, 502, 503, 429])
def test_a_passing_trouble_of_the_server_passes(server, bring, code):
    server.plan = [("status", code), ("status", code)]
    assert bring()[:2] == (CONTENT, len(CONTENT))


@pytest.mark.parametrize("code", [403, 404, 410])
def test_a_refusal_is_final(server, bring, code):
    server.plan = [("status", code)]
    with pytest.raises(StorageError, match=f"/file: the server answers {code} "):
        bring()
    assert server.sent == []


def test_silence_counts_as_a_broken_connection(server, bring, monkeypatch):
    monkeypatch.setattr(module, "TIMEOUT", 0.1)
    server.plan = [("stall", 100_000)]
    assert bring()[0] == CONTENT
    assert bytes_sent(server) == [100_000, 156_000]


@pytest.mark.parametrize(
    ("what", "said"),
    [("drip", "the server sends less than 1,024 bytes per second"), ("drip headers", "the headers take longer than 0.2 seconds")],
)
def test_a_server_that_drips_counts_as_a_broken_connection(server, bring, monkeypatch, what, said):
    monkeypatch.setattr(module, "TIMEOUT", 0.2)
    server.plan = [(what, 0.02)]
    content, _, notes = bring()
    assert content == CONTENT
    assert f"{said}; trying again" in notes[0]


def test_a_server_that_is_gone_is_named_with_the_reason(tmp_path, monkeypatch):
    monkeypatch.setattr(module, "PAUSE", 0.001)
    with running() as gone:
        url = f"{gone.url}/file"
    with pytest.raises(StorageError, match=rf"^{url}: Connection refused \(tried 5 times\)$"):
        download(url, tmp_path / "file", lambda _: None, lambda _: None)


@pytest.mark.parametrize("length", [True, False])
def test_a_file_that_is_far_too_large_is_refused(server, bring, monkeypatch, length):
    monkeypatch.setattr(module, "MAX_BYTES", 2**17)
    server.length = length
    with pytest.raises(StorageError, match="at most 0 MiB, and this one is larger"):
        bring()


@pytest.mark.parametrize("url", ["file:///etc/passwd", "ftp://example.org/x", "example.org/x", "http://", "data:,x"])
def test_only_addresses_of_the_web_are_opened(tmp_path, url):
    with pytest.raises(InputError, match="data sets come from an address such as"):
        download(url, tmp_path / "file", lambda _: None, lambda _: None)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("target", ["file:///etc/hostname", "ftp://127.0.0.1/file", "data:,x"])
def test_a_redirect_never_leaves_the_web(server, bring, tmp_path, target):
    server.plan = [("redirect", target)]
    with pytest.raises(StorageError, match=target):
        bring()
    assert list(tmp_path.iterdir()) == []


def test_a_redirect_on_the_web_is_followed_and_resumed(server, bring):
    server.files["/moved"] = CONTENT
    server.plan = [("redirect", "/moved"), ("break", 100_000), ("redirect", "/moved")]
    assert bring()[:2] == (CONTENT, len(CONTENT))
    assert server.sent == [("moved", None, 100_000), ("moved", "bytes=100000-", 156_000)]


@pytest.mark.parametrize(
    ("source", "target", "allowed"),
    [("https", "http", False), ("https", "https", True), ("http", "https", True), ("http", "http", True), ("https", "ftp", False)],
)
def test_a_redirect_never_gives_up_encryption(source, target, allowed):
    request = urllib.request.Request(f"{source}://example.org/a")
    follow = (request, io.BytesIO(), 302, "", http.client.HTTPMessage(), f"{target}://example.org/b")
    if allowed:
        assert module._Redirects().redirect_request(*follow).full_url == f"{target}://example.org/b"
    else:
        with pytest.raises(StorageError, match=f"the same scheme or to https, found {target}://example.org/b"):
            module._Redirects().redirect_request(*follow)
