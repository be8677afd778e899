"""Sources go to the reader that accepts them; addresses are checked at every hop."""

from __future__ import annotations

import gzip
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
import trustme
from local_site import OPEN, Answer, Site, get, running_site

from ragwright.core import (
    AddressRefusedError,
    BudgetStopped,
    ConfigError,
    Document,
    FetchError,
    PluginError,
    SourceError,
    UnsupportedSourceError,
)
from ragwright.flow import Fetch, FetchReply, RetryPolicy, Runner, fetch
from ragwright.ingest import (
    ArxivReader,
    BeirReader,
    Failure,
    FetchBytes,
    FetchHandler,
    FetchOptions,
    FileReader,
    Reader,
    WebReader,
    WikipediaReader,
    catch_failures,
    default_readers,
    failure_lines,
    load_reader,
    pick_reader,
    refusal,
)


def offline(url: str) -> FetchReply:
    raise SourceError("no network here", where=url)


class LogReader(Reader):
    name = "log"

    def accepts(self, source: str) -> bool:
        return source.startswith("log:")

    def read(self, source: str, fetch: FetchBytes) -> Iterator[Document | Failure]:
        yield Document(id=source, source=source, text="first")
        if source == "log:broken":
            raise KeyError("level")
        if source == "log:stopped":
            raise BudgetStopped("the budget is spent")


@pytest.mark.parametrize(
    ("source", "kind"),
    [
        ("manual.md", FileReader),
        ("manuals/*.pdf", FileReader),
        ("https://example.org/a.pdf", WebReader),
        ("HTTP://example.org", WebReader),
        ("https://fr.wikipedia.org/wiki/Pompe", WikipediaReader),
        ("wikipedia:Pump", WikipediaReader),
        ("https://arxiv.org/abs/2401.01234", ArxivReader),
        ("arxiv:2401.01234", ArxivReader),
        ("beir:scifact", BeirReader),
    ],
)
def test_each_form_has_its_reader(source: str, kind: type[Reader], tmp_path: Path) -> None:
    assert type(pick_reader(source, default_readers(base=tmp_path))) is kind
    assert WebReader().accepts(source) == source.lower().startswith("http")


def test_own_readers_are_loaded_by_address_and_a_break_costs_only_its_source() -> None:
    with pytest.raises(UnsupportedSourceError, match="wikipedia:"):
        pick_reader("gopher:hole", default_readers())
    assert isinstance(pick_reader("log:x", [LogReader(), *default_readers()]), LogReader)
    reader = load_reader(f"{__name__}:LogReader")
    assert isinstance(reader, LogReader)
    for address in (f"{__name__}:offline", "no_such_module:Reader", "nothing"):
        with pytest.raises(PluginError):
            load_reader(address)
    first, failure = catch_failures(reader.read("log:broken", offline), "log:broken", reader)
    assert isinstance(first, Document)
    assert isinstance(failure, Failure)
    assert "KeyError" in str(failure.error)
    with pytest.raises(BudgetStopped):
        list(catch_failures(reader.read("log:stopped", offline), "log:stopped", reader))


def test_files_with_one_cause_are_one_entry() -> None:
    def failed(name: str, what: str, *, warning: bool = False) -> Failure:
        return Failure(name, SourceError(what, where=name, hint="mend it"), warning=warning)

    pictures = [failed(f"{n}.png", "no OCR") for n in range(7)]
    formulas = failed("a.xlsx", "2 formulas: never computed", warning=True)
    assert "\n".join(failure_lines([*pictures, formulas])) == (
        "failed: 7 files: no OCR\n  where: 0.png, 1.png, 2.png, 3.png, 4.png and 2 more\n"
        "  do: mend it\n"
        "warning: a.xlsx\n  2 formulas: never computed\n    where: a.xlsx\n    do: mend it"
    )


# Fetching.


@pytest.fixture(scope="module")
def running() -> Iterator[Site]:
    with running_site() as made:
        yield made


@pytest.fixture
def site(running: Site) -> Site:
    running.routes.clear()
    running.asked.clear()
    return running


def failure(request: Fetch | str, options: FetchOptions = OPEN) -> FetchError:
    with pytest.raises(FetchError) as caught:
        get(request, options)
    assert caught.value.where
    return caught.value


def moved(target: str) -> Answer:
    return Answer(status=302, headers={"Location": target})


def test_body_type_and_last_address_come_back(site: Site) -> None:
    site.routes["/a"] = moved("b?x=1#part")
    site.routes["/b"] = Answer("gruß", headers={"Content-Type": "text/plain; charset=utf-8"})
    reply = get(f"{site.base}/a")
    assert (reply.url, reply.status) == (f"{site.base}/b?x=1", 200)
    assert reply.headers["content-type"] == "text/plain; charset=utf-8"
    assert reply.body.decode() == "gruß"
    assert site.asked[1].headers["host"] == f"127.0.0.1:{site.port}"
    assert site.asked[1].headers["user-agent"].startswith("ragwright/")


INSIDE = """10.0.0.1 172.16.3.4 192.168.1.1 127.0.0.2 0.0.0.0 169.254.169.254
169.254.1.1 100.64.0.1 100.100.100.200 168.63.129.16 224.0.0.1 255.255.255.255 240.0.0.1 192.0.2.1
198.18.0.1 ::1 :: fe80::1 fe80::1%eth0 fc00::1 fd00:ec2::254 fec0::1 ff02::1 2001:db8::1
::ffff:8.8.8.8 64:ff9b:1::808:808 ::ffff:10.0.0.1 ::ffff:127.0.0.1 ::127.0.0.1 64:ff9b::10.0.0.1
64:ff9b::a9fe:a9fe 2002:0a00:0001::1 2001:0:a00:1::1 192.0.0.9 192.88.99.1 3fff::1 5f00::1
2001:2::1 ::ffff:192.0.0.8 100::1 64:ff9b:1::1 4000::1"""
PUBLIC = "8.8.8.8 1.1.1.1 2606:4700:4700::1111 2a00:1450:4007::1 64:ff9b::808:808"


def test_addresses_inside_networks_are_refused_and_public_ones_are_not() -> None:
    assert [address for address in INSIDE.split() if not refusal(address)] == []
    assert [address for address in PUBLIC.split() if refusal(address)] == []


PRIVATE = """http://127.0.0.1:9/ http://localhost:9/ http://[::1]:9/ http://2130706433:9/
http://0x7f.1:9/ http://[::ffff:127.0.0.1]:9/ http://169.254.169.254/latest/ http://0.0.0.0:9/"""
NO_PAGE = ("ftp://example.org/x", "file:///etc/passwd", "example.org", "http://", "", "http://a:b")


@pytest.mark.parametrize("url", [*PRIVATE.split(), *NO_PAGE])
def test_private_addresses_and_other_schemes_are_refused(url: str) -> None:
    with pytest.raises(FetchError) as caught:
        get(url, FetchOptions())
    private = isinstance(caught.value, AddressRefusedError)
    assert private == (url not in NO_PAGE)
    assert not private or "`fetch.open_networks`" in (caught.value.hint or "")


@pytest.mark.parametrize(
    ("target", "kind"),
    [
        *[(target, AddressRefusedError) for target in
          ("http://127.0.0.2:9/", "http://169.254.169.254/latest", "//10.0.0.1/", "http://[::1]/")],
        *[(target, FetchError) for target in
          ("file:///etc/passwd", "javascript:alert(1)", "http://[bad", "http://", "//:x/")],
    ],
)  # fmt: skip
def test_a_redirect_into_a_network_or_to_no_address_is_refused(
    site: Site, target: str, kind: type[FetchError]
) -> None:
    site.routes["/a"] = moved(target)
    error = failure(f"{site.base}/a")
    assert type(error) is kind
    assert not error.retryable


def test_a_name_is_resolved_once_a_hop_and_that_address_used(site: Site) -> None:
    """DNS rebinding: the second answer of the name server must not matter."""
    answers = [["127.0.0.1"], ["127.0.0.9"], ["127.0.0.9"]]
    asked: list[str] = []

    async def rebinding(host: str, port: int) -> list[str]:
        asked.append(host)
        return answers.pop(0)

    site.routes["/a"] = Answer("here")
    reply = get(f"http://wiki.example:{site.port}/a", OPEN, rebinding)
    assert (reply.body, asked) == (b"here", ["wiki.example"])
    assert reply.url == f"http://wiki.example:{site.port}/a"
    assert site.asked[0].headers["host"] == f"wiki.example:{site.port}"

    async def mixed(host: str, port: int) -> list[str]:
        return ["8.8.8.8", "10.0.0.1"]

    with pytest.raises(AddressRefusedError, match=r"10\.0\.0\.1"):
        get("http://mixed.example/", OPEN, mixed)

    async def two(host: str, port: int) -> list[str]:
        return ["127.0.0.3", "127.0.0.1"]

    opened = FetchOptions(open_networks=("127.0.0.0/8",))
    url = f"http://two.example:{site.port}/a"
    assert get(url, opened, two).body == b"here", "the next is tried where one does not answer"


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

    with running_site(context) as secret:
        secret.routes["/a"] = Answer("secret")
        assert get(f"https://wiki.example:{secret.port}/a", OPEN, here).body == b"secret"
        with pytest.raises(FetchError, match="certificate") as caught:
            get(f"https://other.example:{secret.port}/a", OPEN, here)
        assert not caught.value.retryable


def test_passwords_are_neither_sent_nor_shown_and_redirects_are_bounded(site: Site) -> None:
    assert "secret" not in str(failure(f"http://user:secret@127.0.0.1:{site.port}/"))
    assert not site.asked
    site.routes["/a"] = moved("/a")
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


PACKED = {"Content-Encoding": "gzip"}


def test_bodies_are_unpacked_within_the_limit(site: Site) -> None:
    site.routes["/stated"] = Answer(b"x" * 5000)
    site.routes["/bomb"] = Answer(gzip.compress(b"x" * 5_000_000), headers=PACKED)
    for path in ("/stated", "/bomb"):
        error = failure(Fetch(f"{site.base}{path}", max_bytes=4000))
        assert "4000 bytes" in str(error)
        assert not error.retryable
    assert len(get(Fetch(f"{site.base}/stated", max_bytes=6000)).body) == 5000
    site.routes["/good"] = Answer(gzip.compress("élève".encode()), headers=PACKED)
    site.routes["/bad"] = Answer(b"no gzip at all", headers=PACKED)
    assert get(f"{site.base}/good").body.decode() == "élève"
    assert not failure(f"{site.base}/bad").retryable


@pytest.mark.parametrize(
    "answer", [Answer("late", delay=3), Answer("drop by drop", drip=0.5), Answer("half", cut=True)]
)
def test_slow_servers_end_at_the_time_limit_and_may_be_asked_again(
    site: Site, answer: Answer
) -> None:
    site.routes["/a"] = answer
    assert failure(Fetch(f"{site.base}/a", timeout=0.3)).retryable


def test_no_server_and_no_host_are_said_and_limits_are_by_host() -> None:
    assert failure("http://127.0.0.1:1/").retryable
    assert "no-such-host.invalid" in str(failure("http://no-such-host.invalid/"))
    handler = FetchHandler(FetchOptions())
    lanes = [handler.lane(Fetch(url)) for url in ("http://a/x", "https://a/y", "http://b/", "::")]
    assert lanes[0] == lanes[1] != lanes[2]
    assert handler.limit(lanes[0]) == 4
    for wrong in (FetchOptions(open_networks=("my lan",)), FetchOptions(proxy="our proxy")):
        with pytest.raises(ConfigError):
            get("http://8.8.8.8/", wrong)


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
