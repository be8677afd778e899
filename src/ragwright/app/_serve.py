"""The commands that serve, and the demo: the guide as the corpus; or a study."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict
from pathlib import Path

import typer
from typer import Argument, Option

from .. import serve  # its server needs an extra, which the command checks first
from ..core import ConfigError, SourceError, require
from ..jobs import owner_event, record
from ..project import ProjectFolder, init_project, load_settings
from ..serve import Role, ServeKey, ServeKeys
from ..workbench import Workbench
from ._flags import Flags, names_of, takes
from ._show import answer_text, ingest_text, show_list


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
    for module in ("fastapi", "uvicorn", "mcp", "prometheus_client"):
        require(module, "serve", "serving a project")
    # Searches run side by side already: further threads of numpy spin while they wait for work.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    serving = serve.ServedProject(flags.project, flags.settings, own=flags.reload)
    console, project = flags.console, flags.project

    def announce(address: str, form: str) -> None:
        """Print the addresses of the project, once its port is open."""
        if form == "json":
            body = {"level": "info", "message": f"serving {project} on {address}"}
            console.remark(json.dumps(body))
            return
        console.remark(f"serving {project} on {address}")
        console.remark(f"  pages: {address} (in a browser)")
        console.remark(f"  OpenAI-compatible programs: base URL {address}/v1")
        console.remark(f"  agents (MCP): {address}/mcp/")

    serve.serve(serving, serve.ListenAddress(host, port, workers, announce))


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


@contextmanager
def _changing(flags: Flags, action: str, name: str) -> Iterator[ServeKeys]:
    """The keys of a project; the audit log gets the change after the block."""
    folder = ProjectFolder(flags.project).require()
    with closing(ServeKeys(folder)) as keys:
        yield keys
    event = owner_event("changed", f"keys {action}", name)
    record(folder, load_settings(folder.settings), event, begins=True)


@keys_group.command("add")
@takes("project as_json")
def add(
    flags: Flags,
    name: str = _NAME,
    role: Role = Option(
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
        role,
        tuple(configurations or ()),
        tuple(filters or ()),
        per_minute,
        daily_budget,
        names_of(groups),
    )
    with _changing(flags, "add", name) as keys:
        secret = keys.add(key, again=again)
    _show_secret(flags, name, secret)


@keys_group.command("rotate")
@takes("project as_json")
def rotate(flags: Flags, name: str = _NAME) -> None:
    """Give a key a new secret and print it.

    Its rights stay; requests with the former secret are refused from now on.
    """
    with _changing(flags, "rotate", name) as keys:
        secret = keys.rotate(name)
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
    columns = ("name", "role", "groups", "configurations", "filters", "per_minute", "daily_budget")
    refused = "requests are refused" if used else "only this machine may ask"
    shown = [{k: v for k, v in asdict(key).items() if k != "hash"} for key in keys]
    show_list(flags, "keys", shown, (*columns, "created"), f"no keys: {refused}")


@keys_group.command("change")
@takes("project")
def change(
    flags: Flags,
    name: str = _NAME,
    role: Role | None = Option(None, help="`reader`, `reviewer` or `owner`."),
    configurations: list[str] | None = Option(
        None, "--configuration", help="Configuration that the key may use from now on; repeatable."
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
        "role": role,
        "configurations": tuple(configurations) if configurations else None,
        "groups": None if groups is None else names_of(groups),
        "per_minute": per_minute,
        "daily_budget": daily_budget,
    }
    rights = {field: value for field, value in given.items() if value is not None}
    if not rights:
        raise ConfigError(
            "nothing to change", hint=f"say what, as in: ragwright keys change {name} --groups hr"
        )
    with _changing(flags, "change", name) as keys:
        keys.change(name, rights)
    flags.console.result(f"changed {name}")


@keys_group.command("revoke")
@takes("project")
def revoke(flags: Flags, name: str = _NAME) -> None:
    """Revoke a key.

    Requests with it are refused from now on.
    """
    with _changing(flags, "revoke", name) as keys:
        keys.revoke(name)
    flags.console.result(f"revoked {name}")


QUESTIONS = (
    "How does reciprocal rank fusion combine two rankings?",
    "Why do error codes break embedding search?",
    "When does an answer abstain?",
)
PERSONAS = ("engineer", "marketing")


QUESTION_COUNT = 120
"""Questions of the test set of `demo --full`."""


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


@takes("quiet")
def demo_command(
    flags: Flags,
    folder: Path = Argument(Path("ragwright-demo"), help="Folder to make the demo project in."),
    full: bool = Option(
        False, "--full", help="Make a test set, sweep settings, confirm, write a report."
    ),
) -> None:
    """Build a demo project and ask three questions.

    Its documents are the guide of ragwright. With --full the questions are those of a test set.
    """
    console, started = flags.console, time.monotonic()
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
        for question in () if full else QUESTIONS:
            console.result(f"\n# {question}\n\n{answer_text(bench.ask(question))}")
    for line in _write_study(folder) if full else ():
        console.result(f"\n# ragwright {line} ({time.monotonic() - started:.0f} s)\n")
        words = [sys.executable, "-m", "ragwright", *line.split(), *["-q"] * flags.quiet]
        done = subprocess.run(words, cwd=folder, stdout=subprocess.PIPE, text=True, check=False)
        console.result(done.stdout.rstrip())
        if done.returncode:
            raise typer.Exit(done.returncode)
    name = "ragwright" if shutil.which("ragwright") else f"{sys.executable} -m ragwright"
    console.result(
        f"\n# Done in {time.monotonic() - started:.1f} s. Try next\n\n"
        f"  cd {folder}\n"
        f'  {name} ask "Which chunk size should I use?" --trace\n'
        f'  {name} retrieve "nDCG" -k 3 --explain\n'
        f"  {name} serve\n\n"
        f"Then your own documents: edit `sources` in ragwright.yaml and run `{name} ingest`.\n"
        "With a chat model answers are written, also for personas; name one under `answer.model`."
    )


_STUDY = """\
# Which chunk size, how many chunks, and does a second look at them pay?
#
# Without an embedding model the search is by keywords. With one (embed.model in ragwright.yaml,
# then `ragwright ingest`) write instead:  retrieve: {search: [keyword, dense, hybrid]}
study: {testset: testsets/demo.jsonl, measures: "nDCG@10, HitRate@3, SpanIoU@10"}
chunk: {size: [120, 250, 500]}
retrieve:
  top_k: [3, 5, 10]
  rerank: {model: ["", lexical]}
"""


def _write_study(folder: Path) -> list[str]:
    """Write the study of the demo if it is missing; the commands that make and confirm it."""
    study = folder / "studies" / "demo.yaml"
    study.parent.mkdir(parents=True, exist_ok=True)
    if not study.exists():
        study.write_text(_STUDY, "utf-8")
    made = (folder / "testsets" / "demo.jsonl").exists()
    questions = [] if made else [f"synth -n {QUESTION_COUNT} -o testsets/demo.jsonl"]
    return [*questions, "sweep studies/demo.yaml", "confirm", "report"]
