"""The section ``serve`` of a project file."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from ..core import ConfigError, option
from ..monitoring import ServedMeasureOptions
from ..operations import AuditOptions
from ..project import Settings
from ._people import PeopleOptions, ProxyOptions

LogForm: TypeAlias = Literal["warnings", "requests", "json"]

_PATH = re.compile(r"(?:/[\w.~-]+)+")
_ORIGIN = re.compile(r"https?://[\w.-]+(?::\d{1,5})?|https?://\[[0-9a-f:]+\](?::\d{1,5})?")


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """The address, the names and the limits under which a project is served."""

    name: str = option(
        "", "Name of the configuration in the ids of models; the folder's where empty."
    )
    host: str = option("127.0.0.1", "Address to listen on; any but a loopback address needs a key.")
    port: int = option(8321, "Port to listen on; 0: any free one.", ge=0)
    public_url: str = option(
        "",
        "Address under which readers reach the server, such as https://ask.example.org; links to "
        "sources begin with it. The address of each request where empty.",
    )
    root_path: str = option(
        "",
        "Path below which a proxy serves the pages and the API, such as /ragwright; the path of "
        "`serve.public_url` where empty.",
    )
    cors: tuple[str, ...] = option(
        (),
        "Origins such as https://app.example.org whose pages may call the API from a browser; "
        "none by default.",
    )
    personas: tuple[str, ...] = option(
        (),
        "Personas that are served, shipped ones too; those of the folder `personas` where empty.",
    )
    configurations: Mapping[str, tuple[str, ...]] = option(
        dict,
        "Further configurations by name: lists of `key.path=value` that replace settings of the "
        "served one.",
    )
    source_links: bool = option(
        False, "End answers with links to their sources, for programs that show no annotations."
    )
    log: LogForm = option(
        "warnings",
        "What `ragwright serve` logs to standard error: faults; a line per request too; or both as "
        "JSON.",
    )
    audit: AuditOptions = field(default_factory=AuditOptions)
    keep_answers: bool = option(
        True, "Store served answers among the outputs, for feedback and measurement."
    )
    answer_days: int | None = option(
        None, "Days that stored answers and their feedback are kept; without end by default.", ge=1
    )
    proxy: ProxyOptions = field(default_factory=ProxyOptions)
    people: PeopleOptions = field(default_factory=PeopleOptions)
    measure: ServedMeasureOptions = field(default_factory=ServedMeasureOptions)
    daily_budget: float | None = option(
        None, "Most money that all requests of a day (UTC) may cost; models then need prices.", gt=0
    )
    concurrency: int = option(
        64,
        "Answers made at once by one worker, and searches beside them; further requests wait.",
        ge=1,
    )
    drafts: int = option(
        4, "Drafts and scores made at once by one worker; further requests wait.", ge=1
    )
    waiting: int = option(
        256, "Requests that may wait for their turn; further ones get status 503.", ge=0
    )
    timeout: float = option(
        300.0, "Most seconds for one request, the wait for its turn included.", gt=0
    )
    max_body: int = option(4_000_000, "Most bytes of a request's body.", ge=1000)

    def __post_init__(self) -> None:
        """Refuse to measure answers that are not stored, and what is not a path or an origin."""
        if self.root_path and not _PATH.fullmatch(self.root_path):
            raise ConfigError(
                f"serve.root_path: {self.root_path!r} is not a path",
                hint="begin with a slash and end without one, as in /ragwright",
            )
        for origin in self.cors:
            if not _ORIGIN.fullmatch(origin):
                raise ConfigError(
                    f"serve.cors: {origin!r} is not an origin",
                    hint="write scheme and host without a path, as in https://app.example.org",
                )
        if self.measure.share and not self.keep_answers:
            raise ConfigError(
                "serve.measure.share measures stored answers, and serve.keep_answers is false",
                hint="set serve.keep_answers: true, or serve.measure.share: 0",
            )
        if self.knows_people and not self.people.admits:
            raise ConfigError(
                "serve.people lets nobody in",
                hint="map groups to roles, as in serve.people.roles: {reader: [staff]}, or set "
                "serve.people.default_role: reader for everybody whom the proxy names",
            )

    @property
    def knows_people(self) -> bool:
        """True where a proxy says who sends a request."""
        return bool(self.proxy.user_header)

    @property
    def prefix(self) -> str:
        """Path before every address of the server, without a slash at its end; mostly empty."""
        return self.root_path or urlsplit(self.public_url).path.rstrip("/")


def serve_options(settings: Settings) -> ServeOptions:
    """Return the section ``serve``."""
    return settings.part("serve", ServeOptions)
