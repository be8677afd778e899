"""Settings: every key with its value, default and effect, and the line that would change it."""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from ...core import RagwrightError, holds_secret
from ...project import project_keys, setting_places
from .._api import caller_of, service_of
from .._errors import ApiError
from .._opened import OpenConfiguration
from .._service import OF_A_SERVER
from ._base import error_page, page

router = APIRouter()

_HIDDEN = "… (not shown: it holds a password or a key)"

_LISTS = ("models.NAME", "sources.[]", "jobs.NAME")


@router.get("/settings", response_class=HTMLResponse)
async def settings(
    request: Request, configuration: str = "", show: str = "all", find: str = ""
) -> HTMLResponse:
    """List the keys, or those that hold a text; those that differ from defaults are marked."""
    service, caller = service_of(request), caller_of(request)
    try:
        caller.require_owner()
        names = [configured.name for configured in service.configurations(caller.identity)]
        opened, _ = service.find(configuration, caller.identity)
        sections = await service.for_page(_setting_sections, opened, show == "changed")
        sections = _sections_with_words(sections, find.casefold().split())
    except (RagwrightError, ApiError) as error:
        return error_page(request, error)
    values = {
        "title": "Settings",
        "keys": sections,
        "configurations": names,
        "configuration": opened.name,
        "served": opened.number,
        "find": find.strip(),
        "show": "changed" if show == "changed" else "all",
    }
    return page(request, "settings.html", values)


def _setting_sections(opened: OpenConfiguration, changed: bool) -> dict[str, list[dict[str, Any]]]:
    project = opened.bench.project
    overrides = tuple(text for text in project.session.overrides if text not in OF_A_SERVER)
    places = setting_places(project.folder.file, overrides)
    sections: dict[str, list[dict[str, Any]]] = {}
    for key, when, default, sentence in project_keys():
        if key.startswith(_LISTS):
            continue
        value = project.settings.value(key)
        if key == "budget.max_cost":
            value = default  # a server has a budget a day instead
        differs = value != default
        if changed and not differs:
            continue
        yaml_text = _yaml_value(value)
        sections.setdefault(key.partition(".")[0], []).append(
            {
                "key": key,
                "value": yaml_text,
                "default": _yaml_value(default),
                "changed": differs,
                "source": _value_source(key, places, differs, opened.number),
                "sentence": sentence,
                "index": when == "index",
                "line": ""
                if _HIDDEN in yaml_text
                else f"--set {shlex.quote(f'{key}={yaml_text}')}",
                "yaml": "" if _HIDDEN in yaml_text else _yaml_lines(key, yaml_text),
            }
        )
    return sections


def _sections_with_words(
    sections: dict[str, list[dict[str, Any]]], words: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    """The keys whose name, value or sentence contains every word."""
    matching = {
        section: [
            row
            for row in rows
            if all(
                word in f"{row['key']} {row['value']} {row['sentence']}".casefold()
                for word in words
            )
        ]
        for section, rows in sections.items()
    }
    return {section: rows for section, rows in matching.items() if rows}


def _value_source(key: str, places: Mapping[str, str], differs: bool, number: int | None) -> str:
    """Return the place that a value comes from."""
    parts = key.split(".")
    for length in range(len(parts), 0, -1):
        where = places.get(".".join(parts[:length]), "")
        if where == "--set" or (where and length == len(parts) and number is None):
            return where
    if differs and number is not None:
        return f"promoted configuration {number}"
    return "project file" if differs else "default"


def _yaml_lines(key: str, yaml_text: str) -> str:
    """The lines of a project file that set a key."""
    *outer, last = key.split(".")
    lines = [f"{'  ' * depth}{part}:" for depth, part in enumerate(outer)]
    return "\n".join([*lines, f"{'  ' * len(outer)}{last}: {yaml_text}"])


def _yaml_value(value: Any) -> str:
    """A value as it is written in YAML, on one line."""
    return json.dumps(_json_without_secrets(value), ensure_ascii=False)


def _json_without_secrets(value: Any) -> Any:
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: _json_without_secrets(getattr(value, field.name)) for field in fields(value)
        }
    if isinstance(value, dict):
        return {str(key): _json_without_secrets(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_json_without_secrets(item) for item in value]
    if isinstance(value, str) and holds_secret(value):
        return _HIDDEN
    return value if isinstance(value, str | int | float | bool | None) else str(value)
