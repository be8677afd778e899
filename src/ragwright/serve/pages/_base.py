"""The parts that all pages share: template, navigation, headers, files."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Mapping
from datetime import date
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from fastapi import APIRouter, Depends, Form, Request
from fastapi.responses import HTMLResponse, RedirectResponse, Response
from jinja2 import Environment, FileSystemLoader, StrictUndefined

from ...core import RagwrightError, StoreError
from ...drafting import FeedbackVerdict, OutputQuery
from ...jobs import format_day
from ...report import formatting, stylesheet
from ...testsets import holds_reviews
from ...workbench import Workbench
from .._chat import caller_of, service_of
from .._errors import ApiError
from .._keys import COOKIE, LIFE, PROXIED, cookie_of_key, hash_key, key_of_cookie
from .._service import Service

T = TypeVar("T")

VERDICTS: Mapping[str, FeedbackVerdict] = {"accepted": "accepted", "rejected": "rejected", "": ""}
"""Verdicts that a form may give on a text."""


def testset_files(folder: Path) -> list[Path]:
    """The testsets of a project's folder of them."""
    paths = [*folder.glob("*.jsonl"), *folder.glob("*.json")] if folder.is_dir() else []
    return sorted(p for p in paths if not holds_reviews(p) and p.name != "openings.jsonl")


_USED: Mapping[str, Callable[[Workbench], object]] = {
    "/testsets": lambda bench: (
        testset_files(bench.project.folder.testsets)
        or any(
            bench.outputs.count(OutputQuery(verdict=v, scope=None)) for v in VERDICTS.values() if v
        )
    ),
    "/experiments": lambda bench: (
        bench.list_runs() or bench.list_sweeps() or bench.list_baselines(1)
    ),
    "/outputs": lambda bench: bench.outputs.count(OutputQuery(scope=None)),
}
"""Sections that not every project uses -> something of them that is stored."""


async def _find_used(request: Request) -> None:
    """Note for the navigation which sections the project uses; a used one is asked for once."""
    service, caller = service_of(request), caller_of(request)
    shows = request.scope["route"].response_class is HTMLResponse
    try:
        if shows and caller.reviewer and (unknown := _USED.keys() - service.used):
            async with service.main() as bench:
                service.used |= await service.for_page(
                    lambda: {name for name in unknown if _USED[name](bench)}
                )
    except (RagwrightError, ApiError):  # what cannot be opened says so on its own page
        pass


router = APIRouter(
    include_in_schema=False,
    default_response_class=HTMLResponse,
    dependencies=[Depends(_find_used)],
)
"""Every page; none of them is part of the API's description.

What fails behind an address whose response is HTML is a page too.
"""

_BLANK = 32
"""Code of the first character that is not a control character."""

_FAULTS: Mapping[int, str] = {
    403: "You may not do this here",
    404: "This was not found",
    429: "Too many requests",
    503: "Not available now",
}
"""Status -> title of the page of an error."""

_DATA = Path(__file__).parent / "data"

STATIC: Mapping[str, str] = {
    "pages.js": "text/javascript",
    "htmx.min.js": "text/javascript",
    "pages.css": "text/css",
}
"""Files that pages load, and their media types."""

_SECTIONS = (
    ("Ask", "/", "reader"),
    ("Sources", "/sources", "reader"),
    ("Testsets", "/testsets", "reviewer"),
    ("Experiments", "/experiments", "owner"),
    ("Outputs", "/outputs", "owner"),
)
"""Name, address, the least role that sees it."""

_INSIDE = {"/source": "/sources"}
"""Other addresses -> the section they belong to."""


@cache
def _template_environment() -> Environment:
    environment = Environment(
        loader=FileSystemLoader(_DATA), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters |= {
        "date": date.fromisoformat,
        "nth_day": date.fromordinal,
        "day_text": format_day,
    }
    return environment


@cache
def static_file(name: str) -> bytes:
    """A file that pages load."""
    first = {"pages.css": stylesheet, "pages.js": formatting}.get(name)
    return ((first() if first else "") + (_DATA / name).read_text("utf-8")).encode()


def page(
    request: Request, template: str, values: Mapping[str, Any], *, status: int = 200
) -> HTMLResponse:
    """A page: everything escaped, only our own scripts, no framing by other sites."""
    service, caller = service_of(request), caller_of(request)
    identity = caller.identity
    roles = {
        "reader": True,
        "reviewer": caller.reviewer and not caller.restricted,
        "owner": caller.owner,
    }
    path = request.url.path
    inside = _INSIDE.get(path, path)
    frame = {
        "project": service.name,
        "sections": [
            {"name": name, "href": href, "here": here}
            for name, href, role in _SECTIONS
            for here in [inside == href or (href != "/" and inside.startswith(href))]
            if roles[role] and (here or href not in _USED or href in service.used)
        ],
        "keyed": identity is not None and not caller.name.startswith(PROXIED),
        "key_name": "" if identity is None else identity.shown,
        # who somebody is and what they may see: another mark when either changes
        "owner": ""
        if identity is None
        else hash_key(
            "\n".join((identity.name, identity.role, identity.scope, getattr(identity, "hash", "")))
        )[:16],
    }
    html = fragment(service, template, {**frame, **values})
    return HTMLResponse(html, status, headers=PAGE_HEADERS)


_OWN_LINK = re.compile(r' (?:href|action|src|hx-get|hx-post)="(?=/(?!/))')


def fragment(service: Service, template: str, values: Mapping[str, Any]) -> str:
    """A part of a page, everything escaped.

    Its links of ours begin with the path below which the server is reached.
    """
    root = service.options.prefix
    html = _template_environment().get_template(template).render({**values, "root": root})
    # texts hold no such quotes
    return _OWN_LINK.sub(lambda link: link[0] + root, html) if root else html


def error_page(request: Request, reply: ApiError) -> HTMLResponse:
    """An error for a reader."""
    message = f"{reply.message[:1].upper()}{reply.message[1:]}"
    title = _FAULTS.get(reply.status, "That did not work")
    values = {"title": title, "message": message, "status": reply.status}
    return page(request, "error.html", values, status=reply.status)


async def run_as_owner(request: Request, work: Callable[[Workbench], T]) -> T:
    """Return what ``work`` returns, called outside the event loop; refused to all but owners.

    Raises:
        ApiError: 403; or 404, what ``work`` asks for is not stored.
    """
    caller_of(request).require_owner()
    service = service_of(request)
    async with service.main() as bench:
        try:
            return await service.for_page(work, bench)
        except StoreError as error:
            raise ApiError(404, error.what, "not_found") from None


def login_page(request: Request, wanted: str, fault: str = "") -> HTMLResponse:
    """Asks for a key, and leads to a page of ours afterwards."""
    values = {"title": "Enter your key", "fault": fault, "next": local_path(wanted)}
    return page(request, "login.html", values, status=401 if fault else 200)


PRIVATE: Mapping[str, str] = {
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cache-control": "private, no-store",
}
"""Headers of everything that shows the project."""

PAGE_HEADERS: Mapping[str, str] = {
    "content-security-policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        "img-src 'self' data:; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    **PRIVATE,
}
"""Headers that also say what a browser may do with a page."""


def local_path(wanted: str) -> str:
    """A path of this server that is not part of signing in, else the first page."""
    foreign = not wanted.startswith("/") or wanted.startswith(("//", "/\\", "/login"))
    # Browsers leave out tabs and ends of lines, and so would read //host.
    hidden = any(ord(character) < _BLANK for character in wanted)
    return "/" if foreign or hidden else wanted


@router.get("/login")
async def login(request: Request, next: str = "/") -> HTMLResponse:  # noqa: A002
    """Ask for a key."""
    return login_page(request, next)


@router.post("/login")
async def log_in(request: Request, key: str = Form(""), next: str = Form("/")) -> Response:  # noqa: A002
    """Put a signed cookie in the place of the key; no script can read it."""
    caller = caller_of(request)
    known = await asyncio.to_thread(service_of(request).keys.find, key.strip())
    if known is None:
        caller.note.identified("sign-in failed", "")
        fault = "This key is unknown. Check that all of it was copied: keys begin with rw_."
        return login_page(request, next, fault)
    caller.note.identified("signed in", known.name, known.role)
    reply = RedirectResponse(local_path(next), 303)
    secure = caller.base.startswith("https://")
    # Lax: a link of another site, such as a citation in a chat program, opens the document. What
    # changes something is a POST, and needs the origin of this server.
    reply.set_cookie(
        COOKIE, cookie_of_key(known), LIFE, secure=secure, httponly=True, samesite="lax"
    )
    return reply


@router.post("/logout")
async def log_out(request: Request) -> Response:
    """Delete the cookie."""
    keys, sent = service_of(request).keys, request.cookies.get(COOKIE, "")
    key = await asyncio.to_thread(key_of_cookie, keys, sent)
    if key is not None:
        caller_of(request).note.identified("signed out", key.name, key.role)
    reply = RedirectResponse("/login", 303)
    reply.delete_cookie(COOKIE, httponly=True, samesite="lax")
    return reply


@router.get("/static/{name}", response_class=Response)
async def static(name: str) -> Response:
    """A script or a style sheet."""
    if name not in STATIC:
        raise ApiError(404, "file not found", "not_found")
    headers = {"cache-control": "public, max-age=3600", "x-content-type-options": "nosniff"}
    return Response(static_file(name), media_type=STATIC[name], headers=headers)
