"""`ragwright rehearse`: a planted change of each kind is named with its reason."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from drafted import drafted

from ragwright import Workbench
from ragwright.drafting import NewBatch, NewOutput
from ragwright.project import ProjectFolder
from ragwright.rehearsal import Rehearsing
from ragwright.serve import ServeKey, ServeKeys
from ragwright.testing import Reply, ScriptedServer, ServerRequest

PARTS = ("brake", "coolant", "filter", "belt")


def page(part: str, interval: str = "yearly", head: str = "") -> str:
    return f"{head}# The {part}\n\nThe {part} is changed {interval}. Ask for {part}-77.\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    docs = tmp_path / "docs"
    docs.mkdir()
    rows = []
    for part in PARTS:
        (docs / f"{part}.md").write_text(page(part), "utf-8")
        rows.append(
            {
                "user_input": f"When is the {part} changed?",
                "reference": "yearly",
                "reference_ids": [f"docs/{part}.md"],
            }
        )
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), "utf-8")
    (tmp_path / "ragwright.yaml").write_text("sources: [docs]\nretrieve: {top_k: 1}\n", "utf-8")
    ragwright(tmp_path, "ingest")
    return tmp_path


@pytest.fixture
def server() -> Iterator[ScriptedServer]:
    with ScriptedServer(answered) as running:
        yield running


def answered(request: ServerRequest) -> Reply:
    """The interval of the passage, in the words of the model and of the prompt's persona."""
    text = json.dumps(request.body["messages"])
    interval = "every two years" if "every two years" in text else "yearly"
    brief = "Briefly: " if "in one word" in text else ""
    return Reply(f"{brief}{request.body['model']} says {interval}. [1]")


def rehearsed(folder: Path, *words: str, code: int = 0, testset: bool = True) -> Any:
    rows = ("--testset", "rows.jsonl") if testset else ()
    done = ragwright(folder, "rehearse", *words, *rows, "--json", code=code)
    return json.loads(done.stdout)


def change_of(document: Any, part: str) -> Any:
    [change] = [c for c in document["changes"] if part in c["question"]]
    return change


def direct(change: Any) -> list[str]:
    return [reason["kind"] for reason in change["reasons"] if reason["direct"]]


def test_changed_sources_are_named_with_what_happened_to_each_passage(project: Path) -> None:
    new = project / "new"
    new.mkdir()
    (new / "brake.md").write_text(page("brake"), "utf-8")
    (new / "coolant.md").write_text(page("coolant", "every two years"), "utf-8")
    (new / "belt.md").write_text(page("belt", head="# Preface\n\nPrinted in Ulm.\n\n"), "utf-8")
    before = ragwright(project, "retrieve", "coolant", "--json").stdout
    document = rehearsed(project, "--sources", "new=docs/")
    assert {d["document_id"]: d["state"] for d in document["documents"]} == {
        "docs/belt.md": "changed",
        "docs/coolant.md": "changed",
        "docs/filter.md": "gone",
    }
    coolant = change_of(document, "coolant")
    assert direct(coolant) == ["passage changed"]
    assert "every two years" in coolant["after"]["text"]
    assert coolant["worse"]["Contains"] == -1
    assert "passage moved" in direct(change_of(document, "belt"))
    lost = change_of(document, "filter")
    assert "passage gone" in direct(lost)
    assert {"now abstains", "lost citations", "worse"} <= set(lost["effects"])
    assert not [c for c in document["changes"] if "brake" in c["question"]]
    assert document["shares"]["lost_citations"] == {"share": 0.25, "part": 1, "of": 4}
    # the present index answers as before, and the copy is gone
    assert ragwright(project, "retrieve", "coolant", "--json").stdout == before
    assert not [path for path in (project / ".ragwright/cache/trial").iterdir() if path.is_dir()]
    # the files were not stamped as read: an ingest still reads the same changes
    (project / "docs/coolant.md").write_text(page("coolant", "every two years"), "utf-8")
    assert "1 changed" in ragwright(project, "ingest").stdout


def test_a_new_document_that_answers_is_a_new_passage(project: Path) -> None:
    (project / "docs/horn.md").write_text(page("horn", "never"), "utf-8")
    (project / "rows.jsonl").write_text(json.dumps({"user_input": "When is the horn changed?"}))
    document = rehearsed(project, "--sources", "docs")
    horn = change_of(document, "horn")
    assert direct(horn) == ["passage new"]
    assert {"now answers", "new citations"} <= set(horn["effects"])
    assert any("no gold" in note for note in document["notes"])


def test_model_prompt_filter_and_search_settings_are_told_apart(
    project: Path, server: ScriptedServer
) -> None:
    model = f"answer: {{model: '{server.url}#small'}}\n"
    settings = project / "ragwright.yaml"
    settings.write_text(settings.read_text("utf-8") + model, "utf-8")
    changed = rehearsed(project, "--set", f"answer.model={server.url}#large")
    assert direct(change_of(changed, "brake")) == ["model"]
    assert changed["settings"]["answer.model"]["after"].endswith("#large")
    asked = server.count
    rehearsed(project, "--set", f"answer.model={server.url}#large")
    assert server.count == asked  # known answers cost nothing

    (project / "personas").mkdir(exist_ok=True)
    (project / "personas/brief.yaml").write_text("extra_instructions: Answer in one word.\n")
    persona = rehearsed(project, "--set", "answer.persona=brief")
    assert direct(change_of(persona, "brake")) == ["prompt"]
    assert change_of(persona, "brake")["after"]["text"].startswith("Briefly: ")

    hidden = "[{field: source, values: [docs/brake.md], exclude: true}]"
    filtered = rehearsed(project, "--set", f"retrieve.filters={hidden}")
    assert direct(change_of(filtered, "brake")) == ["filter"]
    assert len(filtered["changes"]) == 1

    wider = rehearsed(project, "--set", "retrieve.top_k=2", "--search-only")
    assert {kind for c in wider["changes"] for kind in direct(c)} == {"search"}


def test_a_model_that_does_not_repeat_itself_is_unexplained(project: Path) -> None:
    replies = iter(range(100))
    with ScriptedServer(lambda _: f"Answer {next(replies)}. [1]") as server:
        settings = project / "ragwright.yaml"
        text = settings.read_text("utf-8") + f"answer: {{model: '{server.url}#m'}}\n"
        settings.write_text(text, "utf-8")
        (project / "docs/horn.md").write_text(page("horn", "never"), "utf-8")
        document = rehearsed(project, "--sources", "docs", "--no-cache")
    assert document["groups"][0]["reasons"] == ["unexplained"]
    assert any("does not repeat" in note for note in document["notes"])


def test_a_gate_decides_by_exit_code_and_refuses_what_it_cannot_read(project: Path) -> None:
    hidden = "[{field: source, values: [docs/brake.md], exclude: true}]"
    words = ("--set", f"retrieve.filters={hidden}", "--gate")
    failed = rehearsed(project, *words, "lost_citations<=2%, worse<=1%", code=100)
    assert {check["state"] for check in failed["gate"]["checks"]} == {"failed"}
    assert rehearsed(project, *words, "worse<=0.25,failed<=0")["gate"]["state"] == "passed"
    for rule, message in (
        ("worst<=1%", "unknown name 'worst'"),
        ("worse<1%", "'worse<1%' is not a rule"),
        ("worse<=200%", "above 100 %"),
        ("", "the gate has no rule"),
    ):
        refused = ragwright(project, "rehearse", *words, rule, "--testset", "x", code=1)
        assert message in refused.stderr
    (project / "rows.jsonl").write_text(json.dumps({"user_input": "When is the belt changed?"}))
    promoted = ragwright(project, "promote", "latest", "--rehearse", " ", code=1)
    assert "the gate has no rule" in promoted.stderr
    untrusted = rehearsed(project, *words, "worse<=1%", code=101)
    assert untrusted["gate"]["checks"][0]["share"] is None


def test_what_cannot_be_rehearsed_is_refused_with_what_to_do(project: Path) -> None:
    for words, message in (
        (("--sources", "nofolder", "--testset", "rows.jsonl"), "no such file or folder"),
        (("--set", "retrieve.top_k=2"), "--testset testsets/main.jsonl"),
        ((), "there is nothing to rehearse"),
        (("--set", "retrieve.top_k=1", "--testset", "rows.jsonl"), "changes nothing"),
        (("--sources", "new=nowhere", "--testset", "rows.jsonl"), "comes from 'nowhere'"),
        (("--config", "served", "--testset", "rows.jsonl"), "no configuration is served yet"),
        (("--config", "other.yaml", "--testset", "rows.jsonl"), "other.yaml does not exist"),
        (("--config", "tuned", "--testset", "rows.jsonl"), "no sweep is stored"),
        (("--set", "retrieve.top_k=2", "--scope", "x"), "no key of the server has the tenant"),
    ):
        assert message in ragwright(project, "rehearse", *words, code=1).stderr


def test_a_file_of_settings_and_the_served_configuration_are_sides(project: Path) -> None:
    (project / "other.yaml").write_text("retrieve: {top_k: 3}\n", "utf-8")
    document = rehearsed(project, "--config", "other.yaml", "--search-only")
    assert document["settings"]["retrieve.top_k"] == {"before": 1, "after": 3}
    words = ("--testset", "rows.jsonl", "--measures", "HitRate@1", "--name", "first")
    ragwright(project, "eval", *words)
    ragwright(project, "promote", "first", "--gate", "HitRate@1>=0.5", "--least", "4")
    settings = project / "ragwright.yaml"
    settings.write_text("sources: [docs]\nretrieve: {top_k: 2}\n", "utf-8")
    document = rehearsed(project, "--config", "served", "--search-only")
    assert document["settings"]["retrieve.top_k"] == {"before": 2, "after": 1}

    hidden = "[{field: source, values: [docs/brake.md], exclude: true}]"
    words = ("--testset", "rows.jsonl", "--measures", "HitRate@1", "--name", "second")
    ragwright(project, "eval", *words, "--set", f"retrieve.filters={hidden}")
    rules = ("--gate", "HitRate@1>=0.1", "--rules-alone", "--least", "4")
    first = ("--rehearse", "lost_citations<=2%", "--rehearse-testset", "rows.jsonl")
    refused = ragwright(project, "promote", "second", *rules, *first, code=100)
    assert "not promoted: the rehearsal did not pass" in refused.stderr
    assert "filter: 1 question" in refused.stdout
    done = ragwright(
        project, "promote", "second", *rules, "--rehearse", "lost_citations<=30%", *first[2:]
    )
    assert "now served: number 2" in done.stdout


def test_served_questions_are_asked_again_most_asked_first(project: Path) -> None:
    with Workbench.open(project) as bench:
        for question in ("When is the belt changed?", *["When is the brake changed?"] * 3):
            output = NewOutput("text", "It was changed weekly.", "m")
            bench.outputs.add(NewBatch("answer", {"question": question, "persona": ""}, (output,)))
        follow_up = {"question": "And then?", "persona": "", "asked_before": ["When?"]}
        bench.outputs.add(NewBatch("answer", follow_up, (NewOutput("text", "Then.", "m"),)))
        hits = drafted(documents=("docs/brake.md", "docs/belt.md")).hits
        text = NewOutput("text", "Give now", "m", uses=(hits[0].chunk_id,))
        bench.outputs.add(NewBatch("draft", {"client": "Jane"}, (text,), hits, "Jane"))
    (project / "docs/brake.md").unlink()
    document = rehearsed(project, "--sources", "docs", "--prune", testset=False)
    [change] = document["changes"]
    assert (change["question"], change["asked"]) == ("When is the brake changed?", 3)
    assert change["served"] == "It was changed weekly."
    assert document["questions"] == 2
    assert document["shares"]["changed"] == {"share": 0.75, "part": 3, "of": 4}
    assert any("followed earlier turns" in note for note in document["notes"])
    [draft] = document["drafts"]
    assert draft["documents"] == [{"document_id": "docs/brake.md", "state": "gone"}]
    assert draft["client"] == "Jane"


def test_readers_with_filters_see_less_or_more(project: Path) -> None:
    keys = ServeKeys(ProjectFolder(project))
    keys.add(ServeKey("garage", filters=("source=docs/brake.md|docs/belt.md",)))
    keys.close()
    (project / "docs/brake.md").unlink()
    document = rehearsed(project, "--sources", "docs", "--prune")
    [view] = document["readers"]
    assert view["group"]["name"] == "garage"
    assert view["documents_lost"] == ["docs/brake.md"]
    assert not view["documents_gained"]
    assert view["questions_lost"]
    assert not any("no keys with filters" in note for note in document["notes"])
    keys = ServeKeys(ProjectFolder(project))
    keys.add(ServeKey("office", filters=("source=docs/horn.md",)))
    keys.close()
    document = rehearsed(project, "--sources", "docs", "--prune", "--scope", "garage")
    assert [view["group"]["name"] for view in document["readers"]] == ["garage"]


def test_the_price_is_named_before_anything_is_asked(project: Path, server: ScriptedServer) -> None:
    words = ("rehearse", "--set", f"answer.model={server.url}#m", "--testset", "rows.jsonl")
    forecast = json.loads(ragwright(project, *words, "--dry-run", "--json").stdout)
    assert forecast["questions"] == 4
    assert forecast["answers"]["calls"]["expected"] == 4
    assert server.count == 0
    free = json.loads(ragwright(project, *words, "--search-only", "--json").stdout)
    assert server.count == 0
    assert free["changed"] == 0
    indexed = ("rehearse", "--sources", "docs", "--testset", "rows.jsonl", "--dry-run", "--json")
    (project / "docs/horn.md").write_text(page("horn"), "utf-8")
    assert json.loads(ragwright(project, *indexed).stdout)["index"]["documents"] == 1


def test_an_index_that_is_not_built_is_priced_as_the_new_model_without_known_replies(
    project: Path, server: ScriptedServer
) -> None:
    prices = (("a", 1000), ("b", 9000))
    rates = (f"'{server.url}#{name}': {{price_in: {p}, price_out: 0}}" for name, p in prices)
    (project / "ragwright.yaml").write_text(
        f"sources: [docs]\nanswer: {{model: '{server.url}#a'}}\nmodels: {{{', '.join(rates)}}}\n"
    )
    words = ("rehearse", "--testset", "rows.jsonl", "--set")
    ragwright(project, *words, "retrieve.top_k=1", "--json")  # the present answers are known now
    chunks = ("chunk.size=60", "--dry-run", "--json")
    plain = json.loads(ragwright(project, *words, *chunks).stdout)
    model = f"answer.model={server.url}#b"
    other = json.loads(ragwright(project, *words, *chunks, "--set", model).stdout)
    assert plain["answers"]["calls"]["expected"] == 4
    assert plain["answers"]["cost"]["expected"] > 0
    costs = [forecast["answers"]["cost"]["expected"] for forecast in (plain, other)]
    assert costs[1] == pytest.approx(9 * costs[0], rel=0.01)
    assert "the model, prompt and settings of the change" in other["notes"][-1]


def test_one_bound_holds_for_both_sides_together(project: Path, server: ScriptedServer) -> None:
    server.play(lambda _: Reply("Yearly. [1]", usage=(400, 1)))  # each call costs 0.4
    rates = (f"'{server.url}#{name}': {{price_in: 1000, price_out: 0}}" for name in "abc")
    settings = project / "ragwright.yaml"
    text = (
        f"sources: [docs]\nanswer: {{model: '{server.url}#%s'}}\nmodels: {{{', '.join(rates)}}}\n"
    )
    settings.write_text(text % "a", "utf-8")
    asked = ("--testset", "rows.jsonl", "--measures", "HitRate@1", "--name", "a")
    ragwright(project, "eval", *asked, "--retrieval-only")
    rule = ("--gate", "HitRate@1>=0.5", "--least", "4")
    ragwright(project, "promote", "a", *rule)
    settings.write_text(text % "b", "utf-8")
    (project / "docs/horn.md").write_text(page("horn"), "utf-8")
    bound = ("--testset", "rows.jsonl", "--max-cost", "2.2", "--no-cache", "--jobs", "1")
    other = ("--set", f"answer.model={server.url}#c")
    for change in (("--config", "served"), ("--sources", "docs", *other)):
        asked_before = server.count
        stopped = ragwright(project, "rehearse", *change, *bound, code=101)
        assert "budget" in stopped.stderr
        assert server.count - asked_before == 5  # four of one side, and one of the other

    settings.write_text(f"{text % 'a'}budget: {{max_cost: 2.2, concurrency: 1}}\n", "utf-8")
    ragwright(project, "eval", *asked, "--retrieval-only", *other)
    first = ("--rehearse", "lost_citations<=2%", "--rehearse-testset", "rows.jsonl")
    asked_before = server.count
    ragwright(project, "promote", "a", *rule, *first, code=101)
    assert server.count - asked_before == 5


def test_the_table_shows_where_long_answers_part(project: Path, server: ScriptedServer) -> None:
    long = "The answer begins with the same words on both sides. " * 4
    server.play(lambda request: Reply(f"{long}It ends with {request.body['model']}. [1]"))
    settings = project / "ragwright.yaml"
    settings.write_text(f"sources: [docs]\nanswer: {{model: '{server.url}#old'}}\n", "utf-8")
    change = f"answer.model={server.url}#new"
    table = ragwright(project, "rehearse", "--set", change, "--testset", "rows.jsonl").stdout
    assert re.search(r"now: +… .*It ends with old", table)
    assert re.search(r"after: … .*It ends with new", table)


def test_the_page_marks_changed_words_and_escapes_texts(project: Path) -> None:
    text = page("brake", "every <b>two</b> years")
    (project / "docs/brake.md").write_text(text, "utf-8")
    words = ("--sources", "docs", "--testset", "rows.jsonl", "-o", "rehearsal.html")
    assert "passage changed: 1 question" in ragwright(project, "rehearse", *words).stdout
    html = (project / "rehearsal.html").read_text("utf-8")
    assert "<del>yearly</del>" in html
    assert "<b>two</b>" not in html
    assert "&lt;b&gt;" in html or "&lt;</ins>" in html
    assert "<script" not in html


def test_a_killed_rehearsal_goes_on_and_the_trial_store_is_forgotten(project: Path) -> None:
    gate = threading.Event()

    def slow(request: ServerRequest) -> Reply:
        if not gate.is_set() and "belt" in request.prompt:
            time.sleep(20)
        return Reply("It is changed. [1]")

    with ScriptedServer(slow) as server:
        settings = project / "ragwright.yaml"
        model = f"answer: {{model: '{server.url}#m'}}\nbudget: {{concurrency: 1}}\n"
        settings.write_text(settings.read_text("utf-8") + model, "utf-8")
        (project / "docs/horn.md").write_text(page("horn", "never"), "utf-8")
        words = ["rehearse", "--sources", "docs", "--testset", "rows.jsonl", "-j", "1"]
        code = "from ragwright.app import main; main()"
        process = subprocess.Popen(
            [sys.executable, "-c", code, *words],
            cwd=project,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + 30
        while server.count < 4 and time.monotonic() < deadline:
            time.sleep(0.05)
        # The fourth reply is held back; the third is written to disk beside the fourth request.
        time.sleep(1)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        asked = server.count
        assert asked == 4
        [trial] = [p for p in (project / ".ragwright/cache/trial").iterdir() if p.is_dir()]
        gate.set()
        assert trial.is_dir()
        document = rehearsed(project, "--sources", "docs")
        assert document["questions"] == 4
        # three answers were stored; the cut one is asked again, and nothing is asked twice
        assert server.count == asked + 1
        assert not trial.exists()
        trial.mkdir()
        (trial / "store.sqlite").write_text("The brake is changed yearly.")
        ragwright(project, "forget", "docs/brake.md")
        assert not trial.exists()


def test_an_ingest_meanwhile_changes_neither_side(project: Path) -> None:
    with Workbench.open(project) as bench:
        how = Rehearsing(settings=("retrieve.top_k=2",), testset="rows.jsonl", search_only=True)
        first = bench.rehearse(how)
        (project / "docs/horn.md").write_text(page("brake", "weekly, weekly"), "utf-8")
        with Workbench.open(project) as other:
            other.ingest()
        second = bench.rehearse(how)
    assert len(first.changes) == len(second.changes) == 4
    assert all(not c.after.error and not c.before.error for c in second.changes)
    # a new state of the index is another run: answers of two states are never mixed
    assert first.runs != second.runs


def test_questions_are_asked_as_readers_of_groups(project: Path) -> None:
    """Each reads what its groups read on both sides; finished rows of one are no other's."""
    settings = project / "ragwright.yaml"
    rule = "groups: {rules: [{match: docs/brake.md, groups: [garage]}]}\n"
    settings.write_text(settings.read_text("utf-8") + rule, "utf-8")
    ragwright(project, "ingest")
    new = project / "new"
    new.mkdir()
    for part in PARTS:
        (new / f"{part}.md").write_text(page(part, "every two years"), "utf-8")
    (new / "belt.md").write_text(page("belt", head="---\ngroups: [board]\n---\n"), "utf-8")
    words = ("--sources", "new=docs/")
    garage, office = (
        rehearsed(project, *words, "--as-groups", group) for group in ("garage", "office")
    )
    everything = rehearsed(project, *words)
    assert garage["as_groups"] == ["garage"]
    assert everything["as_groups"] is None
    assert "asked as readers of office" in office["change"]
    assert "yearly" in change_of(garage, "brake")["before"]["text"]
    assert "every two years" in change_of(garage, "brake")["after"]["text"]
    assert not [change for change in office["changes"] if "brake-77" in json.dumps(change)]
    assert "docs/brake.md" not in json.dumps(office)
    belt = change_of(office, "belt")
    assert "now abstains" in belt["effects"]
    assert direct(belt) == ["filter"]
    assert "groups exclude docs/belt.md" in belt["reasons"][0]["evidence"]
    assert not {*garage["runs"]} & {*office["runs"]}
    assert not {*everything["runs"]} & {*office["runs"], *garage["runs"]}


def test_questions_of_a_key_are_asked_with_its_groups(project: Path) -> None:
    """`--scope` names a key; what its reader may not see is in no answer and no list."""
    settings = project / "ragwright.yaml"
    rule = "groups: {rules: [{match: docs/brake.md, groups: [garage]}]}\n"
    settings.write_text(settings.read_text("utf-8") + rule, "utf-8")
    ragwright(project, "ingest")
    keys = ServeKeys(ProjectFolder(project))
    keys.add(ServeKey("mechanic", groups=("garage",)))
    keys.add(ServeKey("clerk", groups=("office",)))
    keys.close()
    (project / "docs/brake.md").unlink()
    words = ("--sources", "docs", "--prune", "--scope")
    clerk, mechanic = (rehearsed(project, *words, name) for name in ("clerk", "mechanic"))
    assert clerk["as_groups"] == ["office"]
    assert clerk["documents"] == []
    assert [document["document_id"] for document in mechanic["documents"]] == ["docs/brake.md"]
    [view] = mechanic["readers"]
    assert view["group"] == {"name": "mechanic", "filters": [], "groups": ["garage"]}
    assert view["documents_lost"] == ["docs/brake.md"]
    both = ragwright(
        project, "rehearse", *words, "clerk", "--as-groups", "garage", "--testset", "rows.jsonl",
        code=1,
    )  # fmt: skip
    assert "both say as whom" in both.stderr
