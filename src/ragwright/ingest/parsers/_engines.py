"""The parsers that ragwright knows: markitdown, kreuzberg, edgeparse, docling."""

from __future__ import annotations

import importlib
import io
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ...core import MissingExtraError
from ._reading import MEDIA_TYPES, Parser


def _suffix(kind: str) -> str:
    return ".xlsx" if kind == "sheet" else f".{kind}"


class MarkItDown(Parser):
    """MarkItDown of Microsoft; it gives no page numbers."""

    name = "markitdown"
    package = module = "markitdown"
    install = "'markitdown[pdf,docx,pptx,xlsx]'"
    kinds = frozenset({"pdf", "docx", "pptx", "sheet", "epub", "html"})

    def parse(self, data: bytes, name: str, kind: str) -> Sequence[str]:
        """Return one text."""
        engine: Any = importlib.import_module("markitdown")
        about = engine.StreamInfo(extension=_suffix(kind))
        read = engine.MarkItDown(enable_plugins=False)
        return [read.convert_stream(io.BytesIO(data), stream_info=about).markdown]


class Kreuzberg(Parser):
    """Kreuzberg, without text recognition; it gives no page numbers in Markdown."""

    name = "kreuzberg"
    package = module = "kreuzberg"
    install = "kreuzberg"
    kinds = frozenset(MEDIA_TYPES)
    room = 4_000_000_000

    def parse(self, data: bytes, name: str, kind: str) -> Sequence[str]:
        """Return one text."""
        engine: Any = importlib.import_module("kreuzberg")
        settings = engine.ExtractionConfig(output_format="markdown", use_cache=False)
        return [engine.extract_bytes_sync(data, MEDIA_TYPES[kind], config=settings).content]


class EdgeParse(Parser):
    """EdgeParse, for PDF files; it gives no page numbers in Markdown."""

    name = "edgeparse"
    package = module = "edgeparse"
    install = "edgeparse"
    room = 4_000_000_000

    def parse(self, data: bytes, name: str, kind: str) -> Sequence[str]:
        """Return one text."""
        engine: Any = importlib.import_module("edgeparse")
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "file.pdf"
            path.write_bytes(data)
            return [engine.convert(path, format="markdown", raster_table_ocr=False)]


class Docling(Parser):
    """Docling of IBM; its models must lie on this machine, nothing is fetched while it reads."""

    name = "docling"
    package = module = "docling"
    install = "docling"
    kinds = frozenset({"pdf", "docx", "pptx", "sheet", "html"})
    room = 16_000_000_000

    def parse(self, data: bytes, name: str, kind: str) -> Sequence[str]:
        """Return a text per page of a PDF, else one.

        Raises:
            MissingExtraError: Its models are not there.
        """
        os.environ.setdefault("HF_HUB_OFFLINE", "1")
        converter: Any = importlib.import_module("docling.document_converter")
        base: Any = importlib.import_module("docling.datamodel.base_models")
        stream = base.DocumentStream(name=f"file{_suffix(kind)}", stream=io.BytesIO(data))
        try:
            document = converter.DocumentConverter().convert(stream).document
        except Exception as error:
            if _weights_are_missing(error):
                raise MissingExtraError(
                    "docling has no models on this machine, and ragwright fetches none",
                    hint="run `docling-tools models download` where the network is open, and name "
                    "the folder in DOCLING_ARTIFACTS_PATH; or read with another `parser`",
                ) from error
            raise
        pages = sorted(document.pages) if kind == "pdf" else []
        if not pages:
            return [document.export_to_markdown()]
        return [document.export_to_markdown(page_no=number) for number in pages]


def _weights_are_missing(error: BaseException | None) -> bool:
    """Return True for errors of the hub's client, or caused by one."""
    while error is not None:
        if any(kind.__module__.startswith("huggingface_hub") for kind in type(error).__mro__):
            return True
        error = error.__cause__ or error.__context__
    return False
