"""From sources to documents by the first reader that accepts; how addresses are fetched."""

from __future__ import annotations

import asyncio
import ipaddress
import re
import socket
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urljoin

from ..core import (
    GROUPS,
    AddressRefusedError,
    ConfigError,
    Document,
    FetchError,
    Filter,
    RagwrightError,
    StoppedError,
    UnclearGroupsError,
    UnsupportedSourceError,
    common_groups,
    find_additions,
    group_names,
    make_addition,
    misspelt_groups,
    option,
    reader_filter,
    retry_after,
    value_hash,
)
from ..flow import Fetch, FetchReply, OnDelta, SendHandler
from ._apart import ScanProgress
from ._files import FileReader, RemoteReader
from ._options import (
    Failure,
    FetchOptions,
    Reader,
    SourceFile,
    SourceOptions,
    SuffixReader,
    catch_failures,
    reader_error,
)
from ._web import ArxivReader, BeirReader, WebReader, WikipediaReader
from .parsers import check_parser

_FORMS = (
    "a file, folder or pattern (manuals/*.pdf)",
    "https://…",
    "wikipedia:Title or wikipedia:fr:Titre",
    "arxiv:2401.01234 or arxiv:words?max=5",
    "beir:FOLDER",
    "s3://BUCKET/FOLDER, gs://, az://, sftp://, github://ORG:REPO@REF/, zip://::FILE.zip",
)


def default_readers(
    options: SourceOptions | None = None,
    base: Path | None = None,
    home: Path | None = None,
    scans: ScanProgress | None = None,
) -> tuple[Reader, ...]:
    """The readers in the order in which they are tried: of installed packages, then built-in.

    If the options name a reader, it is alone; a `SuffixReader` has the reader of files behind it.

    Args:
        options: What to read and within which limits.
        base: Folder that relative paths start from; the working directory by default.
        home: Folder that ids of documents are relative to; ``base`` by default.
        scans: Counts the pages that OCR reads.

    Raises:
        MissingExtraError: The parser that the options name is not installed.
        PluginError: A custom reader cannot be loaded.
    """
    options = options or SourceOptions()
    check_parser(options)
    chosen = [options.reader] if options.reader else find_additions("readers")
    installed = tuple(map(load_reader, chosen))
    by_suffix = {
        suffix: reader
        for reader in installed
        if isinstance(reader, SuffixReader)
        for suffix in reader.suffixes
    }
    files = FileReader(options, base, home, scans, by_suffix)
    if options.reader:
        return (*installed, files) if by_suffix else installed
    return (
        *installed,
        BeirReader(base or Path()),
        WikipediaReader(),
        ArxivReader(options),
        WebReader(options),
        RemoteReader(options, base, home, scans),
        files,
    )


def load_reader(address: str) -> Reader:
    """The custom reader of a name: a `Reader`, or a callable that returns one.

    Args:
        address: ``module:object``, or the name of an installed reader.

    Raises:
        PluginError: It cannot be loaded, or is not a reader.
    """
    return make_addition("readers", address, Reader, "reader")  # type: ignore[type-abstract]


def pick_reader(source: str, readers: Sequence[Reader]) -> Reader:
    """Return the first reader that accepts a source.

    Raises:
        UnsupportedSourceError: None accepts it; the error lists the known forms.
        SourceError: A reader fails when it checks the source.
    """
    for reader in readers:
        try:
            accepted = reader.accepts(source)
        except RagwrightError:
            raise
        except Exception as error:
            raise reader_error(reader, source, error) from error
        if accepted:
            return reader
    raise UnsupportedSourceError(
        f"no reader for sources of the kind {source.partition(':')[0] + ':'!r}",
        where=source,
        hint="known are " + "; ".join(_FORMS),
    )


def files_of(reader: Reader, source: str) -> Iterator[SourceFile | Failure] | None:
    """List the files of a source; None if it is not made of files."""
    try:
        files = reader.files(source)
    except StoppedError:
        raise
    except Exception as error:
        return iter([Failure(source, reader_error(reader, source, error))])
    return None if files is None else catch_failures(files, source, reader)


_MEANING = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}


@dataclass(frozen=True, slots=True)
class GroupRule:
    """The groups that may read documents below a folder, or of a pattern."""

    match: str = option(
        "",
        "Folder or pattern of documents by id or by path within their source: hr, hr/**, "
        "**/*.secret.md, record:*.",
        when="index",
    )
    groups: tuple[str, ...] = option((), "Groups that may read them.", when="index")

    def __post_init__(self) -> None:
        """Refuse a rule that matches nothing, or names no groups."""
        if not self.match.strip("/ "):
            raise ConfigError(
                "a rule of groups matches no document", hint="write match: a folder or a pattern"
            )
        group_names(self.groups)

    def applies(self, path: str) -> bool:
        """True for a path that the rule matches, or that lies in a folder which it matches."""
        return _pattern(self.match).fullmatch(path) is not None


@cache
def _pattern(match: str) -> re.Pattern[str]:
    bare = match.strip().removeprefix("./").strip("/")
    parts = [
        _MEANING.get(part, re.escape(part)) for part in re.findall(r"\*\*/|\*\*|[*?]|[^*?]+", bare)
    ]
    return re.compile(f"{''.join(parts)}(?:[/#].*)?", re.DOTALL)


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """Which groups of readers may read which documents.

    Where several places name groups for a document (its front matter, a rule, its source), those
    may read it that all of them name.
    """

    ungrouped: Literal["everyone", "owners"] = option(
        "everyone", "Who may read documents without groups: everyone, or owners only."
    )
    rules: tuple[GroupRule, ...] = option(
        (), "Groups by folder or pattern; the last rule that matches a document holds."
    )

    def right(self, groups: Iterable[str]) -> Filter:
        """The right of a reader of some groups to read."""
        return reader_filter(groups, ungrouped=self.ungrouped == "everyone")

    @property
    def key(self) -> str:
        """A hash of the rules, empty without any."""
        rules = [[rule.match, list(rule.groups)] for rule in self.rules]
        return value_hash(rules) if rules else ""

    def labelled(
        self, items: Iterator[Document | Failure], source: str, fields: Mapping[str, Any]
    ) -> Iterator[Document | Failure]:
        """Documents with checked groups, and with the fields of their source.

        A document whose groups cannot be read becomes a failure: it must not become everyone's.

        Args:
            items: The documents of a source.
            source: The source.
            fields: Fields that every document of the source gets.
        """
        for item in items:
            try:
                yield self._label(item, source, fields) if isinstance(item, Document) else item
            except UnclearGroupsError as error:
                yield Failure(item.id if isinstance(item, Document) else item.source, error)

    def _label(self, document: Document, source: str, fields: Mapping[str, Any]) -> Document:
        """Label a document."""
        if misspelt := misspelt_groups(document.metadata):
            raise UnclearGroupsError(
                f"metadata: {misspelt!r} is not a field, but nearly {GROUPS!r}",
                where=document.id,
                hint=f"name it {GROUPS}, or give the field another name",
            )
        stated = document.metadata.get(GROUPS)
        paths = _paths(document.id, source)
        matching = (rule for rule in reversed(self.rules) if any(map(rule.applies, paths)))
        of_rule = next((group_names(rule.groups) for rule in matching), ())  # the last one holds
        try:
            of_document = () if stated is None else group_names(stated)
        except ConfigError as error:
            raise UnclearGroupsError(
                f"{GROUPS}: {error.what}: without them the document would be everyone's",
                where=document.id,
                hint=error.hint,
            ) from error
        groups = common_groups((of_document, of_rule, fields.get(GROUPS, ())))
        if groups is None:
            places = (("the document names", of_document), ("a rule names", of_rule))
            stated_by = " and ".join(f"{place} {', '.join(g)}" for place, g in places if g)
            raise UnclearGroupsError(
                f"no group may read the document: {stated_by}, and no group is named everywhere",
                where=document.id,
                hint="name a group in all of them: the document, the rule and its source",
            )
        named = {GROUPS: groups} if groups else {}
        return replace(document, metadata={**document.metadata, **fields, **named})

    def unused(self, sources: Sequence[tuple[str, str]]) -> list[str]:
        """Patterns of rules that match none of some documents, by (id, source)."""
        paths = [path for pair in sources for path in _paths(*pair)] if self.rules else []
        return [rule.match for rule in self.rules if not any(map(rule.applies, paths))]


def _paths(document_id: str, source: str) -> list[str]:
    """A document's id, and its path within its source."""
    return [document_id, document_id.removeprefix(source.removeprefix("./").rstrip("/") + "/")]


Network = ipaddress.IPv4Network | ipaddress.IPv6Network
Resolve = Callable[[str, int], Awaitable[list[str]]]
"""Addresses of a host and port, best first."""

_SPECIAL = {
    ipaddress.ip_network(block): kind
    for kind, blocks in {
        "a cloud's own service": "168.63.129.16",
        "a cloud's metadata service": "169.254.169.254 fd00:ec2::254 100.100.100.200",
        "this machine": "127.0.0.0/8 ::1/128",
        "a link-local address": "169.254.0.0/16 fe80::/10",
        "a multicast address": "224.0.0.0/4 ff00::/8",
        "a private or reserved address": "0.0.0.0/8 10.0.0.0/8 100.64.0.0/10 172.16.0.0/12 "
        "192.0.0.0/24 192.0.2.0/24 192.31.196.0/24 192.52.193.0/24 192.88.99.0/24 192.168.0.0/16 "
        "192.175.48.0/24 198.18.0.0/15 198.51.100.0/24 203.0.113.0/24 240.0.0.0/4 "
        "2001::/23 2001:db8::/32 2002::/16 2620:4f:8000::/48 3fff::/20 ::/3 4000::/2 8000::/1",
    }.items()
    for block in blocks.split()
}
"""IANA's special-purpose addresses (2025), those with a kind of their own first; of IPv6 all but
2000::/3, which alone is given to hosts of the internet. Python's ``is_global`` lacks some of them,
and which ones depends on its version."""


async def resolve(host: str, port: int) -> list[str]:
    """Resolve a host with the system's resolver; each address once, in its order.

    Raises:
        FetchError: No such host; retryable if the resolver itself failed.
    """
    loop = asyncio.get_running_loop()
    try:
        entries = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise FetchError(
            f"the host {host!r} has no address",
            hint="check the spelling and the network connection",
            retryable=isinstance(error, socket.gaierror) and error.errno == socket.EAI_AGAIN,
        ) from error
    return list(dict.fromkeys(str(entry[4][0]) for entry in entries))


def refusal(text: str, opened: Iterable[Network] = ()) -> str:
    """Return why an address may not be fetched; empty if it may.

    Refused are all special-purpose addresses (private, shared, loopback, link-local, multicast,
    documentation, protocols and their tunnels) and the metadata services of clouds, also where an
    IPv6 address wraps one of them. Networks in ``opened`` are allowed.
    """
    address = ipaddress.ip_address(text.partition("%")[0])
    if any(address in network for network in opened):
        return ""
    if address in ipaddress.IPv6Network("64:ff9b::/96"):  # NAT64: the last 32 bits are of IPv4
        address = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
    return next((kind for network, kind in _SPECIAL.items() if address in network), "")


if TYPE_CHECKING:
    import httpx2

_MOST_REDIRECTS = 5
_HINTS = {
    401: "the page needs a login",
    403: "the server refuses access; open the page in a browser to see why",
    404: "check the address",
    410: "the page no longer exists",
    429: "fetch fewer pages at once from this host",
}


class FetchHandler(SendHandler[Fetch, FetchReply]):
    """Carries out `Fetch` requests over HTTP and HTTPS.

    Names are resolved here, all addresses of a host are checked, and the connection goes to
    an address that was checked: a name that changes its answer between the check and the
    connection (DNS rebinding) has no effect. Each redirect is checked like the first address.
    Certificates are verified for the name (``SSL_CERT_FILE`` adds a private authority). Proxies of
    the environment are not used, because they resolve names themselves; with the option ``proxy`` a
    name is checked if this machine can resolve it, and the proxy decides the address.

    Args:
        options: Limits.
        resolver: Resolves names; the system's by default.
    """

    def __init__(self, options: FetchOptions | None = None, resolver: Resolve = resolve) -> None:
        self.options = options or FetchOptions()
        self._resolve = resolver
        try:
            networks = (ipaddress.ip_network(n, strict=False) for n in self.options.open_networks)
            self._opened = tuple(networks)
        except ValueError as error:
            raise ConfigError(
                f"not a network: {error}", hint="write it like 10.1.0.0/16 or 10.1.2.3"
            ) from error
        self._transport: httpx2.AsyncHTTPTransport | None = None

    def lane(self, request: Fetch) -> str:
        """Return the host: hosts do not slow each other down."""
        return f"fetch {request.url.partition('//')[2].partition('/')[0]}"

    def limit(self, lane: str) -> int | None:
        """Return how many fetches from one host may run side by side."""
        return 4

    async def send(self, request: Fetch, on_delta: OnDelta | None = None) -> FetchReply:
        """Fetch an address.

        Raises:
            AddressRefusedError: The address, or a redirect, leads to a private network.
            FetchError: No such host, no reply in time, a reply over ``max_bytes``, too many
                redirects, or an HTTP error; ``retryable`` says whether to try again.
        """
        import httpx2

        seconds = request.timeout or 30.0  # redirects included
        try:
            async with asyncio.timeout(seconds):
                return await self._follow(request)
        except TimeoutError as error:
            raise FetchError(
                f"no complete reply within {seconds:g} s",
                where=request.url,
                hint="raise the request's own timeout" if request.timeout else "try again later",
                retryable=True,
            ) from error
        except (httpx2.RequestError, OSError) as error:
            text = str(error) or type(error).__name__
            certificate = "certificate" in text.lower()
            raise FetchError(
                f"no complete reply: {text}",
                where=request.url,
                hint="the certificate is not trusted, or not valid for this host"
                if certificate
                else None,
                retryable=not certificate and not isinstance(error, httpx2.DecodingError),
            ) from error
        except FetchError as error:
            error.where = error.where or request.url
            raise

    async def aclose(self) -> None:
        """Close the connections."""
        if self._transport is not None:
            await self._transport.aclose()
            self._transport = None

    async def _follow(self, request: Fetch) -> FetchReply:
        url = check_url(request.url)
        for _ in range(_MOST_REDIRECTS + 1):
            response = await self._connect(url, await self._targets(url))
            try:
                location = response.headers.get("location")
                if not location or response.status_code not in (301, 302, 303, 307, 308):
                    return await _read(response, url, request)
            finally:
                await response.aclose()
            url = check_url(location, base=str(url))
        raise FetchError(
            f"more than {_MOST_REDIRECTS} redirects",
            where=str(url),
            hint="open the page in a browser",
        )

    async def _targets(self, url: httpx2.URL) -> list[str]:
        """Return what to connect to, best first: addresses that may be fetched, or names."""
        host = url.raw_host.decode("ascii")
        addresses: list[str] = []
        unknown = (FetchError,) if self.options.proxy else ()  # the proxy may know the host
        with suppress(*unknown):
            port = url.port or (443 if url.scheme == "https" else 80)
            addresses = await self._resolve(host, port)
        for address in addresses:
            if reason := refusal(address, self._opened):
                raise AddressRefusedError(
                    f"the host {host!r} has the address {address}, {reason}",
                    hint="if you trust it, add the address or its network to "
                    f'`fetch.open_networks`: ["{address}"]',
                )
        return [host] if self.options.proxy else addresses[:3]

    async def _connect(self, url: httpx2.URL, targets: list[str]) -> httpx2.Response:
        """Return response headers from the first address that takes the connection."""
        import httpx2

        last: Exception | None = None
        host, origin = url.raw_host.decode("ascii"), url.netloc.decode("ascii")
        agent = f"ragwright/{version('ragwright')}"
        for target in targets:
            request = httpx2.Request(
                "GET",
                url.copy_with(host=target),
                headers={
                    "accept": "*/*",
                    "accept-encoding": "gzip, deflate",
                    "user-agent": agent,
                    "host": origin,
                },
                extensions={"sni_hostname": host, "timeout": {"connect": 10.0}},
            )
            try:
                return await self._open().handle_async_request(request)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                last = error
        raise last or FetchError("the host has no address")

    def _open(self) -> httpx2.AsyncHTTPTransport:
        if self._transport is None:
            import httpx2

            # Connections are pooled by address; kept open, one could serve another host of
            # the same address whose certificate was never looked at.
            limits = httpx2.Limits(max_connections=100, max_keepalive_connections=0)
            try:
                self._transport = httpx2.AsyncHTTPTransport(
                    limits=limits, proxy=self.options.proxy or None
                )
            except (ValueError, httpx2.InvalidURL) as error:
                raise ConfigError(
                    f"{self.options.proxy!r} is not a proxy: {error}", hint="write http://host:port"
                ) from error
        return self._transport


def check_url(text: str, base: str = "") -> httpx2.URL:
    """Check that an address names a host over http or https and no user; returns no fragment.

    Args:
        text: Address, relative to ``base`` where there is one.
        base: Page that redirects to it.

    Raises:
        FetchError: It is not a valid address.
    """
    import httpx2

    where = base or text
    try:
        url = httpx2.URL(urljoin(base, text.strip()))
        url.raw_host.decode("ascii")
    except (httpx2.InvalidURL, ValueError) as error:
        raise FetchError(f"{text!r} is not an address: {error}", where=where) from error
    if url.scheme not in {"http", "https"} or not url.host:
        raise FetchError(
            f"{text!r} is not an http or https address",
            where=where,
            hint="only http:// and https:// are fetched",
        )
    if url.userinfo:
        raise FetchError(
            "an address with a user name or password in it is not fetched",
            where=str(url.copy_with(userinfo=b"")),
            hint="send credentials as a header",
        )
    return url.copy_with(fragment=None)


async def _read(response: httpx2.Response, url: httpx2.URL, request: Fetch) -> FetchReply:
    """Read the decoded body of a reply; stops if it grows past ``max_bytes``."""
    status, most = response.status_code, request.max_bytes
    if not 200 <= status < 300:
        raise FetchError(
            f"the server answered {status}",
            where=str(url),
            hint=_HINTS.get(status),
            status=status,
            retry_after=retry_after(response.headers.get("retry-after")),
            retryable=status in (408, 425, 429, 500, 502, 503, 504),
        )
    body = bytearray()
    async for part in response.aiter_bytes():
        body += part
        if len(body) > most:
            raise FetchError(
                f"the reply is larger than {most} bytes",
                where=str(url),
                hint="save it as a file and name that as a source",
            )
    headers = {name.lower(): value for name, value in response.headers.items()}
    return FetchReply(str(url), status, headers, bytes(body))
