"""`doctor`: what is configured, what is missing, what costs money."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable, Iterator
from functools import partial

from .. import drafting, jobs, ledger, measure, project as opened, retrieve
from ..core import RagwrightError, addition_faults, additions_of_others
from ..jobs import CheckLine
from ..project import Check, Project

_EXTRAS = {
    "cluster": (("daft", "ray"), "refreshing records on a Ray cluster (records.engine: ray)"),
    "delta": (("deltalake",), "Delta tables as sources of documents"),
    "docs": (
        ("pypdfium2", "pdfplumber", "lxml", "python_calamine", "selectolax"),
        "PDF, DOCX, PPTX, XLSX and HTML",
    ),
    "embed": (
        ("huggingface_hub", "model2vec", "onnxruntime", "tokenizers"),
        "local embedding models (hf:ORG/NAME, onnx:FOLDER)",
    ),
    "jobs": (("apprise",), "notices of jobs"),
    "lance": (("lancedb",), "LanceDB as the store"),
    "ocr": (("rapidocr", "onnxruntime", "pypdfium2"), "scanned PDF pages and images"),
    "records": (
        ("daft", "deltalake", "pyarrow", "sqlalchemy"),
        "tables of records (ragwright records)",
    ),
    "serve": (
        ("fastapi", "mcp", "prometheus_client", "uvicorn"),
        "the HTTP server and tools for agents (ragwright serve, ragwright mcp)",
    ),
    "torch": (
        ("sentence_transformers", "torch"),
        "sentence-transformers models (st:NAME) and export to ONNX",
    ),
    "train": (
        ("accelerate", "datasets", "sentence_transformers"),
        "training (ragwright tune)",
    ),
}
"""Extra -> the modules it brings, and what it is for."""


def doctor(
    project: Project, *, ask_models: bool = False, check_line: CheckLine | None = None
) -> list[Check]:
    """Findings on a project, in the order of setting it up.

    ``ask_models`` also asks each server for its list of models and opens each local model;
    no reply is paid for either way. ``check_line`` validates the command lines of jobs.
    """
    return [
        *_machine_checks(),
        *_extra_checks(),
        *_package_checks(),
        *_settings_checks(project),
        *opened.index_findings(project),
        *_worker_checks(project),
        *(opened.Check("records", *finding) for finding in drafting.record_findings(project)),
        *opened.model_findings(project, ask=ask_models),
        *(
            opened.Check("jobs", *finding)
            for finding in jobs.job_findings(jobs.project_jobs(project.settings), check_line)
        ),
    ]


def _machine_checks() -> Iterator[Check]:
    version = ".".join(map(str, sys.version_info[:3]))
    yield opened.Check("machine", "ok", f"Python {version}, SQLite {ledger.sqlite_version()}")
    threads = os.environ.get("OMP_NUM_THREADS")
    if threads is None:
        yield opened.Check(
            "machine",
            "note",
            f"numpy may use all {os.cpu_count()} cores for a search; local models use the "
            "threads of embed.threads",
            "set OMP_NUM_THREADS=1 if other work shares the machine",
        )


def _extra_checks() -> Iterator[Check]:
    for extra, (modules, use) in _EXTRAS.items():
        if all(importlib.util.find_spec(module) for module in modules):
            yield opened.Check("extras", "ok", f"[{extra}]: {use}")
        else:
            text = f"[{extra}] is not installed; it is for {use}"
            yield opened.Check("extras", "note", text, f"pip install 'ragwright[{extra}]'")


def _settings_checks(project: Project) -> Iterator[opened.Check]:
    """Faults of sections and stages, which most commands read when they use them."""
    settings = project.settings
    openings: list[Callable[[], object]] = [
        *(partial(settings.section, name) for name in settings.parts),
        *(
            partial(retrieve.open_stages, [name], settings.section)
            for name in settings.retrieve.stages
        ),
    ]
    if settings.judge.by:
        openings.append(partial(measure.open_judge, settings.judge.by))
    for open_addition in openings:
        try:
            open_addition()
        except RagwrightError as error:
            where = f"{error.where}: " if error.where else ""
            yield opened.Check("settings", "fault", f"{where}{error.what}", error.hint or "")


def _worker_checks(project: Project) -> Iterator[opened.Check]:
    """Models that each worker of a server loads for itself."""
    search = project.settings.retrieve
    names = (project.settings.embed.model, search.rerank.model)
    for name in dict.fromkeys(name for name in names if name.startswith("st:")):
        yield opened.Check(
            "serve",
            "note",
            f"each worker of `ragwright serve` loads {name} for itself, and 400 MB of torch",
            "`ragwright models` shows the size of its files; start as many workers as fit",
        )


def _package_checks() -> Iterator[opened.Check]:
    """Findings on installed packages: what they add, and why some of it cannot be used."""
    packages: dict[str, list[str]] = {}
    for new in additions_of_others():
        packages.setdefault(new.package, []).append(f"{new.kind.removesuffix('s')} {new.name}")
    for package, names in packages.items():
        yield opened.Check("packages", "ok", f"{package}: {', '.join(names)}")
    for fault in addition_faults():
        yield opened.Check(
            "packages", "fault", fault, "update or uninstall the package; the rest works without it"
        )
