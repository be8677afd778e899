"""Fetching: addresses checked at every hop, limits kept, errors typed."""

from __future__ import annotations

import asyncio
import gzip
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from local_site import OPEN, Answer, Site, running_site

from ragwright.core import AddressRefusedError, ConfigError, FetchError
from ragwright.flow import Fetch, FetchReply, RetryPolicy, Runner, fetch
from ragwright.ingest import FetchHandler, FetchOptions, Resolve, refusal, resolve


@pytest.fixture
def site() -> Iterator[Site]:
    with running_site() as made:
        yield made


def get(
    request: Fetch | str, options: FetchOptions = OPEN, resolver: Resolve = resolve
) -> FetchReply:
    async def once() -> FetchReply:
        handler = FetchHandler(options, resolver)
        try:
            return await handler.send(Fetch(request) if isinstance(request, str) else request)
        finally:
            await handler.aclose()

    return asyncio.run(once())


def failure(request: Fetch | str, options: FetchOptions = OPEN) -> FetchError:
    with pytest.raises(FetchError) as caught:
        get(request, options)
    assert caught.value.where
    return caught.value


def test_body_type_and_last_address_come_back(site: Site) -> None:
    site.routes["/a"] = Answer(status=302, headers={"Location": "b?x=1#part"})
    site.routes["/b"] = Answer("gruß", headers={"Content-Type": "text/plain; charset=utf-8"})
    reply = get(f"{site.base}/a")
    assert reply.url == f"{site.base}/b?x=1"
    assert reply.status == 200
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert reply.body.decode() == "gruß"
    assert site.asked[1].headers["host"] == f"127.0.0.1:{site.port}"
    assert site.asked[1].headers["user-agent"].startswith("ragwright/")


@pytest.mark.parametrize(
    "address",
    [
        "10.0.0.1", "172.16.3.4", "192.168.1.1", "127.0.0.2", "0.0.0.0", "169.254.169.254",
        "169.254.1.1", "100.64.0.1", "100.100.100.200", "168.63.129.16", "224.0.0.1",
        "255.255.255.255", "240.0.0.1", "192.0.2.1", "198.18.0.1", "::1", "::", "fe80::1",
        "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "fec0::1", "ff02::1", "2001:db8::1",
        "::ffff:8.8.8.8", "64:ff9b:1::808:808", "::ffff:10.0.0.1", "::ffff:127.0.0.1",
        "::127.0.0.1", "64:ff9b::10.0.0.1",
        "64:ff9b::a9fe:a9fe", "2002:0a00:0001::1", "2001:0:a00:1::1", "192.0.0.9", "192.88.99.1",
        "3fff::1", "5f00::1", "2001:2::1", "::ffff:192.0.0.8", "100::1",
        "64:ff9b:1::1", "4000::1",
    ],
)  # fmt: skip
def test_addresses_inside_networks_are_refused(address: str) -> None:
    assert refusal(address)


@pytest.mark.parametrize(
    "address",
    ["8.8.8.8", "1.1.1.1", "2606:4700:4700::1111", "2a00:1450:4007::1", "64:ff9b::808:808"],
)
def test_public_addresses_are_not(address: str) -> None:
    assert refusal(address) == ""


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/", "http://localhost:9/", "http://[::1]:9/", "http://2130706433:9/",
        "http://0x7f.1:9/", "http://[::ffff:127.0.0.1]:9/", "http://169.254.169.254/latest/",
        "http://0.0.0.0:9/",
    ],
)  # fmt: skip
def test_a_private_address_is_refused_however_it_is_written(url: str) -> None:
    with pytest.raises(AddressRefusedError):
        get(url, FetchOptions())


@pytest.mark.parametrize(
    "target",
    ["http://127.0.0.2:9/", "http://169.254.169.254/latest", "//10.0.0.1/", "http://[::1]/"],
)
def test_a_redirect_into_a_network_is_refused(site: Site, target: str) -> None:
    site.routes["/a"] = Answer(status=301, headers={"Location": target})
    with pytest.raises(AddressRefusedError):
        get(f"{site.base}/a")


def test_a_name_is_resolved_once_a_hop_and_that_address_used(site: Site) -> None:
    """DNS rebinding: the second answer of the name server must not matter."""
    answers = [["127.0.0.1"], ["127.0.0.9"], ["127.0.0.9"]]
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return answers.pop(0)

    site.routes["/a"] = Answer("here")
    reply = get(f"http://wiki.example:{site.port}/a", OPEN, rebinding)
    assert reply.body == b"here"
    assert asked == ["wiki.example"]
    assert reply.url == f"http://wiki.example:{site.port}/a"
    assert site.asked[0].headers["host"] == f"wiki.example:{site.port}"


def test_the_certificate_is_checked_for_the_name_and_not_for_the_address(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(str(tmp_path / "authority.pem"))
    monkeypatch.setenv("SSL_CERT_FILE", str(tmp_path / "authority.pem"))
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    authority.issue_cert("wiki.example").configure_cert(context)

    async def here(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    with running_site(context) as site:
        site.routes["/a"] = Answer("secret")
        assert get(f"https://wiki.example:{site.port}/a", OPEN, here).body == b"secret"
        with pytest.raises(FetchError, match="certificate") as caught:
            get(f"https://other.example:{site.port}/a", OPEN, here)
        assert not caught.value.retryable


def test_one_private_address_among_public_ones_refuses_the_host() -> None:
    async def mixed(host: str, port: int) -> list[str]:
        return ["8.8.8.8", "10.0.0.1"]

    with pytest.raises(AddressRefusedError, match=r"10\.0\.0\.1"):
        get("http://mixed.example/", OPEN, mixed)


def test_the_next_address_is_tried_where_one_does_not_answer(site: Site) -> None:
    async def two(host: str, port: int) -> list[str]:
        return ["127.0.0.3", "127.0.0.1"]

    site.routes["/a"] = Answer("here")
    options = FetchOptions(open_networks=("127.0.0.0/8",))
    assert get(f"http://two.example:{site.port}/a", options, two).body == b"here"


@pytest.mark.parametrize(
    "url", ["ftp://example.org/x", "file:///etc/passwd", "example.org", "http://", "", "http://a:b"]
)
def test_other_schemes_are_refused(url: str) -> None:
    with pytest.raises(FetchError):
        get(url)


@pytest.mark.parametrize(
    "target", ["file:///etc/passwd", "javascript:alert(1)", "http://[bad", "http://", "//:x/"]
)
def test_a_redirect_to_what_is_no_address_is_refused(site: Site, target: str) -> None:
    site.routes["/a"] = Answer(status=302, headers={"Location": target})
    assert not failure(f"{site.base}/a").retryable


def test_a_password_in_an_address_is_neither_sent_nor_shown(site: Site) -> None:
    error = failure(f"http://user:secret@127.0.0.1:{site.port}/")
    assert "secret" not in str(error)
    assert not site.asked


def test_redirects_are_bounded(site: Site) -> None:
    site.routes["/a"] = Answer(status=302, headers={"Location": "/a"})
    failure(f"{site.base}/a")
    assert len(site.asked) == 6


@pytest.mark.parametrize(
    ("status", "again"),
    [(400, False), (401, False), (403, False), (404, False), (410, False), (429, True),
     (500, True), (501, False), (502, True), (503, True), (504, True), (304, False)],
)  # fmt: skip
def test_http_errors_say_whether_to_try_again(site: Site, status: int, again: bool) -> None:
    site.routes["/a"] = Answer("sorry", status, {"Retry-After": "7"})
    error = failure(f"{site.base}/a")
    assert (error.status, error.retryable, error.retry_after) == (status, again, 7.0)
    assert site.base in str(error)


def test_a_body_over_the_limit_is_not_read(site: Site) -> None:
    site.routes["/stated"] = Answer(b"x" * 5000)
    site.routes["/bomb"] = Answer(
        gzip.compress(b"x" * 5_000_000), headers={"Content-Encoding": "gzip"}
    )
    for path in ("/stated", "/bomb"):
        error = failure(Fetch(f"{site.base}{path}", max_bytes=4000))
        assert "4000" in str(error)
        assert not error.retryable


def test_gzip_is_unpacked_and_damage_is_said(site: Site) -> None:
    packed = gzip.compress("élève".encode())
    site.routes["/good"] = Answer(packed, headers={"Content-Encoding": "gzip"})
    site.routes["/bad"] = Answer(b"no gzip at all", headers={"Content-Encoding": "gzip"})
    assert get(f"{site.base}/good").body.decode() == "élève"
    assert not failure(f"{site.base}/bad").retryable


@pytest.mark.parametrize("answer", [Answer("late", delay=3), Answer("drop by drop", drip=0.5)])
def test_slow_servers_end_at_the_time_limit(site: Site, answer: Answer) -> None:
    site.routes["/a"] = answer
    error = failure(Fetch(f"{site.base}/a", timeout=0.3))
    assert error.retryable


def test_a_reply_that_breaks_off_is_worth_another_try(site: Site) -> None:
    site.routes["/a"] = Answer("half", cut=True)
    assert failure(f"{site.base}/a").retryable


def test_no_server_and_no_host_are_said() -> None:
    assert failure("http://127.0.0.1:1/").retryable
    assert "no-such-host.invalid" in str(failure("http://no-such-host.invalid/"))


def test_limits_are_by_host() -> None:
    handler = FetchHandler(FetchOptions())
    lanes = [handler.lane(Fetch(url)) for url in ("http://a/x", "https://a/y", "http://b/", "::")]
    assert lanes[0] == lanes[1] != lanes[2]
    assert handler.limit(lanes[0]) == 4


def test_a_proxy_is_asked_by_name_and_private_addresses_stay_refused(site: Site) -> None:
    async def unknown(host: str, port: int) -> list[str]:
        if host[0].isdigit():
            return [host]
        raise FetchError("no such host")

    options = FetchOptions(proxy=site.base)
    site.routes["/page"] = Answer("by proxy")
    assert get("http://wiki.example/page", options, unknown).body == b"by proxy"
    assert site.asked[0].headers["host"] == "wiki.example"
    with pytest.raises(AddressRefusedError):
        get("http://10.0.0.1/page", options, unknown)


def test_through_the_runner_a_server_that_recovers_is_asked_again(site: Site) -> None:
    site.routes["/a"] = lambda _: Answer("ok") if len(site.asked) > 2 else Answer("", 503)
    with Runner({Fetch: FetchHandler(OPEN)}, retry=RetryPolicy(base=0.01)) as runner:
        assert runner.run(fetch(f"{site.base}/a")).body == b"ok"
        with pytest.raises(FetchError):
            runner.run(fetch(f"{site.base}/missing"))
    assert [asked.path for asked in site.asked] == ["/a", "/a", "/a", "/missing"]


def test_a_wrong_network_is_a_wrong_setting() -> None:
    with pytest.raises(ConfigError):
        FetchHandler(FetchOptions(open_networks=("my lan",)))
    with pytest.raises(ConfigError):
        get("http://8.8.8.8/", FetchOptions(proxy="our proxy"))


def test_a_hint_names_the_key_that_helps() -> None:
    refused = failure("http://127.0.0.2:9/", FetchOptions())
    assert "`fetch.open_networks`" in (refused.hint or "")
    assert "127.0.0.2" in (refused.hint or "")


def test_a_request_bounds_its_reply(site: Site) -> None:
    site.routes["/big"] = Answer(b"x" * 5000)
    assert len(get(Fetch(f"{site.base}/big", max_bytes=6000)).body) == 5000
    assert "3000 bytes" in str(failure(Fetch(f"{site.base}/big", max_bytes=3000)))
