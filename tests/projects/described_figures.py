"""A project with figures that a scripted vision model describes."""

from __future__ import annotations

import base64
from typing import Any

import numpy as np

from ragwright import Workbench
from ragwright.ingest import png_file
from ragwright.testing import ScriptedServer, ServerRequest

TEXT = "A cutaway drawing of the zirconium gasket TX-4711."


def drawing(shade: int) -> bytes:
    return png_file(np.full((120, 160), shade, dtype=np.uint8))


def page(*images: bytes) -> str:
    figures = "".join(
        f"<p>{'The pump is driven by a steel shaft. ' * 9} Part {number}.</p>"
        f"<figure><img alt='Drawing {number}' "
        f"src='data:image/png;base64,{base64.b64encode(image).decode()}'></figure>"
        for number, image in enumerate(images, 1)
    )
    return f"<html><body><h1>Pumps</h1>{figures}</body></html>"


def images_of(request: ServerRequest) -> list[bytes]:
    """The images of a request."""
    parts = request.body["messages"][-1]["content"]
    urls = [part["image_url"]["url"] for part in parts if part["type"] == "image_url"]
    return [base64.b64decode(url.partition("base64,")[2]) for url in urls]


def settings(server: ScriptedServer, more: str = "") -> str:
    model = f"{server.url}#eye"
    return (
        f"ingest: {{image_model: '{model}'}}\nbudget: {{concurrency: 1}}\n"
        f"models: {{'{model}': {{price_in: 1000, price_out: 1000, timeout: 5}}}}\n{more}"
    )


def figures(bench: Workbench) -> list[dict[str, Any]]:
    hits = bench.retrieve("pump shaft drawing", 50).hits
    return [figure for group in bench.figures(hits).values() for figure in group]
