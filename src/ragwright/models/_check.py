"""Checks whether a model can be used, for ``doctor``."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Literal, TypeAlias

from ..core import ModelRefusedError, RagwrightError, listed
from ._registry import Models
from ._seams import Embedder
from ._transport import Connections, OpenAIServer

CheckState: TypeAlias = Literal["ok", "warning", "error"]


@dataclass(frozen=True, slots=True)
class Finding:
    """Result of the check of one model: state and one sentence (with what to do)."""

    model: str
    state: CheckState
    text: str


def check_model(models: Models, name: str, timeout: float = 10.0) -> Finding:
    """Check whether a model can be used, without paying for a reply.

    A server is asked for its list of models; a local one is opened and embeds one word. Must not be
    called on an event loop.
    """
    try:
        if not models.is_local(name):
            return asyncio.run(_check_server(models, name, timeout))
        backend = models.backend(name)
        embedder = (
            models.embedder(name) if backend is None or isinstance(backend, Embedder) else None
        )
        if embedder is None:
            return Finding(name, "ok", f"{type(backend).__name__}, a custom back end")
        width = embedder.embed_batch(["word"]).shape[1]
        window = "without a limit" if embedder.window is None else f"{embedder.window} tokens"
        return Finding(name, "ok", f"local, {width} dimensions, window {window}")
    except RagwrightError as error:
        return Finding(name, "error", str(error))


async def _check_server(models: Models, name: str, timeout: float) -> Finding:
    target = models.target(name)
    connections = Connections()
    try:
        names = await OpenAIServer(target, connections).models(timeout)
    except ModelRefusedError:
        return Finding(name, "warning", f"{target.base} answers, but has no list of models")
    finally:
        await connections.aclose()
    model = target.name.name
    if model in names or f"{model}:latest" in names or f"models/{model}" in names:
        return Finding(name, "ok", f"{target.base} has it")
    return Finding(
        name,
        "warning",
        f"{target.base} answers, but does not list {model!r} (it lists {listed(names, 5)})",
    )
