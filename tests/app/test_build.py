"""`init`, `ingest`, `retrieve`, `ask`, `audit` and `doctor`, as a user types them."""

from __future__ import annotations

import json
import os
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from command_line import ragwright
from made_files import pdf_of
from made_scans import LEFT, page, saved
from small_project import MakeProject
from story_tools import (
    lacking,
    make_project,
    read_json,
    run,
    settings,
    write_files,
    write_rows,
)

from ragwright import Workbench
from ragwright.core import ConfigError, read_yaml
from ragwright.project import init_project, load_settings, project_templates
from ragwright.testing import Reply, ScriptedServer

MANUAL = "# Service\n\nThe brake fluid must be changed every two years.\n"
QUESTION = "How often must the brake fluid be changed?"
FACT = "The brake fluid must be changed every two years."


@pytest.fixture
def built(tmp_path: Path) -> Path:
    write_files(tmp_path, {"docs/service.md": MANUAL})
    run(tmp_path, "init --quiet")
    run(tmp_path, "ingest --quiet")
    return tmp_path


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer("Every two years [1].") as running:
        yield running


def by(server: ScriptedServer) -> list[str]:
    return settings(answer__model=f"{server.url}#m")


# -- init ------------------------------------------------------------------------------------

FILES = [
    ".gitignore",
    "ragwright.yaml",
    *(f"records/{name}" for name in ("biographies.csv", "cleaning.yaml", "messages.csv")),
    *(f"records/{name}.yaml" for name in ("rollups", "rules", "source", "tags")),
    "records/text_formats/message.yaml",
]


def written(folder: Path) -> list[str]:
    return sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())


def test_the_template_of_records_is_written_whole_and_nothing_is_overwritten(
    tmp_path: Path,
) -> None:
    done = ragwright(tmp_path, "init", "--template", "records")
    assert written(tmp_path) == FILES
    assert "ragwright records check" in done.stderr
    assert "records" in project_templates()
    load_settings(tmp_path / "ragwright.yaml")
    assert all(read_yaml(tmp_path / name).value for name in FILES if name.endswith(".yaml"))
    assert not lacking(run(tmp_path, "job list"), "30 7 * * mon-fri", "generate")
    other = write_files(tmp_path / "other", {"records/tags.yaml": "tags: {}\n"})
    made = init_project(other, template="records")
    assert sorted(path.name for path in made) == [".gitignore", "ragwright.yaml"]
    assert (other / "records/tags.yaml").read_text("utf-8") == "tags: {}\n"
    with pytest.raises(ConfigError, match="nothing was changed"):
        init_project(other, template="records")
    assert written(other) == [".gitignore", "ragwright.yaml", "records/tags.yaml"]
    beside = tmp_path / "beside"
    init_project(beside, ("docs/",))
    before = (beside / "ragwright.yaml").read_text("utf-8")
    made = init_project(beside, template="records")
    assert {path.relative_to(beside).parts[0] for path in made} == {"records"}
    assert (beside / "ragwright.yaml").read_text("utf-8") == before


def test_a_source_that_is_not_there_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    sources = ("docs/", "nowhere/", "*.md", "https://example.org/x")
    listed = [word for source in sources for word in ("--source", source)]
    told = ragwright(tmp_path, "init", *listed).stderr
    assert [line for line in told.splitlines() if line.startswith("note:")] == [
        "note: nowhere does not exist yet"
    ]


# -- ingest ----------------------------------------------------------------------------------


def ids(folder: Path) -> list[str]:
    with Workbench.open(folder) as bench:
        return sorted(document.id for document in bench.documents())


def test_ingest_counts_and_names_failures(built: Path) -> None:
    (built / "docs/empty.txt").write_bytes(b"")
    assert read_json(built, "ingest --dry-run")["unchanged"] == 1
    report = read_json(built, "ingest")
    states = ("added", "changed", "unchanged", "removed", "failed")
    assert [report["documents"][state] for state in states] == [0, 0, 1, 0, 1]
    [failure] = report["failures"]
    assert failure["source"].endswith("empty.txt")
    assert failure["reason"]
    run(built, "ingest --quiet")
    run(built, "ingest --quiet --strict", code=1)
    (built / "docs/empty.txt").write_text("Oil is changed yearly.")
    run(built, "ingest --quiet")
    (built / "docs/empty.txt").unlink()
    loud, quiet = run(built, "ingest"), run(built, "ingest -q")
    assert "note: 1 document is no longer in these sources" in loud
    assert "note: " not in quiet
    assert "1 unchanged" in quiet


def test_ids_depend_neither_on_how_a_folder_is_written_nor_on_where_the_command_is_run(
    tmp_path: Path,
) -> None:
    expected = ["../docs/deep/codes.md", "../docs/service.md", "inside/note.md"]
    texts = {"docs/service.md": FACT, "docs/deep/codes.md": "APP_w304: the pedal sensor failed."}
    write_files(tmp_path, {**texts, "work/inside/note.md": "The coolant is changed yearly."})
    work = tmp_path / "work"
    for source in ("../docs", "../docs/", str(tmp_path / "docs"), "../docs/**/*.md"):
        (work / "ragwright.yaml").write_text(f"sources: ['{source}', inside]\n")
        run(work, "ingest -q")
        assert ids(work) == expected, source
    run(tmp_path, "ingest docs work/inside -C work -q")
    again = read_json(work, "ingest")["documents"]
    assert (again["unchanged"], again["added"]) == (3, 0)
    other = tmp_path / "another machine"
    other.mkdir()
    for name in ("docs", "work"):
        (tmp_path / name).rename(other / name)
    assert ids(other / "work") == expected, "a project moved with its documents keeps its gold"


@pytest.mark.slow
def test_an_ingest_of_which_nothing_could_be_read_is_an_error(tmp_path: Path) -> None:
    table = "\n".join(["a,b,c", *(f"{n},{n},{n}" for n in range(9)), "1,2"])
    files = {"inside/note.md": "Yearly.", "broken.pdf": "%PDF-1.4 broken"}
    write_files(tmp_path, {**files, "ragwright.yaml": "sources: [inside]\n"})
    shown = run(tmp_path, "ingest broken.pdf nosuch", code=1)
    assert "0 added" in shown
    assert shown.count("failed:") == 2
    run(tmp_path, "ingest broken.pdf inside")
    run(tmp_path, "ingest broken.pdf inside --strict", code=1)
    (tmp_path / "inside/table.csv").write_text(table)
    told = read_json(tmp_path, "ingest --strict")
    assert (told["documents"]["added"], told["documents"]["failed"]) == (1, 0)
    assert told["failures"] == []
    [warning] = told["warnings"]
    assert warning["source"] == "inside/table.csv"
    assert "row 11 has 2" in warning["reason"], "a ragged table is read all the same"
    assert "1 with warnings" in run(tmp_path, "ingest")


def test_odd_names_and_links_to_themselves_cost_only_themselves(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)()
    odd = Path(os.fsdecode(os.fsencode(folder) + b"/docs/bad\xff.md"))
    odd.write_text("# Odd\n\nText.\n", "utf-8")
    (folder / "docs/self").symlink_to("self")
    told = read_json(folder, "ingest")
    assert told["documents"]["added"] == 2
    assert [f["source"] for f in told["failures"]] == [r"docs/bad\xff.md", "docs/self"]
    assert run(folder, "ingest").startswith("documents: 0 added, 0 changed, 2 unchanged")
    odd.unlink()
    (folder / "docs/self").unlink()
    (tmp_path / "secret.md").write_text("# Secret\n\nThe secret text.\n", "utf-8")
    (folder / "docs/link.md").write_text("# Secret\n\nThe secret text.\n", "utf-8")
    assert read_json(folder, "ingest")["documents"]["added"] == 1
    (folder / "docs/link.md").unlink()
    (folder / "docs/link.md").symlink_to("../../secret.md")
    told = read_json(folder, "ingest --prune --strict")
    assert (told["documents"]["failed"], told["documents"]["removed"]) == (0, 1)
    [skipped] = told["skipped"]
    assert skipped["source"] == "docs/link.md"
    assert "as a source" in skipped["do"]
    assert not lacking(run(folder, "ingest"), "0 failed, 1 skipped", "skipped: docs/link.md")


def test_a_document_with_broken_front_matter_passes_no_filter(tmp_path: Path) -> None:
    private = "---\nvisibility: private\ncreated: {}\n---\n\n# Salaries\n\nSalaries of {}.\n"
    files = {
        "public.md": "# Salaries\n\nSalaries are paid monthly.\n",
        "kept.md": private.format("2024-01-31", "last year"),
    }
    hides = "retrieve: {filters: [{field: visibility, values: [private], exclude: true}]}\n"
    folder = make_project(tmp_path, files, hides)
    with Workbench.open(folder) as bench:
        before = {d.id: d for d in bench.documents()}
    assert len(before) == 2
    (folder / "docs/kept.md").write_text(private.format("2024-99-99", "this year"), "utf-8")
    (folder / "docs/new.md").write_text(private.format("2024-99-99", "next year"), "utf-8")
    with Workbench.open(folder) as bench:
        report = bench.ingest(prune=True)
        assert [f.source for f in report.failures] == ["docs/kept.md", "docs/new.md"]
        assert {d.id: d for d in bench.documents()} == before
        assert [hit.document_id for hit in bench.retrieve("salaries").hits] == ["docs/public.md"]


def test_documents_are_read_from_archives_that_cannot_do_harm(tmp_path: Path) -> None:
    def archived(files: dict[str, str]) -> None:
        with zipfile.ZipFile(tmp_path / "manuals.zip", "w", zipfile.ZIP_DEFLATED) as file:
            for name, text in files.items():
                file.writestr(name, text)

    pump = {"pump.md": "The pump is checked weekly."}
    both = {**pump, "deep/belt.md": "The belt is changed yearly."}
    archived({**both, ".hidden/secret.md": "Hidden.", "../../escape.md": "Out of here."})
    (tmp_path / "ragwright.yaml").write_text("sources: ['zip://::manuals.zip']\n")
    found = read_json(tmp_path, "ingest")
    assert found["documents"]["added"] == 2
    [failure] = found["failures"]
    assert "leads out of the source" in failure["reason"]
    assert not (tmp_path.parent.parent / "escape.md").exists()
    assert ids(tmp_path) == ["manuals.zip#deep/belt.md", "manuals.zip#pump.md"]
    archived(both)
    assert read_json(tmp_path, "ingest")["documents"]["unchanged"] == 2
    for plain in ("manuals.zip", "zip://manuals.zip"):
        [failure] = read_json(tmp_path, f"ingest {plain}", code=1)["failures"]
        assert "zip://::manuals.zip" in failure["do"]
    archived({"zeros.txt": "0" * 2_000_000})
    text = "sources: [{source: 'zip://::manuals.zip', max_unpacked_bytes: 1000000}]\n"
    (tmp_path / "ragwright.yaml").write_text(text)
    found = read_json(tmp_path, "ingest --prune", code=1)
    assert "unpacks to more than" in found["failures"][0]["reason"]
    assert found["documents"]["removed"] == 0
    (tmp_path / "manuals.zip").write_bytes(b"PK\x03\x04 not an archive")
    assert read_json(tmp_path, "ingest --prune", code=1)["documents"]["removed"] == 0
    assert len(ids(tmp_path)) == 2
    archived({"pump.md": "The pump is checked daily."})
    found = read_json(tmp_path, "ingest --prune")["documents"]
    assert (found["changed"], found["removed"]) == (1, 1)


@pytest.fixture(scope="module")
def s3(needs_s3: None) -> Iterator[str]:
    """Address of a server that speaks the S3 protocol."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.mark.slow
def test_a_bucket_is_read_and_a_store_that_is_away_removes_nothing(
    s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import boto3

    def where(address: str, more: str = "") -> None:
        arguments = f"{{endpoint_url: '{address}'{more}}}"
        source = f"{{source: s3://manuals/docs, arguments: {arguments}}}"
        (tmp_path / "ragwright.yaml").write_text(f"sources: [{source}]\n")

    for name, value in (("ACCESS_KEY_ID", "testing"), ("SECRET_ACCESS_KEY", "hush-hush")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client = boto3.client("s3", endpoint_url=s3)
    client.create_bucket(Bucket="manuals")
    for key in ("docs/pump.md", "docs/belt.md", "other/valve.md"):
        client.put_object(Bucket="manuals", Key=key, Body=f"The {key} is checked.".encode())
    where(s3)
    assert read_json(tmp_path, "ingest")["documents"]["added"] == 2
    assert ids(tmp_path) == ["s3://manuals/docs/belt.md", "s3://manuals/docs/pump.md"]
    quick = ", config_kwargs: {connect_timeout: 1, retries: {max_attempts: 0}}"
    where("http://127.0.0.1:9", quick)
    found = read_json(tmp_path, "ingest --prune", code=1)
    assert found["documents"]["removed"] == 0
    assert "cannot be read" in found["failures"][0]["reason"]
    monkeypatch.setenv("STORE_SECRET", "very-secret-value")
    where(s3, ", nosuchoption: {env: STORE_SECRET}")
    found = read_json(tmp_path, "ingest --prune", code=1)
    assert found["documents"]["removed"] == 0
    assert "very-secret" not in json.dumps(found)
    assert len(ids(tmp_path)) == 2
    where(s3)
    client.put_object(Bucket="manuals", Key="docs/pump.md", Body=b"The pump is checked daily.")
    found = read_json(tmp_path, "ingest")["documents"]
    assert (found["changed"], found["unchanged"]) == (1, 1), "unchanged ones are not fetched"
    client.delete_object(Bucket="manuals", Key="docs/belt.md")
    assert read_json(tmp_path, "ingest --prune")["documents"]["removed"] == 1


def test_a_password_in_an_address_is_refused_and_a_repository_is_not_taken_for_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "ragwright.yaml").write_text("sources: ['sftp://me:hushhush@host/docs']\n")
    done = ragwright(tmp_path, "ingest", code=1)
    assert "must not contain a password" in done.stdout
    assert "hushhush" not in done.stdout + done.stderr
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nothing leaves the machine
    (tmp_path / "ragwright.yaml").write_text("sources: ['github://org:repo@main/docs']\n")
    [failure] = read_json(tmp_path, "ingest", code=1)["failures"]
    assert failure["source"] == "github://org:repo@main/docs"
    assert "cannot be read" in failure["reason"]


SHOUT = """
from ragwright.ingest import Parser


class Shout(Parser):
    name = "shout"

    def parse(self, data, name, kind):
        open("calls.txt", "a").write("x")
        return ["# PUMPS", "| part | days |\\n| - | - |\\n| FILTER | 30 |"]
"""


def test_a_parser_of_ones_own_reads_each_file_once(tmp_path: Path) -> None:
    pages = pdf_of("The filter is changed after thirty days", "Close the valve first")
    write_files(tmp_path, {"docs/pump.pdf": pages, "own.py": SHOUT})
    (tmp_path / "ragwright.yaml").write_text("sources: [docs/]\n")
    time.sleep(2.1)  # a file that was written just now may change again under the same time
    run(tmp_path, "ingest")
    theirs = "--set ingest.parser=own:Shout"
    smaller = f"{theirs} --set chunk.head.title=false"
    run(tmp_path, f"ingest {theirs}")
    assert read_json(tmp_path, f"ingest {smaller}")["documents"]["added"] == 1
    assert "FILTER" in run(tmp_path, f"retrieve filter {smaller}")
    assert "FILTER" in run(tmp_path, f"retrieve filter {theirs}")
    assert "FILTER" not in run(tmp_path, "retrieve filter"), "each has an index of its own"
    assert (tmp_path / "calls.txt").read_text() == "x", "no unchanged file is read again"
    rows = [{"user_input": u, "reference_ids": ["docs/pump.pdf"]} for u in ("valve", "thirty days")]
    write_rows(tmp_path / "t.jsonl", rows)
    asked = {"testset": "t.jsonl", "measures": "MRR@5", "retrieval_only": True}
    study = {"study": asked, "ingest": {"parser": ["ours", "own:Shout"]}}
    (tmp_path / "study.yaml").write_text(json.dumps(study))
    trials = read_json(tmp_path, "sweep study.yaml")["trials"]
    assert len({trial["measures"]["MRR@5"]["mean"] for trial in trials}) == 2
    (tmp_path / "docs" / "pump.pdf").write_bytes(pdf_of("Another page"))
    run(tmp_path, f"ingest {theirs}")
    assert (tmp_path / "calls.txt").read_text() == "xx"
    (tmp_path / "ragwright.yaml").write_text("sources: [{source: docs/, parser: 'own:Shout'}]\n")
    assert read_json(tmp_path, "ingest")["documents"]["changed"] == 1
    assert "FILTER" in run(tmp_path, "retrieve filter")


@pytest.mark.slow
def test_answers_name_the_ocr_and_unchanged_scans_cost_nothing(tmp_path: Path) -> None:
    scan = tmp_path / "docs/letter.png"
    write_files(tmp_path, {"docs/letter.png": saved(page(LEFT))})
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\n", "utf-8")
    assert "OCR read 1 page of 1 file" in run(tmp_path, "ingest")
    said = run(tmp_path, "ask", QUESTION)
    assert "docs/letter.png, characters 0-" in said
    assert "(OCR, confidence 0.9" in said or "(OCR, confidence 1.0" in said
    [answer] = read_json(tmp_path, "ask", QUESTION)["answers"]
    assert 0.9 < answer["citations"][0]["ocr"] <= 1
    # A file is read again if it changed within 2 s before it was read.
    time.sleep(max(0.0, scan.stat().st_ctime + 2.1 - time.time()))
    run(tmp_path, "ingest")
    assert "OCR" not in run(tmp_path, "ingest")
    source = "sources: [{source: docs, ocr_pixels: 300000}]\n"
    (tmp_path / "ragwright.yaml").write_text(source, "utf-8")
    assert "OCR read 1 page" in run(tmp_path, "ingest")


# -- retrieve, ask and doctor ----------------------------------------------------------------


def test_hits_and_answers_have_the_shape_of_the_contract(built: Path) -> None:
    [hit] = read_json(built, "retrieve", "brake fluid")["hits"]
    assert hit["rank"] == 1
    assert hit["document_id"] == hit["source"] == "docs/service.md"
    assert MANUAL[hit["start"] : hit["end"]] == hit["text"]
    assert {"score", "chunk_id", "page"} <= set(hit)
    answers = read_json(built, "ask --personas engineer,marketing", QUESTION)["answers"]
    assert [answer["persona"] for answer in answers] == ["engineer", "marketing"]
    for answer in answers:
        assert (answer["model"], answer["route"]) == ("snippet", "index")
        assert answer["cached"] is False
        [citation] = answer["citations"]
        assert {"source", "page", "start", "end"} <= set(citation)
        assert MANUAL[citation["start"] : citation["end"]] == FACT
    assert "docs/service.md" in ragwright(built, "retrieve", "-", typed="fluid\n").stdout
    assert "every two years" in ragwright(built, "ask", "-", typed=f"{QUESTION}\n").stdout
    done = ragwright(built, "retrieve", "brake fluid", "--json", "-o", "out/hits.json")
    assert done.stdout == ""
    assert json.loads((built / "out/hits.json").read_text("utf-8"))["hits"]


def test_an_answer_is_streamed_traced_and_paid_once(built: Path, server: ScriptedServer) -> None:
    words = ("ask", QUESTION, *by(server))
    assert "calls: 1" in ragwright(built, *words, "--dry-run").stdout
    forecast = json.loads(ragwright(built, *words, "--dry-run", "--json").stdout)
    assert forecast["calls"]["expected"] == 1
    assert server.requests == []
    first = ragwright(built, *words).stdout
    assert first.count("Every two years [1].") == 1
    assert "docs/service.md" in first
    second = ragwright(built, *words).stdout
    assert second.count("Every two years [1].") == 1
    assert "stored reply" in second
    assert "nothing was paid for" in ragwright(built, *words, "--trace").stdout
    assert len(server.requests) == 1
    traced = ragwright(built, *words, "--no-cache", "--trace").stdout
    parts = ("Search", "Lookup", "Chat", "brake fluid must be changed", "no price known")
    assert not lacking(traced, "total: 1 call,", *parts)
    trace = json.loads(ragwright(built, *words, "--trace", "--json").stdout)["trace"]
    assert [entry["kind"] for entry in trace] == ["Search", "Lookup", "Chat"]
    assert len(server.requests) == 2
    server.play(lambda _: Reply(status=401, error="bad key"))
    assert "Traceback" not in ragwright(built, "ask", "Which fluid?", *by(server), code=1).stderr
    name = f"{server.url}#m"
    prices = f"models: {{'{name}': {{price_in: 1000, price_out: 1000}}}}\n"
    with (built / "ragwright.yaml").open("a") as file:
        file.write(f"answer: {{model: '{name}'}}\n{prices}")
    before = len(server.requests)
    done = ragwright(built, "ask", "How much fluid?", "--max-cost", "0.01", code=101)
    assert "budget" in done.stderr
    assert len(server.requests) == before


def test_tables_are_asked_behind_groups(tmp_path: Path) -> None:
    """A right to read opens the tables that it allows, and no other ones."""
    write_files(tmp_path, {"pay/list.csv": "Person,Salary (EUR)\nAda,5101\nBo,4202\n"})
    (tmp_path / "ragwright.yaml").write_text("sources: [{source: pay/, groups: [hr]}]\n")
    run(tmp_path, "ingest")
    question = ("ask", "What is the salary of Ada?", "--as-groups")
    assert "| Ada | 5101 |" in ragwright(tmp_path, *question, "hr").stdout
    hidden = ragwright(tmp_path, *question, "everyone", "--json").stdout
    assert "5101" not in hidden
    assert "Salary" not in hidden


def test_the_doctor_says_what_is_missing_wrong_and_paid(
    built: Path, server: ScriptedServer
) -> None:
    assert all(check["state"] != "fault" for check in read_json(built, "doctor")["checks"])
    assert "OPENAI_API_KEY" in run(built, "doctor --set answer.model=openai:gpt-4o-mini", code=1)
    assert "retrieve.top_k" in run(built, "doctor --keys")
    assert read_json(built, "doctor --keys")["keys"]
    listed = settings(answer__model=f"{server.url}#scripted")
    run(built, "doctor --ask-models", *listed)
    other = run(built, "doctor --ask-models", *by(server), code=None)
    assert "does not list 'm'" in other
    gone = settings(answer__model="http://127.0.0.1:9/v1#m")
    run(built, "doctor --ask-models", *gone, code=1)
    (built / "personas/dear.yaml").write_text("name: dear\nmodel: openai:gpt-4o\n", "utf-8")
    assert "openai:gpt-4o needs a key" in run(built, "doctor", code=None)
    (built / "personas/dear.yaml").write_text("nam: dear\n", "utf-8")
    broken = ragwright(built, "doctor", "--ask-models", code=None)
    assert "Traceback" not in broken.stderr
    assert "nam" in broken.stdout
    (built / "personas/dear.yaml").unlink()
    with (built / "ragwright.yaml").open("a") as file:
        file.write("\nserve: {prot: 80}\n")
    assert read_json(built, "ask", "How often is the oil changed?")["answers"], "not read for it"
    wrong = settings(retrieve__stages="[json:loads, absent]", judge__by="json:dumps")
    told = run(built, "doctor", *wrong, code=1)
    faults = ("'json:loads' is not a stage", "'absent'", "'json:dumps' is not a judge")
    assert not lacking(told, "ragwright.yaml:", "prot", *faults)
    refused = ragwright(built, "ask", "-q", "Which oil?", "--set", "serve.prot=80", code=1)
    assert "prot" in refused.stderr


# -- audit -----------------------------------------------------------------------------------

COPY = (
    "The nozzle of the X5-HOT printer is heated before the filament is loaded, and cleaned with a "
    "brush of brass after each print. Then the bed is wiped with alcohol, the fan of the case "
    "turns at full speed until the printer is cold, and the day is written into the book of the "
    "house."
)


@pytest.fixture
def copies(tmp_path: Path) -> Path:
    first = f"# Heating\n\n{COPY.replace('house', 'plant')}\n\nSee [the guide](gone.md).\n"
    return make_project(tmp_path, {"a.md": first, "b.md": f"# Bulletin\n\n{COPY}\n"})


def test_an_audit_gates_writes_json_and_a_page(copies: Path) -> None:
    gated = ragwright(copies, "audit", "--gate", "copies=0, references<=3", "--json", code=100)
    assert "copies: 1 finding, at most 0 allowed" in gated.stderr
    finding = json.loads(gated.stdout)["findings"][0]
    assert {"kind", "severity", "places", "why", "what_to_do"} <= set(finding)
    place = finding["places"][0]
    text = (copies / place["source"]).read_text("utf-8")
    assert text[place["start"] : place["end"]] == place["text"]
    assert read_json(copies, "audit -o audit.html --gate copies<=1")["findings"]
    page = (copies / "audit.html").read_text("utf-8")
    assert not lacking(page, "of the plant", "of the house")
    run(copies, "audit --kinds damage --gate findings=0")
    assert read_json(copies, "audit --dry-run")["cost"] is not None
    shown = run(copies, "audit --kinds copies")
    assert shown.startswith("1 finding in 2 documents.")
    assert not lacking(shown, "docs/a.md", "docs/b.md")
    name = shown.partition("[")[2].partition("]")[0]
    run(copies, f"audit --dismiss {name} --why", "two models")
    assert "1 dismissed" in run(copies, "audit --kinds copies")
    assert "0 new findings" in run(copies, "audit --kinds copies --since latest")


def test_the_terminal_shows_some_findings_of_each_kind(copies: Path) -> None:
    links = "\n\n".join(f"See [part {n}](part-{n}.md)." for n in range(24))
    (copies / "docs" / "c.md").write_text(f"# Parts\n\n{links}\n", "utf-8")
    run(copies, "ingest --quiet")
    shown = run(copies, "audit")
    assert shown.count("references: dead link") == 5
    assert "20 references more: --all" in shown
    assert shown.index("copies: ") < shown.index("references: dead link")
    assert run(copies, "audit --all").count("references: dead link") == 25


def test_a_text_without_a_title_is_shown_by_its_place(tmp_path: Path) -> None:
    write_files(tmp_path, {"docs/note.txt": "The brake fluid lasts two years.\n"})
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\n", "utf-8")
    run(tmp_path, "ingest")
    said = run(tmp_path, "ask", "brake fluid")
    assert "\n[1] docs/note.txt, characters 0-" in said
