"""Shows the pages of installed packages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request
from fastapi.responses import HTMLResponse

from ...core import PluginError, RagwrightError
from ._base import as_owner, error_page, page_from
from ._page import Page, opened_page

if TYPE_CHECKING:
    from ...workbench import Workbench

router = APIRouter()


@router.get("/added/{name}", response_class=HTMLResponse)
async def added_page(request: Request, name: str) -> HTMLResponse:
    """Show a page of an installed package."""
    query = dict(request.query_params)

    def work(bench: Workbench) -> tuple[Page, Mapping[str, Any]]:
        page = opened_page(name)
        try:
            return page, page.values(bench, query)
        except RagwrightError:
            raise
        except Exception as error:
            raise _page_fault(name, error) from error

    outcome = await as_owner(request, work)
    if isinstance(outcome, HTMLResponse):
        return outcome
    page, values = outcome
    try:
        return page_from(request, page.template, {"title": page.title, **values})
    except Exception as error:
        return error_page(request, _page_fault(name, error))


def _page_fault(name: str, error: Exception) -> PluginError:
    return PluginError(f"the page {name!r} failed: {type(error).__name__}: {error}")
