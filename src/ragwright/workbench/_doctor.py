"""`doctor`: what is configured, what is missing, what costs money."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sqlite3
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from ..answer import compose
from ..core import ConfigError, Persona, RagwrightError, listed, writable
from ..drafting import record_findings
from ..jobs import CheckLine, job_findings
from ..models import ExtractiveReranker, check_model
from ..project import doubtful_documents

if TYPE_CHECKING:
    from ._workbench import Workbench

_EXTRAS = {
    "ann": (("faiss",), "approximate search (store.approximate)"),
    "cluster": (("daft", "ray"), "refreshing records on a Ray cluster (records.engine: ray)"),
    "delta": (("deltalake",), "tables of records as Delta tables (records export --delta)"),
    "docs": (
        ("pypdfium2", "pdfplumber", "docx", "pptx", "python_calamine", "selectolax"),
        "PDF, DOCX, PPTX, XLSX and HTML",
    ),
    "embed": (
        ("huggingface_hub", "model2vec", "onnxruntime", "tokenizers"),
        "local embedding models (hf:ORG/NAME, onnx:FOLDER)",
    ),
    "jobs": (("apprise",), "notices of jobs"),
    "lance": (("lancedb",), "LanceDB as the store"),
    "ocr": (("rapidocr", "onnxruntime", "pypdfium2"), "scanned PDF pages and images"),
    "records": (("daft", "pyarrow", "sqlalchemy"), "tables of records (ragwright records)"),
    "serve": (
        ("fastapi", "mcp", "prometheus_client", "uvicorn"),
        "the HTTP server and tools for agents (ragwright serve, ragwright mcp)",
    ),
    "torch": (
        ("sentence_transformers", "torch"),
        "sentence-transformers models (st:NAME) and export to ONNX",
    ),
}
"""Extra -> the modules it brings, and what it is for."""

_LITTLE_ROOM = 20_000_000
"""Free bytes below which the next refresh or draft may fail."""


@dataclass(frozen=True, slots=True)
class Check:
    """One finding: ``ok``, ``note`` (works, with a remark) or ``fault``, and what to do."""

    topic: str
    state: Literal["ok", "note", "fault"]
    text: str
    do: str = ""


def doctor(
    bench: Workbench, *, ask_models: bool = False, check_line: CheckLine | None = None
) -> list[Check]:
    """Findings on a project, in the order of setting it up.

    ``ask_models`` also asks each server for its list of models and opens each local model;
    no reply is paid for either way. ``check_line`` validates the command lines of jobs.
    """
    asked = list(_asked(bench)) if ask_models else []
    return [
        *_machine(),
        *_extras(),
        *_folder(bench),
        *_sources(bench),
        *_index(bench),
        *(Check("records", *found) for found in record_findings(bench.project)),
        *_models(bench),
        *_databases(bench),
        *asked,
        *(Check("jobs", *found) for found in job_findings(bench.project.settings.jobs, check_line)),
        *_money(bench),
    ]


def _machine() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield Check("machine", "ok", f"Python {version}, SQLite {sqlite3.sqlite_version}")
    threads = os.environ.get("OMP_NUM_THREADS")
    if threads is None:
        yield Check(
            "machine",
            "note",
            f"numpy may use all {os.cpu_count()} cores for a search; local models use the "
            "threads of embed.threads",
            "set OMP_NUM_THREADS=1 if other work shares the machine",
        )


def _extras() -> Iterator[Check]:
    for extra, (modules, use) in _EXTRAS.items():
        if all(importlib.util.find_spec(module) for module in modules):
            yield Check("extras", "ok", f"[{extra}]: {use}")
        else:
            what = f"[{extra}] is not installed; it is for {use}"
            yield Check("extras", "note", what, f"pip install 'ragwright[{extra}]'")


def _folder(bench: Workbench) -> Iterator[Check]:
    """Faults if the project's folders cannot be written."""
    folder = bench.project.folder
    if not writable(folder.data / "store"):
        yield Check(
            "folder",
            "note",
            f"{folder.data} cannot be written: the project can be read and searched, but nothing "
            "new is stored",
            "to ingest, draft or measure, give this user the right to write there",
        )
    elif shutil.disk_usage(folder.root).free < _LITTLE_ROOM:
        left = shutil.disk_usage(folder.root).free / 1e6
        yield Check(
            "folder",
            "note",
            f"the disk is nearly full: {left:.1f} MB are left",
            "free some space before the next ingest, refresh or draft",
        )
    if not writable(folder.cache / "replies"):
        yield Check(
            "folder",
            "note",
            f"{folder.cache} cannot be written: replies and views last for one command, and "
            "repeated calls are paid for again",
            "give this user the right to write there; it is only a cache",
        )


def _sources(bench: Workbench) -> Iterator[Check]:
    entries = bench.project.settings.sources
    if not entries and not bench.records.folder.is_dir():
        yield Check("sources", "note", "no sources are listed", "list them in ragwright.yaml")
    for entry in entries:
        path = bench.project.folder.root / entry.source
        remote = ":" in entry.source.partition("/")[0]
        if remote or entry.loader.loader or path.exists():
            yield Check("sources", "ok", entry.source)
        elif not any(c in entry.source for c in "*?["):
            yield Check(
                "sources",
                "fault",
                f"{entry.source} does not exist",
                f"create {path}, or edit `sources` in ragwright.yaml",
            )


def _databases(bench: Workbench) -> Iterator[Check]:
    for database in bench.project.databases.described():
        name = database.options.name
        if database.problem:
            yield Check(
                "database", "fault", f"{name}: {database.problem}", "see retrieve.databases"
            )
        elif bench.project.settings.answer.model == ExtractiveReranker.name:
            text = f"{name}: {len(database.tables)} table(s), but no chat model to write statements"
            yield Check("database", "note", text, "set answer.model and retrieve.route.method")
        else:
            yield Check("database", "ok", f"{name}: {len(database.tables)} table(s), read-only")


def _index(bench: Workbench) -> Iterator[Check]:
    try:
        pair = bench.project.pair
        pairs = bench.project.store.pairs()
    except RagwrightError as error:
        yield Check("index", "fault", error.what, error.hint or "")
        return
    documents = len(bench.project.store.content_hashes(pair))
    if not documents:
        yield Check(
            "index",
            "note",
            "nothing is indexed under the present settings",
            bench.project.filled_by,
        )
    else:
        view = bench.project.store.view(pair)
        try:
            size = view.statistics()
        finally:
            view.close()
        yield Check(
            "index",
            "ok",
            f"{size.documents} documents, {size.chunks} chunks, {size.tokens} tokens; the view "
            f"takes {size.bytes / 1e6:.1f} MB",
        )
        if size.approximate:
            yield Check("index", "note", size.approximate)
        doubtful = sorted(doubtful_documents(bench.project))
        if doubtful:
            yield Check(
                "index",
                "fault",
                f"{len(doubtful)} documents have vectors that cannot be used for search: "
                f"{listed(doubtful, 3)}",
                "run: ragwright ingest",
            )
    for note in bench.project.partial_note():
        yield Check("index", "note", note)
    for other in pairs:
        if other.key != pair.key:
            kept = len(bench.project.store.content_hashes(other))
            yield Check("index", "note", f"also built under other settings: {kept} documents")


def _generators(bench: Workbench) -> set[str]:
    """Models that answer: the project's, and those of valid personas."""
    try:
        own = {persona.model for persona in bench.project.personas.values()}
    except RagwrightError:  # reported by _models
        own = set()
    return {bench.project.settings.answer.model} | own - {""}


def _servers(bench: Workbench) -> list[str]:
    """Every configured model, except the offline one."""
    return sorted(
        (_generators(bench) | {bench.project.settings.embed.model}) - {"", ExtractiveReranker.name}
    )


def _models(bench: Workbench) -> Iterator[Check]:
    try:
        compose("?", Persona("nobody"), (), bench.project.settings.prompt)
        _ = bench.project.personas
    except RagwrightError as error:
        yield Check("answers", "fault", str(error))
    model = bench.project.settings.embed.model
    if not model:
        yield Check(
            "search",
            "note",
            "keyword search alone: no embedding model is configured",
            "for semantic search too, write in ragwright.yaml: embed: {model: "
            "hf:sentence-transformers/all-MiniLM-L6-v2}  (fetched once, about 90 MB)",
        )
    else:
        yield from _model(bench, "search", model, "vectors")
    for name in sorted(_generators(bench)):
        if name == ExtractiveReranker.name:
            yield Check("answers", "ok", "extractive: sentences are quoted, none is written")
        else:
            yield from _model(bench, "answers", name, "answers")


def _model(bench: Workbench, topic: str, name: str, use: str) -> Iterator[Check]:
    try:
        if bench.project.models.free(name):
            yield Check(topic, "ok", f"{name}: {use}, free of charge")
        else:
            bench.project.models.target(name).key()
            yield Check(topic, "ok", f"{name}: {use}, paid for; the key is set")
    except RagwrightError as error:
        yield Check(topic, "fault", f"{name}: {error.what}", error.hint or "")


def _asked(bench: Workbench) -> Iterator[Check]:
    states: dict[str, Literal["ok", "note", "fault"]] = {"warning": "note", "error": "fault"}
    for name in _servers(bench):
        found = check_model(bench.project.models, name)
        yield Check("models", states.get(found.state, "ok"), f"{name}: {found.text}")


def _money(bench: Workbench) -> Iterator[Check]:
    budget = bench.project.settings.budget
    paid = []
    for name in _servers(bench):
        try:
            if not bench.project.models.free(name):
                paid.append(name)
        except ConfigError:
            continue  # reported above
    if not paid:
        yield Check("money", "ok", "nothing here costs money")
        return
    ceiling = (
        "no ceiling" if budget.max_cost is None else f"at most {budget.max_cost:g} per command"
    )
    yield Check("money", "note", f"paid for: {', '.join(paid)} ({ceiling})", "see --dry-run")
