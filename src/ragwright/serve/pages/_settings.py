"""Settings: every key with its value, default and effect, and the line that would change it."""

from __future__ import annotations

import asyncio
import json
from dataclasses import fields, is_dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from ...core import RagwrightError
from ...project import project_keys
from .._api import caller_of, service_of
from .._errors import ApiError
from ._base import error_page, page

router = APIRouter()

_LISTS = ("models.NAME", "sources.[]", "jobs.NAME")


@router.get("/settings", response_class=HTMLResponse)
async def settings(request: Request, configuration: str = "") -> HTMLResponse:
    """List the keys; those that differ from their defaults are marked."""
    service, caller = service_of(request), caller_of(request)
    try:
        caller.require_owner()
        names = [one.name for one in service.configurations(caller.key)]
        opened, _ = service.find(configuration, caller.key)
        sections = await asyncio.to_thread(_sections, opened.bench.project.settings)
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    values = {
        "title": "Settings",
        "keys": sections,
        "configurations": names,
        "configuration": opened.name,
        "served": opened.number,
    }
    return page(request, "settings.html", values)


def _sections(found: Any) -> dict[str, list[dict[str, Any]]]:
    sections: dict[str, list[dict[str, Any]]] = {}
    for key, when, default, sentence in project_keys():
        if key.startswith(_LISTS):
            continue
        value: Any = found
        for part in key.split("."):
            value = getattr(value, part)
        shown = _plain(value)
        sections.setdefault(key.partition(".")[0], []).append(
            {
                "key": key,
                "value": shown,
                "default": _plain(default),
                "changed": value != default,
                "sentence": sentence,
                "when": "rebuilds the index" if when == "index" else "takes effect at once",
                "line": f"--set {key}={shown}",
            }
        )
    return sections


def _plain(value: Any) -> str:
    """A value as it is written in YAML, on one line."""
    return json.dumps(_json(value), ensure_ascii=False)


def _json(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {field.name: _json(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, dict):
        return {str(key): _json(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_json(one) for one in value]
    return value if isinstance(value, str | int | float | bool | None) else str(value)
