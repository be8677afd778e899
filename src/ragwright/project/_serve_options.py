"""How a project is served, as its file says."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from ..core import option


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """Where a project is served, under which names, and within which limits."""

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
    personas: tuple[str, ...] = option((), "Personas that are served; all of them where empty.")
    configurations: Mapping[str, tuple[str, ...]] = option(
        dict,
        "Further configurations by name: lists of `key.path=value` that replace settings of the "
        "served one.",
    )
    source_links: bool = option(
        False, "End answers with links to their sources, for programs that show no annotations."
    )
    keep_answers: bool = option(
        True, "Store served answers among the outputs, for feedback and measurement."
    )
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
