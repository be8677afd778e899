"""The commands that serve, and the demo: the guide as the corpus; or a study."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import typer
from typer import Argument, Option

from .. import serve  # its server needs an extra, which the command checks first
from ..core import ConfigError, SourceError, count_noun, require, suggest_name
from ..experiment import (
    ConfirmOptions,
    Study,
    SweepOptions,
    SweepResult,
    TrialResult,
    read_study,
)
from ..jobs import owner_event, record
from ..project import ProjectFolder, init_project, load_settings
from ..report import leaderboard_block, print_result, verdict_table
from ..serve import ROLES, Role, ServeKey, ServeKeys
from ..testsets import SynthesisOptions, write_rows
from ..workbench import Workbench
from ._console import Console, table
from ._flags import Flags, takes
from ._show import answer_text, ingest_text, show_progress


@takes("project overrides reload")
def serve_command(
    flags: Flags,
    host: str = Option("", help="Address to listen on; by default serve.host."),
    port: int | None = Option(
        None, min=0, max=65535, help="Port; by default serve.port; 0 takes any free port."
    ),
    workers: int = Option(1, min=1, help="Number of processes that answer."),
) -> None:
    """Serve the project over HTTP.

    It offers OpenAI-compatible chat, retrieval, MCP, sources and pages.
    """
    require_serving()
    # Searches run side by side already: further threads of numpy spin while they wait for work.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    serving = serve.ServedProject(flags.project, flags.settings, own=flags.reload)
    announce = make_announcer(flags.console, str(flags.project))
    serve.serve(serving, serve.ListenAddress(host, port, workers, announce))


def require_serving() -> None:
    """Check that the packages of the server are installed.

    Raises:
        MissingExtraError: One is missing; the message says how to install it.
    """
    for module in ("fastapi", "uvicorn", "mcp", "prometheus_client"):
        require(module, "serve", "serving a project")


def make_announcer(console: Console, project: str) -> Callable[[str, str], None]:
    """A callback that prints the addresses of a served project, once its port is open."""

    def started(address: str, form: str) -> None:
        if console.quiet:
            console.result(address)
        if form == "json":
            body = {"level": "info", "message": f"serving {project} on {address}"}
            console.remark(json.dumps(body))
            return
        console.remark(f"serving {project} on {address}")
        console.remark(f"  pages: {address} (in a browser)")
        console.remark(f"  OpenAI-compatible programs: base URL {address}/v1")
        console.remark(f"  agents (MCP): {address}/mcp/")

    return started


def serve_demo(console: Console, folder: Path, port: int | None) -> None:
    """Serve a demo project until it is stopped; follow changes of its files."""
    serving = serve.ServedProject(folder, own=True)
    serve.serve(serving, serve.ListenAddress("", port, 1, make_announcer(console, str(folder))))


@takes("project overrides reload")
def mcp_command(flags: Flags) -> None:
    """Serve the project to an agent (MCP).

    The agent starts this command and can call search, fetch, ask and list_sources.
    """
    require("mcp", "serve", "serving tools to agents")
    require("fastapi", "serve", "serving tools to agents")
    serve.serve_stdio(serve.ServedProject(flags.project, flags.settings, own=flags.reload))


keys_group = typer.Typer(
    help="Manage the keys of the server.\n\n`ragwright serve` asks callers for one of them.",
    no_args_is_help=True,
)

_NAME = Argument(help="Name of the key, for lists and logs.")


@keys_group.command("add")
@takes("project as_json")
def add(
    flags: Flags,
    name: str = _NAME,
    role: str = Option(
        "reader",
        help="`reader` may ask; `reviewer` may also review rows of testsets; `owner` may see "
        "everything of the project.",
    ),
    configurations: list[str] | None = Option(
        None,
        "--configuration",
        help="Configuration that the key may use; repeatable; by default all.",
    ),
    filters: list[str] | None = Option(
        None,
        "--filter",
        metavar="FIELD=VALUE",
        help="Hard filter on all that the key may see, such as tenant=acme; repeatable.",
    ),
    groups: str = Option(
        "",
        metavar="GROUP,GROUP",
        help="Groups of readers that the key belongs to: it sees their documents.",
    ),
    per_minute: int | None = Option(None, min=1, help="Maximum number of requests per minute."),
    daily_budget: float | None = Option(None, help="Maximum cost per day (UTC)."),
    again: bool = Option(
        False,
        "--again",
        help="Accept the name of a revoked key: the new one sees what was stored under it.",
    ),
) -> None:
    """Make a key and print it, this once.

    Only its hash is kept.
    """
    key = ServeKey(
        name,
        _known_role(role),
        tuple(configurations or ()),
        tuple(filters or ()),
        per_minute,
        daily_budget,
        _group_names(groups),
    )
    folder = ProjectFolder(flags.project).require()
    with closing(ServeKeys(folder)) as keys:
        secret = keys.add(key, again=again)
    _record(folder, "keys add", name)
    for warning in _unknown_fields(flags.project, key):
        flags.console.remark(warning)
    _show_secret(flags, name, secret)


@keys_group.command("rotate")
@takes("project as_json")
def rotate(flags: Flags, name: str = _NAME) -> None:
    """Give a key a new secret and print it.

    Its rights stay; requests with the former secret are refused from now on.
    """
    folder = ProjectFolder(flags.project).require()
    with closing(ServeKeys(folder)) as keys:
        secret = keys.rotate(name)
    _record(folder, "keys rotate", name)
    _show_secret(flags, name, secret)


def _show_secret(flags: Flags, name: str, secret: str) -> None:
    flags.console.show(lambda: {"name": name, "key": secret}, lambda: secret)
    if not flags.as_json:
        flags.console.remark(
            "Keep it: it cannot be shown again. Clients send it as: Authorization: Bearer …"
        )


@keys_group.command("list")
@takes("project as_json")
def show(flags: Flags) -> None:
    """List the keys and their rights.

    The keys themselves are not kept.
    """
    with closing(ServeKeys(ProjectFolder(flags.project).require())) as known:
        keys, used = known.all(), known.used
    rows = [["name", "role", "groups", "configurations", "filters", "a minute", "a day", "made"]]
    for key in keys:
        limits = [str(limit or "") for limit in (key.per_minute, key.daily_budget)]
        lists = [", ".join(key.configurations) or "all", ", ".join(key.filters)]
        rows.append([key.name, key.role, ", ".join(key.groups), *lists, *limits, key.created])
    refused = "requests are refused" if used else "only this machine may ask"
    flags.console.show(
        lambda: {"keys": [_shown(key) for key in keys]},
        lambda: table(rows, right=(5, 6)) if keys else f"no keys: {refused}",
    )


@keys_group.command("change")
@takes("project")
def change(
    flags: Flags,
    name: str = _NAME,
    role: str | None = Option(None, help="`reader`, `reviewer` or `owner`."),
    configurations: list[str] | None = Option(
        None,
        "--configuration",
        help="Configuration that the key may use from now on; repeatable.",
    ),
    groups: str | None = Option(
        None,
        metavar="GROUP,GROUP",
        help="Groups of readers that the key belongs to from now on; an empty text: none.",
    ),
    per_minute: int | None = Option(None, min=1, help="Maximum number of requests per minute."),
    daily_budget: float | None = Option(None, help="Maximum cost per day (UTC)."),
) -> None:
    """Change the rights of a key.

    They count from its next request on; the rest of it and its secret stay.
    """
    given = {
        "role": None if role is None else _known_role(role),
        "configurations": tuple(configurations) if configurations else None,
        "groups": None if groups is None else _group_names(groups),
        "per_minute": per_minute,
        "daily_budget": daily_budget,
    }
    rights = {field: value for field, value in given.items() if value is not None}
    if not rights:
        raise ConfigError(
            "nothing to change", hint=f"say what, as in: ragwright keys change {name} --groups hr"
        )
    folder = ProjectFolder(flags.project).require()
    with closing(ServeKeys(folder)) as keys:
        keys.change(name, rights)
    _record(folder, "keys change", name)
    flags.console.result(f"changed {name}")


@keys_group.command("revoke")
@takes("project")
def revoke(flags: Flags, name: str = _NAME) -> None:
    """Revoke a key.

    Requests with it are refused from now on.
    """
    folder = ProjectFolder(flags.project).require()
    with closing(ServeKeys(folder)) as keys:
        keys.revoke(name)
    _record(folder, "keys revoke", name)
    flags.console.result(f"revoked {name}")


def _known_role(role: str) -> Role:
    known_role = next((known for known in ROLES if known == role), None)
    if known_role is None:
        raise ConfigError(f"{role!r} is not a role", where="--role", hint=suggest_name(role, ROLES))
    return known_role


def _group_names(listed: str) -> tuple[str, ...]:
    return tuple(dict.fromkeys(name.strip() for name in listed.split(",") if name.strip()))


def _record(folder: ProjectFolder, action: str, name: str) -> None:
    event = owner_event("changed", action, name)
    record(folder, load_settings(folder.settings), event, begins=True)


def _unknown_fields(folder: Path, key: ServeKey) -> list[str]:
    """Warnings of filters on fields that no indexed chunk has: such a key finds nothing."""
    if not key.filters:
        return []
    with Workbench.open(folder) as bench:
        opened = bench.project
        if not opened.store.holds(opened.index_spec):
            return ["warning: nothing is indexed yet, so the fields of filters are not checked"]
        known = opened.store.view(opened.index_spec).fields()
    unknown = dict.fromkeys(c.field for c in key.conditions if c.field not in known)
    fields = ", ".join(sorted(known))
    return [
        f"warning: no chunk has the field {name!r}: this key finds nothing. Known fields: {fields}"
        for name in unknown
    ]


def _shown(key: ServeKey) -> dict[str, Any]:
    return {name: value for name, value in asdict(key).items() if name != "hash"}


QUESTIONS = (
    "How does reciprocal rank fusion combine two rankings?",
    "Why do error codes break embedding search?",
    "When does an answer abstain?",
)
PERSONAS = ("engineer", "marketing")


def sample_corpus() -> Path:
    """Folder of the guide: inside the installed package, or in a checkout.

    Raises:
        SourceError: It is in neither place.
    """
    package = Path(__file__).resolve().parents[1]
    for folder in (package / "sample", package.parents[1] / "docs" / "guide"):
        if folder.is_dir():
            return folder
    raise SourceError(
        "the sample corpus is missing", where=str(package), hint="install ragwright again"
    )


def run_demo(folder: Path, console: Console, full: bool = False) -> None:
    """Build the demo project (or use an existing one), and ask, or run a whole study."""
    started = time.monotonic()
    if not ProjectFolder(folder).file.exists():
        shutil.copytree(sample_corpus(), folder / "docs", dirs_exist_ok=True)
        init_project(folder, ("docs/",))
        with (folder / "ragwright.yaml").open("a", encoding="utf-8") as file:
            file.write(f"\nserve: {{personas: [{', '.join(PERSONAS)}]}}\n")
    with Workbench.open(folder) as bench:
        report = bench.ingest()
        console.result(
            f"# A workbench over {len(list((folder / 'docs').glob('*.md')))} pages of the guide\n\n"
            + ingest_text(report, time.monotonic() - started)
        )
        if full:
            run_full(bench, console, started)
        for question in () if full else QUESTIONS:
            console.result(f"\n# {question}\n\n{answer_text(bench.ask(question))}")
    name = "ragwright" if shutil.which("ragwright") else f"{sys.executable} -m ragwright"
    if full:
        console.result(
            f"\n# Done in {time.monotonic() - started:.1f} s. Try next\n\n"
            f"  cd {folder}\n"
            f"  {name} eval --testset testsets/demo.jsonl      # the current settings\n"
            f"  {name} diagnose --testset testsets/demo.jsonl  # where are points lost?\n"
            f"  {name} sweep studies/demo.yaml                 # edit it: any key may be a list"
        )
        return
    console.result(
        f"\n# Done in {time.monotonic() - started:.1f} s. Try next\n\n"
        f"  cd {folder}\n"
        f'  {name} ask "Which chunk size should I use?" --trace\n'
        f'  {name} retrieve "nDCG" -k 3 --explain\n'
        f"  {name} doctor\n\n"
        f"Then your own documents: edit `sources` in ragwright.yaml and run `{name} ingest`.\n"
        "With a chat model answers are written, also for personas; name one under `answer.model`."
    )


@takes("quiet")
def demo_command(
    flags: Flags,
    folder: Path = Argument(Path("ragwright-demo"), help="Folder to make the demo project in."),
    full: bool = Option(
        False, "--full", help="Make a testset, sweep settings, confirm, write a report."
    ),
    serve: bool = Option(
        False, "--serve", help="Then serve it (web pages, API, MCP) until Ctrl-C."
    ),
    port: int | None = Option(
        None, min=0, max=65535, help="Port of --serve; by default 8321; 0 takes any free port."
    ),
) -> None:
    """Build a demo project and ask three questions.

    Its documents are the guide of ragwright.
    """
    if serve:
        require_serving()
    run_demo(folder, flags.console, full)
    if serve:
        serve_demo(flags.console, folder, port)


QUESTION_COUNT = 120
_SHOWN = 6
_MEGABYTES = 15.0

_STUDY = """\
# Which chunk size, how many of them, and is a second look at them worth it?
#
# With no embedding model there is one way to search, by keywords. What can be searched
# differently offline is what happens to its hits: as they come, or reranked by their best
# sentence. With a model (embed.model in ragwright.yaml, then `ragwright ingest`) write instead:
#   retrieve: {search: [keyword, dense, hybrid]}
study:
  testset: testsets/demo.jsonl
  measures: nDCG@10, HitRate@3, SpanIoU@10
  # A larger top_k finds more and costs more to read: the front shows both.
  objective: nDCG@10
chunk: {size: [120, 250, 500]}
retrieve:
  top_k: [3, 5, 10]
  rerank: {model: ["", lexical]}
"""


def run_full(bench: Workbench, console: Console, started: float) -> Path:
    """Make a testset, sweep, confirm and report; the path of the report.

    Existing results are used: a second run shows the same and opens nothing.

    Raises:
        StoppedError: The budget or the user stopped the sweep; finished trials are kept.
    """

    def head(title: str) -> None:
        console.result(f"\n# {title} ({time.monotonic() - started:.0f} s)\n")

    testset = _testset(bench, console)
    head("Study: chunk size x top_k x reranking, on the tune split")
    swept = _swept(bench, console, _study(bench, testset))
    console.result(
        "No embedding model is set, so every trial searches by keywords; hits keep their order\n"
        "or are reranked by their best sentence. Questions are headings and sentences with a gap:\n"
        "they can distinguish settings, but users ask in other words.\n"
    )
    hidden = len(swept.board) - _SHOWN
    console.result(
        print_result((), [leaderboard_block(swept.board[:_SHOWN])], width=console.columns(120))
    )
    console.result(f"and {hidden} more trials, in the report" if hidden > 0 else "")
    head("Verdict")
    with show_progress(console, bench):
        confirmed = bench.confirm(swept.run, ConfirmOptions(clusters="document"))
    again = "\n(already confirmed: shown again, the confirm split was not opened)"
    text = verdict_table(confirmed.verdict, width=console.columns())
    console.result(f"{text}{again if confirmed.again else ''}")
    head("Report")
    with console.progress(lambda: "writing the report"):
        text = bench.report(swept.run, size=_MEGABYTES).html()
    path = bench.project.folder.root.resolve() / "report.html"
    path.write_text(text, "utf-8")
    console.result(f"open in a browser: {path}")
    return path


def _testset(bench: Workbench, console: Console) -> Path:
    """The testset of the demo, made if it is missing."""
    path = bench.project.folder.testsets / "demo.jsonl"
    if path.exists():
        console.result(f"\n# Testset\n\n{path} exists already and is used")
        return path
    with console.progress(lambda: "making questions from the guide"):
        synthesis, _ = bench.synth(SynthesisOptions(QUESTION_COUNT))
    write_rows(synthesis.rows, path)
    kinds = ", ".join(f"{count} {kind}" for kind, count in sorted(synthesis.made.items()))
    first = next(row for row in synthesis.rows if row.reference)
    console.result(
        f"\n# Testset: {count_noun(len(synthesis.rows), 'question')} without a model ({kinds})\n\n"
        f"  asked: {first.user_input}\n"
        f"  gold:  {first.reference}, in {first.reference_spans[0].document_id}"
    )
    return path


def _study(bench: Workbench, testset: Path) -> Study:
    """The study of the demo; writes its file if it is missing."""
    file = bench.project.folder.root / "studies" / "demo.yaml"
    if not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(_STUDY, "utf-8")
    study = read_study(bench.project, file)
    # The file gives the testset relative to the project folder.
    return replace(study, options=replace(study.options, testset=str(testset)))


def _swept(bench: Workbench, console: Console, study: Study) -> SweepResult:
    ended: list[TrialResult] = []
    total = (study.size or 0) + 1
    with show_progress(console, bench, lambda: (len(ended), total, "trials")):
        swept = bench.sweep(study, SweepOptions(on_trial=ended.append))
    if swept.stopped is not None:
        raise swept.stopped
    return swept
