"""Checks whether a model can be used, and measures the memory and speed of a local one."""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import multiprocessing
import sys
import time
from collections.abc import Mapping
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from ..core import ModelError, ModelRefusedError, RagwrightError, list_names, spawning
from ._options import EmbedOptions, ModelSettings
from ._registry import Models
from ._seams import Embedder
from ._transport import Connections, OpenAIServer


@dataclass(frozen=True, slots=True)
class ModelFinding:
    """Result of the check of one model: state and one sentence (with what to do)."""

    model: str
    state: Literal["ok", "warning", "error"]
    text: str


def check_model(models: Models, name: str, timeout: float = 10.0) -> ModelFinding:
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
            return ModelFinding(name, "ok", f"{type(backend).__name__}, a custom back end")
        width = embedder.embed_batch(["word"]).shape[1]
        window = "without a limit" if embedder.window is None else f"{embedder.window} tokens"
        return ModelFinding(name, "ok", f"local, {width} dimensions, window {window}")
    except RagwrightError as error:
        return ModelFinding(name, "error", str(error))


async def _check_server(models: Models, name: str, timeout: float) -> ModelFinding:
    target = models.target(name)
    connections = Connections()
    try:
        names = await OpenAIServer(target, connections).models(timeout)
    except ModelRefusedError:
        return ModelFinding(name, "warning", f"{target.base} answers, but has no list of models")
    finally:
        await connections.aclose()
    model = target.name.name
    if model in names or f"{model}:latest" in names or f"models/{model}" in names:
        return ModelFinding(name, "ok", f"{target.base} has it")
    return ModelFinding(
        name,
        "warning",
        f"{target.base} answers, but does not list {model!r} (it lists {list_names(names, 5)})",
    )


_WORDS = (
    "The pressure of the brake fluid falls when the reservoir is below its mark and the pump "
    "runs dry; check the hose, the seal and the valve before the next start, note the code that "
    "the panel shows, and compare it with the table of faults on the last page of this manual. "
)
_TEXTS = tuple(f"{number}. {_WORDS}{_WORDS}" for number in range(32))
"""Texts of about 100 words, none equal to another."""


@dataclass(frozen=True, slots=True)
class Speed:
    """The time and memory that a local model takes on this machine.

    Attributes:
        seconds: Seconds to open it, the import of its library included.
        megabytes: Growth of the process while it was opened and run, in 10**6 bytes.
        per_second: Texts of 100 words embedded per second, or pairs scored, with ``embed.threads``.
        dimensions: Length of a vector; 0 for a reranking model.
        window: Most tokens of a text; None for no limit.
    """

    seconds: float
    megabytes: float
    per_second: float
    dimensions: int
    window: int | None


def measure_model(models: Models, name: str, *, reranks: bool = False) -> Speed:
    """Open a local model in a new process, run it on 32 texts, and measure both.

    Raises:
        RagwrightError: The model cannot be opened; one on the hub is fetched before.
        ModelError: The process ended, for example because the memory was full.
    """
    if models.target(name).name.provider == "hf":
        models.hub.folder(models.target(name).name.name)
    context = multiprocessing.get_context("spawn")
    arguments = (models.directory.settings, models.embed, models.root, name, reranks)
    with spawning(), ProcessPoolExecutor(1, mp_context=context) as pool:
        try:
            return pool.submit(_model_speed, *arguments).result()
        except BrokenProcessPool as error:
            raise ModelError(
                "the process that opened the model ended",
                where=name,
                hint="the memory may be full; choose a smaller model",
            ) from error


def _model_speed(
    settings: Mapping[str, ModelSettings],
    embed: EmbedOptions,
    root: Path | None,
    name: str,
    reranks: bool,
) -> Speed:
    models = Models(settings, embed, root)
    before, start = _resident_bytes(), time.perf_counter()
    if reranks:
        reranker = models.reranker(name)
        opened = time.perf_counter()
        reranker.score("which code does the panel show?", _TEXTS)
        dimensions, window = 0, getattr(reranker, "window", None)
    else:
        embedder = models.embedder(name)
        assert embedder is not None, "called for local models"
        opened = time.perf_counter()
        embedder.embed_batch(list(_TEXTS))
        dimensions, window = embedder.dimensions, embedder.window
    seconds = time.perf_counter() - opened
    grown = max(0, _resident_bytes() - before) / 1e6
    return Speed(opened - start, grown, len(_TEXTS) / seconds, dimensions, window)


def _resident_bytes() -> int:
    """Bytes of this process in memory; the peak where the system does not report them."""
    try:
        fields = Path("/proc/self/status").read_text("utf-8").splitlines()
        return 1024 * next(int(line.split()[1]) for line in fields if line.startswith("VmRSS"))
    except (OSError, StopIteration):
        return _peak_bytes()


def _peak_bytes() -> int:
    if importlib.util.find_spec("resource") is None:  # Windows
        return 0
    resource: Any = importlib.import_module("resource")
    used: int = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return used if sys.platform == "darwin" else 1024 * used
