"""Every command over what went wrong on disk, at a server or on another machine, and promises."""

from __future__ import annotations

import ctypes
import itertools
import json
import os
import random
import shutil
import sqlite3
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from certified_project import certified_project, certified_rows, things, write_rows as write_set
from children import command, started
from command_line import Done, ragwright
from drafted import REQUEST, drafted
from raw_server import Raw, chat_reply, raw_server
from small_project import MakeProject
from story_tools import lacking, make_project, read_json, run, settings, write_rows
from waiting import skip_short_pauses, wait_until

from ragwright import Workbench
from ragwright.core import ConfigError, MeasureError, StoreError, TestsetError
from ragwright.experiment import (
    EvaluationOptions,
    PromiseOptions,
    certificate_in_force,
    certificates,
    repeat_request,
    withdraw_promise,
)
from ragwright.flow import Message
from ragwright.ledger import Connection, FileLock, Ledger
from ragwright.project import ProjectFolder
from ragwright.retrieve import parse_filter
from ragwright.testing import Reply, ScriptedServer, ServerRequest
from ragwright.testsets import Openings, load_testset
from ragwright.workbench import AskOptions

# -- stored files that are damaged -----------------------------------------------------------

KINDS = ("cut", "header", "flipped", "sprinkled", "zeroed", "version", "folder", "foreign")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A project with files, a store and replies of some pages each."""
    texts = {
        f"{n}.md": f"# Title {n}\n\n{' '.join(f'word{n * at % 97} lathe' for at in range(200))}\n"
        for n in range(30)
    }
    with ScriptedServer("Lathes turn wood. [1]") as server:
        chosen = f'answer:\n  model: "{server.url}#scripted"\n'
        folder = make_project(tmp_path_factory.mktemp("project"), texts, chosen)
        for number in range(12):
            run(folder, "ask -q", f"What turns wood, {number}?")
        run(folder, "outputs list")
        yield folder


@pytest.fixture
def lathes(written: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(written, tmp_path / "project"))


def damage(path: Path, kind: str) -> None:
    data = bytearray(path.read_bytes())
    rng = random.Random(f"{path.name} {kind}")
    if kind == "cut":
        path.write_bytes(data[: len(data) // 2 + 17])
    elif kind == "header":
        path.write_bytes(rng.randbytes(100) + data[100:])
    elif kind in ("flipped", "sprinkled"):
        places = range(4096, len(data), 997)
        for at in places if kind == "flipped" else rng.sample(range(100, len(data)), 60):
            data[at] ^= rng.randrange(1, 256)
        path.write_bytes(data)
    elif kind == "zeroed":
        path.write_bytes(data[:4096] + bytes(len(data) - 4096))
    elif kind == "version":
        with closing(sqlite3.connect(path)) as db:
            db.execute("PRAGMA user_version = 99")
    else:
        path.unlink()
        if kind == "folder":
            path.mkdir()
        else:
            with closing(sqlite3.connect(path)) as db, db:
                db.execute("CREATE TABLE theirs (x)")


def told(project: Path, name: str, *words: str) -> Done | None:
    """What a command says that refuses; None where it did its work."""
    done = ragwright(project, *words, code=None)
    assert "Traceback" not in done.stderr
    if not done.returncode:
        return None
    assert done.returncode == 1
    assert not lacking(done.stderr, name, "do: ")
    assert "lathe" not in done.stderr, "no stored text in a message"
    return done


STORED = ("What turns wood, 3?", "-q")


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_store_or_ledger_is_refused_and_not_replaced(lathes: Path, kind: str) -> None:
    data = lathes / ".ragwright" / "data"
    forget = ("forget", "docs/3.md")
    readers = {
        "store.sqlite": (("ask", "What turns?", "-q"), ("ingest", "-q"), forget),
        "ledger.sqlite": (("outputs", "list"), ("job", "history"), ("report",), forget),
    }
    for name, lines in readers.items():
        path = data / name
        whole = path.read_bytes()
        damage(path, kind)
        before = path.read_bytes() if path.is_file() else b""
        refused = [told(lathes, name, *words) for words in lines]
        if kind != "sprinkled":  # what is damaged may not be what a command reads
            assert all(refused)
            assert not path.is_file() or path.read_bytes() == before
        if name == "ledger.sqlite" and kind in ("cut", "header", "zeroed"):
            advice = "restore it from a backup, or move it away"
            assert all(one is not None and advice in one.stderr for one in refused)
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        for left in data.glob(f"{name}-*"):
            left.unlink()
        path.write_bytes(whole)
    damage(data / "ledger.sqlite", "cut")
    run(lathes, "ask", *STORED)  # needs none of it


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_damaged_replies_are_cleared_by_the_command_that_is_named(lathes: Path, kind: str) -> None:
    cache = lathes / ".ragwright" / "cache"
    if kind != "folder":  # stamps of files are begun anew
        damage(cache / "files.sqlite", kind)
        run(lathes, "ingest -q")
        run(lathes, "ingest -q")
    damage(cache / "replies.sqlite", kind)
    foreign_kind = kind in ("version", "folder", "foreign")
    for words in (("ask", *STORED), ("cache", "show"), ("forget", "docs/3.md")):
        refused = told(lathes, "replies.sqlite", *words)
        if refused is not None and not foreign_kind:
            assert "ragwright cache clear" in refused.stderr
    if not foreign_kind:
        run(lathes, "cache clear")
        run(lathes, "ask", *STORED)


def test_an_emptied_store_is_not_taken_for_a_new_one(lathes: Path) -> None:
    path = lathes / ".ragwright" / "data" / "store.sqlite"
    path.write_bytes(b"")
    refused = told(lathes, "store.sqlite", "ingest", "-q")
    assert refused is not None
    assert "is empty" in refused.stderr
    assert path.read_bytes() == b""


# -- a project that cannot be written --------------------------------------------------------

DRAFT = ("draft", "--client", "Maya Delgado", "--ask", "donation", "-n", "2", "-q")
FEW = ("--examples", "3", "--pool", "5")


@pytest.fixture(scope="module")
def model() -> Iterator[ScriptedServer]:
    with ScriptedServer("1. Chip in now.\n2. Please help us today.") as running:
        yield running


@pytest.fixture(scope="module")
def desk(model: ScriptedServer, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A project with records, a batch of drafts, a stored answer and a job that was run."""
    folder = tmp_path_factory.mktemp("desk")
    run(folder, "init --template records")
    file = folder / "ragwright.yaml"
    written_by = f'answer:\n  model: "{model.url}#scripted"\n'
    text = file.read_text("utf-8").replace("answer:\n", written_by, 1)
    job = "jobs:\n  nightly:\n    steps: [records history]\n"
    file.write_text(text.replace("jobs:\n", job, 1), "utf-8")
    run(folder, "records refresh -q")
    run(folder, "ask -q", "Who asks for hope?")
    ragwright(folder, *DRAFT, *FEW)
    run(folder, "job run nightly -q")
    row = {"question": "hope?", "answer": "yes", "contexts": ["hope"], "reference": "yes"}
    write_rows(folder / "rows.jsonl", [row] * 12)
    run(folder, "score rows.jsonl --measures TokenF1 --name s1 -q")
    return folder


@pytest.fixture
def readable(desk: Path) -> Iterator[Path]:
    with nothing_written(desk):
        yield desk


@contextmanager
def nothing_written(folder: Path) -> Iterator[None]:
    """A folder that may be read and not written, by root neither."""
    modes = {path: path.stat().st_mode for path in (folder, *folder.rglob("*"))}
    for path in modes:
        path.chmod(0o555 if path.is_dir() else 0o444)
    try:
        with bound_by_modes():
            yield
    finally:
        for path, mode in modes.items():
            path.chmod(mode)


@contextmanager
def bound_by_modes() -> Iterator[None]:
    """Root without the right to pass over modes (Linux: CAP_DAC_OVERRIDE), in this thread."""
    if os.geteuid() != 0:
        yield
        return
    if sys.platform != "linux":
        pytest.skip("root may write everywhere")
    libc = ctypes.CDLL(None, use_errno=True)
    header = (ctypes.c_uint32 * 2)(0x20080522, 0)
    held = (ctypes.c_uint32 * 6)()  # effective, permitted, inheritable; then their upper halves
    assert libc.capget(header, held) == 0
    fewer = (ctypes.c_uint32 * 6)(*held)
    fewer[0] &= ~0b110
    assert libc.capset(header, fewer) == 0
    try:
        yield
    finally:
        assert libc.capset(header, held) == 0


READS = """retrieve hope -k 1
outputs list
outputs show 1
job list
job history
records check
records show gold --limit 1
records history
cache show
compare s1 s1
gate s1 --rule TokenF1>=0.1
report s1 --json
doctor""".splitlines()
WRITES = """records refresh
outputs feedback 1.1 --accept
cache clear
job run nightly
forget record:1""".splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("line", [*READS, *WRITES])
def test_what_only_reads_works_and_what_writes_says_what_to_do(readable: Path, line: str) -> None:
    done = ragwright(readable, *line.split(), code=int(line in WRITES))
    if line in READS:
        assert done.stdout.strip()
        assert "error" not in done.stderr
    else:
        assert "cannot be written" in done.stderr or "cannot read or write" in done.stderr
        assert not lacking(done.stderr, "where: ", "do: ")


@pytest.mark.slow
def test_what_would_be_kept_is_told_or_refused_before_it_is_paid_for(
    readable: Path, model: ScriptedServer
) -> None:
    [known] = read_json(readable, "ask -q", "Who asks for hope?")["answers"]
    assert known["cached"]
    assert not any("kept" in note for note in known["notes"])
    before = len(model.requests)
    for _ in range(2):  # as nothing is kept, it is asked for again
        [new] = read_json(readable, "ask -q", "Who asks for water?")["answers"]
        [note] = [one for one in new["notes"] if "are not kept" in one]
        assert "replies.sqlite cannot be written" in note
    assert len(model.requests) == before + 2
    done = ragwright(readable, *DRAFT, *FEW, "--tone", "urgent", code=1)
    where = "where: .ragwright/data/ledger.sqlite"
    advice = "do: give this user the right to write in the folder"
    assert not lacking(done.stderr, "ledger.sqlite cannot be written", where, advice)
    assert len(model.requests) == before + 2
    done = ragwright(readable, *DRAFT, *FEW, "--tone", "urgent", "--no-save", "--json")
    made = json.loads(done.stdout)
    assert made["texts"]
    assert any("are not kept" in note for note in made["notes"])
    assert len(model.requests) > before + 2
    checks = read_json(readable, "doctor")["checks"]
    heads = [check["text"].split(":")[0] for check in checks if check["topic"] == "folder"]
    places = (".ragwright/data", ".ragwright/cache")
    assert heads == [f"{place} cannot be written" for place in places]


def test_a_project_that_was_never_used_reads_as_an_empty_one(tmp_path: Path) -> None:
    (tmp_path / "ragwright.yaml").write_text("sources: [docs/]\n", "utf-8")
    with nothing_written(tmp_path):
        assert run(tmp_path, "outputs list") == "no outputs\n"
        done = ragwright(tmp_path, "retrieve", "hope", code=1)
        assert not lacking(done.stderr, "nothing", "ragwright ingest")


# -- a model server that means no good -------------------------------------------------------

KEY = "sk-proj-0123456789abcdefghij"
EVAL = "eval --testset rows.jsonl --measures Contains"


@pytest.fixture
def keyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("THE_KEY", KEY)
    skip_short_pauses(monkeypatch)


def asking(folder: Path, url: str, count: int = 1) -> Path:
    given = f"{{key_env: THE_KEY, price_in: 1, price_out: 1}}\n  x: {{base: {url}}}"
    made = MakeProject(folder)(f"answer: {{model: '{url}#m'}}\nmodels:\n  '{url}#m': {given}\n")
    asked = "When is the brake fluid changed"
    rows = [{"user_input": f"{asked}{', ' * n}?", "reference": "two years"} for n in range(count)]
    write_rows(made / "rows.jsonl", rows)
    run(made, "ingest")
    return made


def test_half_a_surrogate_pair_in_a_reply_ends_no_command(keyed: None, tmp_path: Path) -> None:
    half = chat_reply("every two years half [1]").replace(b"half", b"half \\ud800")
    with raw_server(Raw(half)) as server:
        folder = asking(tmp_path, server.url)
        for more in ("", "--resume"):
            assert read_json(folder, f"{EVAL} {more}")["measures"]["Contains"]["mean"] == 1.0
        asked = read_json(folder, "ask", "How often is the oil changed?")
    assert asked["answers"][0]["text"].startswith("every two years half \ufffd")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (Raw(f"denied {KEY}".encode(), kind="text/plain"), 101),
        (Raw(json.dumps({"error": {"message": f"no: {KEY}"}}).encode(), 400), 101),
        (Raw(chat_reply(f"two years, says {KEY} [1]", model=KEY)), 0),
    ],
)
def test_a_key_that_a_server_repeats_is_neither_shown_nor_stored(
    keyed: None, reply: Raw, code: int, tmp_path: Path
) -> None:
    with raw_server(reply) as server:
        folder = asking(tmp_path, server.url)
        said = run(folder, f"{EVAL} --json", code=code)
        for form in ((), ("--json",)):
            words = ("ask", "How often is the oil changed?", *form)
            done = ragwright(folder, *words, code=int(code > 0))
            said += done.stdout + done.stderr
    assert KEY not in said
    files = [path for path in folder.rglob("*") if path.is_file()]
    assert any(path.name == "ledger.sqlite" for path in files)
    assert not [path for path in files if KEY.encode() in path.read_bytes()]


def test_negative_usage_does_not_lift_the_budget(keyed: None, tmp_path: Path) -> None:
    usage = {"prompt_tokens": -1_000_000, "completion_tokens": -5_000_000}
    with raw_server(Raw(chat_reply("every two years [1]", usage=usage))) as server:
        folder = asking(tmp_path, server.url, 40)
        asked = run(folder, "ask", "How often is the oil changed?")
        file = folder / "ragwright.yaml"
        file.write_text(file.read_text("utf-8").replace("price_in: 1,", "price_in: 10000,"))
        found = read_json(folder, f"{EVAL} --max-cost 10 -j 1", code=101)
    assert 0 < found["measures"]["Contains"]["states"].get("scored", 0) < 40
    assert "cannot be right: estimated" in asked


# -- several machines with one database ------------------------------------------------------

NUMBERS = itertools.count()
ROWS = [
    {"id": f"q{n}", "user_input": f"When is part {n} changed?", "reference": f"every {n} years"}
    for n in range(30)
]
MEASURED = "eval --testset set.jsonl --measures TokenF1 --json -q"


@pytest.fixture
def address(postgres: str) -> str:
    return f"postgresql://admin@/postgres?host={postgres}"


class Counting:
    """Answers a prompt, and counts how often it was asked."""

    def __init__(self) -> None:
        self.asked: Counter[str] = Counter()

    def __call__(self, request: ServerRequest) -> Reply:
        self.asked[request.prompt] += 1
        return Reply(f"Every {len(request.prompt) % 7} years [1].", delay=0.05)


def machines(folder: Path, url: str, address: str) -> tuple[Path, Path]:
    """Two copies of one project, as two machines have them."""
    shared = f"shared: {{address: '{address}', schema: m{next(NUMBERS)}}}\n"
    first = MakeProject(folder)(f"answer: {{model: '{url}#m'}}\n{shared}")
    write_rows(first / "set.jsonl", ROWS)
    run(first, "ingest -q")
    return first, Path(shutil.copytree(first, folder / "machine1"))


@pytest.mark.slow
def test_two_machines_pay_once_and_see_and_forget_each_other_s_runs(
    tmp_path: Path, address: str
) -> None:
    script = Counting()
    with ScriptedServer(script) as model:
        folders = machines(tmp_path, model.url, address)
        both = [started(command, folder, *MEASURED.split()) for folder in folders]
        for process in both:
            process.join(120)
            assert process.exitcode == 0
        assert len(script.asked) == len(ROWS)
        assert set(script.asked.values()) == {1}
        one, other = (json.loads((folder / "printed").read_text()) for folder in folders)
        assert one["measures"] == other["measures"]
        assert one["run"] != other["run"]
        assert read_json(folders[1], "compare latest~1 latest")
        assert not list(folders[0].rglob("replies.sqlite"))
        [own] = folders[0].rglob("ledger.sqlite")  # what is of this machine alone
        with closing(Ledger(own)) as ledger:
            kept = ("runs", "batches", "spending", "last_ingest")
            assert [len(ledger.select(f"SELECT 1 FROM {name}")) for name in kept] == [0, 0, 0, 1]
        shown = read_json(folders[1], "cache show")["replies"]
        assert sum(row["replies"] for row in shown) == len(ROWS)
        with Workbench.open(folders[0]) as bench:
            document = bench.retrieve("When is part 3 changed?").hits[0].document_id
            with bench.project._while_requesting():
                done = ragwright(folders[1], "forget", "--tenant", "t", code=1)
            assert "another process or machine works" in done.stderr
        gone = read_json(folders[1], f"forget {document}")
        assert 0 < gone["replies"] == gone["rows"] / 2
        with Workbench.open(folders[0]) as bench:
            left = sum(
                len([*bench.project.runs.rows(each.id)]) for each in bench.project.runs.list("eval")
            )
        assert left == 2 * len(ROWS) - gone["rows"]


@pytest.mark.slow
def test_a_killed_evaluator_costs_no_committed_call(tmp_path: Path, address: str) -> None:
    script = Counting()
    with ScriptedServer(script) as model:
        one, other = machines(tmp_path, model.url, address)
        killed = started(command, one, *MEASURED.split(), "-j", "4")
        with Workbench.open(other) as bench:
            wait_until(bench.project.replies.statistics)
        killed.kill()
        killed.join()
        with Workbench.open(other) as bench:
            paid = sum(count for _, _, count, *_ in bench.project.replies.statistics())
        run(other, MEASURED)
    assert paid > 0
    assert len(script.asked) == len(ROWS)
    # When it was killed, up to 4 calls were in flight, and 4 replies waited for their commit.
    assert script.asked.total() <= len(ROWS) + 8


def insert(statement: str, connection: Connection) -> int:
    return int(connection.execute(statement).rowcount)


@pytest.mark.slow
def test_a_person_is_erased_from_the_shared_database(tmp_path: Path, address: str) -> None:
    import psycopg

    schema = f"person{next(NUMBERS)}"
    folder = MakeProject(tmp_path)(f"shared: {{address: '{address}', schema: {schema}}}\n")
    run(folder, "ingest --quiet")
    run(folder, "keys add ann.example")
    with Workbench.open(folder) as bench:
        texts = [f"text {n} of record:0" for n in range(4)]
        bench.outputs.save(drafted(texts, ("record:0",), REQUEST))
        bench.outputs.give_name("1.1", "a1", "ann.example")
        place = bench.project.settings.shared.place(ProjectFolder(folder).ledger)
        served = "INSERT INTO served_calls VALUES ('ann.example', '2026-11-27', 1, 2.5, 3, 4)"
        with closing(Ledger(place)) as ledger:
            ledger.write(partial(insert, served))
    for more in ("--dry-run", ""):
        found = read_json(folder, f"forget --person ann.example {more}")
        assert [found[fact] for fact in ("answers", "keys", "limits", "events")] == [1, 1, 1, 1]
    with closing(psycopg.connect(address)) as connection:
        connection.execute(f"SET search_path = {schema}_ledger")
        events = connection.execute("SELECT who, subject FROM audit_events").fetchall()
        assert "ann.example" not in str(events)
        costs = connection.execute("SELECT key, cost FROM served_calls").fetchall()
        assert costs == [("(erased) 0", 2.5)]
        assert connection.execute("SELECT count(*) FROM items").fetchone() == (0,)


# -- promises --------------------------------------------------------------------------------

KNOWN = f"How many watts does the {things()[0]} need?"
UNKNOWN = "Who designed the Quartz kettle?"
PROMISE = "promise -t testsets/set.jsonl"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return certified_project(MakeProject(tmp_path))


@pytest.fixture
def promised(tmp_path: Path) -> Path:
    """The project after the default promise was made."""
    return certified_project(MakeProject(tmp_path), promised=True)


def asked(folder: Path, question: str, more: str = "") -> Any:
    [answer] = read_json(folder, f"ask {more}", question)["answers"]
    return answer


def opened(folder: Path) -> bool:
    return (folder / "testsets" / "openings.jsonl").exists()


def promise(folder: Path, **how: Any) -> Any:
    with Workbench.open(folder) as bench:
        return bench.promise(PromiseOptions("testsets/set.jsonl", **how))


def numbers(folder: Path) -> list[str]:
    with Workbench.open(folder) as bench:
        return [certificate.number for certificate in certificates(bench.project.folder)]


def rows_of(known: int = 81, unknown: int = 40) -> tuple[list[Any], list[Any]]:
    tune = certified_rows("tune", known=known, unknown=unknown)
    return tune, certified_rows("confirm", known=known, unknown=unknown)


def test_a_promise_is_certified_written_and_kept_by_every_door(folder: Path) -> None:
    assert asked(folder, UNKNOWN, "--set answer.threshold=0")["abstained"] is False
    assert "no promise in force" in run(folder, "promise --status")
    dry = ragwright(folder, *PROMISE.split(), "--dry-run", "--json")
    assert json.loads(dry.stdout)["calls"]["high"] == 0
    assert not opened(folder)
    assert not (folder / "promises").exists()
    done = ragwright(folder, *PROMISE.split(), "--json")
    document = json.loads(done.stdout)
    certificate = document["certificate"]
    assert document["certified"] is True
    assert certificate["answered"] >= 59
    assert (certificate["errors"], certificate["unanswerable"]) == (0, 40)
    assert certificate["bound"] <= 0.05
    assert 0.5 < certificate["coverage"] < 0.8, "questions about unknown things are withheld"
    assert document["chance"] == certificate["chance"] > 0.5
    assert 0 < certificate["luck"] < 0.05
    chance = f"chance of passing: {certificate['chance']:.0%}"
    assert chance in done.stderr
    assert f"{chance}, estimated" in dry.stderr
    assert f"chance {certificate['luck']:.1%}" in run(folder, "promise --status")
    stored = (folder / "promises" / "0001.json").read_text("utf-8")
    assert str(folder) not in stored, "certificates are shared: no path of this machine"
    line = document["line"]
    assert line == (
        f"At most 5 % of answers wrong, certified on 121 held-out questions on "
        f"{certificate['date']}; answers {round(100 * certificate['coverage'])} %"
    )
    right, withheld = asked(folder, KNOWN), asked(folder, UNKNOWN)
    assert "100 watts" in right["text"]
    assert (right["promise"]["line"], right["promise"]["holds"]) == (line, True)
    assert right["promise"]["score"] >= certificate["threshold"]
    assert (withheld["abstained"], withheld["citations"], withheld["snippets"]) == (True, [], [])
    assert any(note.startswith("withheld: the answer has ") for note in withheld["notes"])
    assert line in run(folder, "ask", KNOWN)
    with Workbench.open(folder) as bench:
        options = EvaluationOptions(answers=True)
        evaluation, _ = bench.evaluate("testsets/set.jsonl", "TokenF1", options)
    silent = [r for r in evaluation.results if r.row and r.row.metadata["abstained"]]
    assert len(silent) >= 40, "an evaluation measures what is served"
    assert line in evaluation.notes
    run(folder, "report -o report.html")
    assert line in (folder / "report.html").read_text("utf-8")


@pytest.mark.parametrize("score", ["hit", "margin", "snippet", "KPrecision(content+bigrams)"])
def test_a_served_answer_scores_as_its_stored_row_did(folder: Path, score: str) -> None:
    """What is answered under the guard is what was counted without it."""
    certificate = promise(folder, risk=0.5, scores=(score,)).certificate
    log = Openings(folder / "testsets" / "openings.jsonl", "test", dry_run=True)
    confirm = load_testset(str(folder / "testsets/set.jsonl"), split="confirm", openings=log)
    with Workbench.open(folder) as bench:
        evaluation, _ = bench.evaluate(confirm, "TokenF1", EvaluationOptions(answers=True))
    given = [r for r in evaluation.results if r.row and not r.row.metadata["abstained"]]
    assert len(given) == certificate.answered <= certificate.asked


def test_the_confirm_split_is_opened_once_and_every_further_time_halves_the_level(
    promised: Path,
) -> None:
    log = Openings.of(promised / "testsets" / "openings.jsonl")
    repeated = promise(promised)
    assert repeated.again
    assert Openings.of(promised / "testsets" / "openings.jsonl") == log
    assert [opening.purpose for opening in log] == ["promise: at most 5 % of answers wrong"]
    promise(promised, risk=0.1)
    with Workbench.open(promised) as bench:
        first, second = certificates(bench.project.folder)
        in_force = certificate_in_force(bench.project.folder)
        assert bench.project.plan().guard is not None
        variant = bench.project.variant(bench.project.settings)
        assert variant.plan().guard is None, "no threshold was chosen for a trial's settings"
    assert repeated.certificate.line == first.line
    assert (first.opening, second.opening) == (1, 2)
    assert [first.alpha, second.alpha] == pytest.approx([0.05, 0.025])
    assert any("opened once before" in note for note in second.notes)
    assert in_force is not None
    assert in_force.number == second.number == "0002"


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("retrieve: {top_k: 3}\nanswer: {threshold: 0}\n", "settings changed (retrieve)"),
        ("prompt: {company: Acme}\n", "the prompt changed"),
    ],
)
def test_a_change_suspends_it_and_again_renews_it(promised: Path, change: str, reason: str) -> None:
    with (promised / "ragwright.yaml").open("a") as file:
        file.write(change)
    answer = asked(promised, UNKNOWN, "" if "threshold" in change else "--set answer.threshold=0")
    assert answer["promise"]["line"] == (
        f"The promise of at most 5 % of answers wrong is suspended: {reason}; "
        "run `ragwright promise --again`"
    )
    assert (answer["promise"]["holds"], answer["promise"]["score"]) == (False, None)
    assert not any(note.startswith("withheld") for note in answer["notes"])
    assert not answer["abstained"], "a suspended promise withholds nothing"
    assert f"suspended: {reason}" in run(promised, "promise --status", code=100)
    run(promised, "promise --again --quiet")
    renewed = asked(promised, KNOWN)["promise"]
    assert (renewed["holds"], renewed["certificate"]) == (True, "0002")


def test_what_no_certified_question_was_like_is_not_covered(promised: Path) -> None:
    turns = (Message("user", KNOWN), Message("assistant", "100 watts [1]."))
    narrow = AskOptions(filters=(parse_filter("source!=docs/none.md"),))
    with Workbench.open(promised) as bench:
        answers = (
            bench.ask_all(KNOWN, [""], AskOptions(history=turns))[0],
            bench.ask_all(KNOWN, [""], narrow)[0],
            bench.ask(KNOWN, "engineer"),
        )
        courtesy = bench.ask("Thanks!")
    covered = (
        "follow-up questions",
        "questions with filters of their own",
        "answers for the persona",
    )
    for answer, what in zip(answers, covered, strict=True):
        assert answer.promise is not None
        assert f"does not cover {what}" in answer.promise.line
    assert (courtesy.route, courtesy.promise) == ("none", None)
    assert not any(note.startswith("withheld") for note in courtesy.notes)
    with ScriptedServer("100 watts [1].") as server:
        answer = read_json(promised, "ask", KNOWN, *settings(answer__model=f"{server.url}#m"))
    assert "the model changed" in answer["answers"][0]["promise"]["line"]


def test_a_pass_that_would_probably_be_luck_is_not_tried(folder: Path) -> None:
    """6 of 81 answers wrong: 5 % may be passed, but only by chance."""
    rows, confirm = rows_of(unknown=0)
    for number in range(0, 81, 20):
        rows[number]["reference"] = "a purple elephant"
    write_set(folder, rows + confirm)
    words = f"{PROMISE} --risk 0.1 --scores KPrecision(content+bigrams)"  # the same for all rows
    document = read_json(folder, words, code=100)
    assert document["reason"].startswith("if this passes it is probably luck (chance of passing ")
    assert document["reason"] in ragwright(folder, *words.split(), "--dry-run").stderr
    assert 0.05 < document["chance"] < 0.5
    assert document["needed"] > 81
    assert not opened(folder)
    write_set(folder, [*itertools.chain(*rows_of(unknown=0))])
    line = promise(folder).certificate.line
    assert "certified on 81 held-out questions, none of them unanswerable, on 20" in line
    model = {"answer": {"model": "http://127.0.0.1:9/v1#none"}, "sources": ["docs"]}
    (folder / "ragwright.yaml").write_text(json.dumps(model))
    done = ragwright(folder, *PROMISE.split(), "--dry-run")
    assert "chance of passing: known once the tune split is answered" in done.stderr


def test_withdrawing_keeps_the_certificates(promised: Path) -> None:
    assert "withdrawn" in run(promised, "promise --withdraw")
    assert "no promise" in run(promised, "promise --withdraw")
    assert "promise" not in asked(promised, KNOWN)
    assert numbers(promised) == ["0001"]
    promise(promised)
    assert numbers(promised) == ["0001"], "the stored certificate is in force again"


def test_test_sets_that_cannot_be_certified_on_are_refused_before_anything_is_opened(
    folder: Path,
) -> None:
    tune, confirm = rows_of(unknown=0)
    for rows, said in (
        (tune, "the confirm split is empty"),
        (confirm, "the tune split is empty"),
        ([{k: v for k, v in r.items() if k != "reference"} for r in tune + confirm],
         "no row says whether its answer is right"),
    ):  # fmt: skip
        write_set(folder, rows)
        with pytest.raises(TestsetError, match=said):
            promise(folder)
    write_set(folder, tune[:20] + confirm[:58])
    dry = ragwright(folder, *PROMISE.split(), "--dry-run", code=1)
    done = ragwright(folder, *PROMISE.split(), code=1)
    assert dry.stderr == done.stderr, "no price of what will be refused"
    needed = "59 answered held-out questions without a single error are needed"
    assert not lacking(done.stderr, "the confirm split has 58 rows: too few", needed)
    wrong = [
        {**row, "reference": "a purple elephant", "answerable": True}
        for row in itertools.chain(*rows_of())
    ]
    write_set(folder, wrong)
    document = read_json(folder, PROMISE, code=100)
    assert (document["certified"], document["needed"]) == (False, None)
    assert "no threshold keeps the share of wrong answers below 5 %" in document["reason"]
    assert document["reason"].endswith("the confirm split stays closed")
    assert not opened(folder)
    assert numbers(folder) == []
    write_set(
        folder, [{k: v for k, v in r.items() if k != "split"} for r in itertools.chain(*rows_of())]
    )
    line = promise(folder, risk=0.1, measure="Contains>=1").certificate.line
    assert "answers" in line, "rows without splits are split"
    with Workbench.open(folder) as bench:
        assert repeat_request(bench.project).measure == "Contains>=1"


def test_what_looked_good_on_tune_may_fail_on_confirm_and_stays_failed(folder: Path) -> None:
    rows, confirm = rows_of()
    for row in confirm[::2]:
        row["reference"] = "a purple elephant"
        row.pop("answerable", None)
    write_set(folder, rows + confirm)
    for again in (False, True):
        document = read_json(folder, PROMISE, code=100)
        assert (document["opened"], document["again"]) == (True, again)
        assert document["failed"]["errors"] > 0
        assert document["needed"] is not None
    assert len(Openings.of(folder / "testsets" / "openings.jsonl")) == 1


@pytest.mark.parametrize(
    ("how", "error", "text"),
    [
        ({"measure": "TokenF1"}, MeasureError, "cannot read 'TokenF1' as a rule"),
        ({"measure": "TokenF1>=baseline-0.1"}, ConfigError, "needs a fixed bound"),
        ({"scores": ("TokenF1",)}, ConfigError, "needs reference"),
        ({"scores": ("hitt",)}, ConfigError, "neither a score nor a measure"),
        ({"scores": ("KPrecision(x)",)}, MeasureError, "unknown parameter"),
        ({"scores": ()}, ConfigError, "no score to choose from"),
        ({"confidence": 1.0}, ConfigError, "the confidence must be a share"),
    ],
)
def test_wrong_options_are_refused(
    folder: Path, how: dict[str, object], error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        promise(folder, **how)


def test_a_damaged_promise_withholds_everything_until_it_is_mended(promised: Path) -> None:
    path = promised / "promises" / "0001.json"
    whole, pointer = path.read_text("utf-8"), promised / "promise.json"
    body, named = json.loads(whole), pointer.read_text("utf-8")
    for changed in ({**body, "threshold": 0.0}, {**body, "risk": 2}, {"number": "0001"}):
        path.write_text(json.dumps(changed), "utf-8")
        assert "damaged" in ragwright(promised, "ask", KNOWN, code=1).stderr
    path.unlink()
    missing = ragwright(promised, "ask", KNOWN, code=1).stderr
    assert "the certificate in force is missing" in missing
    path.write_text(whole)
    for text in ("", "{", "[]", "{}", '{"certificate": "9999"}'):
        pointer.write_text(text, "utf-8")
        said = ragwright(promised, "ask", KNOWN, code=1).stderr
        assert not lacking(said, "damaged", "promise --withdraw")
        run(promised, "promise --withdraw")
        assert "100 watts" in run(promised, "ask", KNOWN)
    pointer.write_text(named)
    assert asked(promised, KNOWN)["promise"]["holds"] is True


def test_two_processes_do_not_change_the_promise_at_once(folder: Path) -> None:
    failures: list[Exception] = []

    def other() -> None:
        with Workbench.open(folder) as bench:
            for act in (
                lambda: bench.promise(PromiseOptions("testsets/set.jsonl")),
                lambda: withdraw_promise(bench.project.folder),
            ):
                try:
                    act()
                except StoreError as error:
                    failures.append(error)

    with FileLock(folder / ".ragwright" / "data" / "promise.lock", "promise"):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(failures) == 2
    assert "the promise of this project is being changed" in str(failures[0])
    assert not opened(folder)


def test_a_chat_model_is_asked_once_for_each_question(tmp_path: Path) -> None:
    def reply(request: ServerRequest) -> str:
        name = next((n for n in things() if f"does the {n} need" in request.prompt), "")
        if not name:
            return "It was invented by Ada in 1801 [1]."
        return f"The {name} needs {100 + things().index(name)} watts [1]."

    with ScriptedServer(reply) as server:
        folder = certified_project(MakeProject(tmp_path), f"answer: {{model: '{server.url}#m'}}\n")
        assert promise(folder).certificate is not None
        calls = len(server.requests)
        assert calls == 242, "each question of both splits once"
        (folder / "docs" / "new.md").write_text("# New\n\nNothing about any thing.\n", "utf-8")
        with Workbench.open(folder) as bench:
            bench.ingest()
            assert bench.promise(repeat_request(bench.project)).certificate is not None
            assert len(server.requests) - calls < 40, "stored replies are used again"
            pieces: list[str] = []
            [answer] = bench.ask_all(UNKNOWN, [""], AskOptions(sink=pieces.append))
        assert answer.abstained
        assert pieces == [], "an answer is shown after it was checked"
