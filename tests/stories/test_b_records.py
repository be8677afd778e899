"""Stories B1 to B15: rows of a database become tagged records, and records become drafts."""

from __future__ import annotations

import csv
import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright
from message_desk import CLEANING, FORMAT, ROWS, SOURCE, TAGS, execute, make_desk, with_vectors
from served import served
from story_tools import (
    csv_rows,
    embedded,
    lacking,
    make_project,
    playing,
    read_json,
    read_rows,
    write_files,
    write_rows,
)
from web_hook import web_hook

from ragwright.core import StoreError
from ragwright.index import SqliteStore
from ragwright.testing import Reply, ScriptedServer, ServerRequest

FEW = ("--examples", "1", "--pool", "2")


def words(request: ServerRequest) -> str | Reply:
    """Vectors of words; every draft is the same."""
    return Reply() if "input" in request.body else "1. Give now.\n2. Give today.\n3. Chip in."


server = playing(words)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory, server: ScriptedServer) -> Path:
    """Nine rows of a database, refreshed; ``first.json`` is what the refresh printed."""
    return make_desk(tmp_path_factory.mktemp("desk"), server)


@pytest.fixture
def own(desk: Path, tmp_path: Path) -> Path:
    """A copy of the desk that a test may change."""
    return Path(shutil.copytree(desk, tmp_path / "own"))


@pytest.fixture(scope="module")
def template(tmp_path_factory: pytest.TempPathFactory, server: ScriptedServer) -> Path:
    """The 62 messages of the template, refreshed."""
    folder = tmp_path_factory.mktemp("template")
    ragwright(folder, "init", "--template", "records")
    with (folder / "ragwright.yaml").open("a", encoding="utf-8") as file:
        file.write(with_vectors(server))
    ragwright(folder, "records", "refresh", "-q")
    return folder


def rows(folder: Path, table: str) -> dict[Any, dict[str, Any]]:
    """Rows of a table by their key."""
    found = read_json(folder, "records", "show", table, "--limit", "100")["rows"]
    found.sort(key=lambda row: str(row["record_key"]).rjust(4))
    return {row["record_key"]: row for row in found}


def counts(report: dict[str, Any], table: str) -> tuple[int, int, int]:
    """Rows inserted, updated and unchanged."""
    found = report[table]
    return found["inserted"], found["updated"], found["unchanged"]


def asked(*more: str) -> tuple[str, ...]:
    """A draft for a client of the template."""
    named = ("draft", "--client", "Maya Delgado", "--ask", "donation", "--topic", "health care")
    return (*named, *more)


def test_b1_rows_of_a_database_csv_or_parquet_become_bronze(desk: Path, tmp_path: Path) -> None:
    bronze = rows(desk, "bronze")
    assert list(bronze) == ["1", "2", "3", "4", "5", "6", "7", "8"]
    names = ("id", "sender", "channel", "body")
    kept = [tuple(row[name] for name in names) for row in bronze.values()]
    assert kept == list(ROWS[:8])  # unchanged, but for the row without a sender
    assert rows(desk, "left_out")["9"]["left_out"] == "required column is empty: sender"
    import pyarrow
    from pyarrow import parquet

    columns = ("number", "who", "says")
    table = [("007", "A\u00e9", "One, two"), ("8", "B", ' "three" ')]
    with (tmp_path / "rows.csv").open("w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows([columns, *table])
    made = {name: [row[at] for row in table] for at, name in enumerate(columns)}
    parquet.write_table(pyarrow.table(made), tmp_path / "rows.parquet")
    for name in ("rows.csv", "rows.parquet"):
        folder = tmp_path / name.partition(".")[2]
        write_files(folder, {"ragwright.yaml": "{}\n"})
        (folder / "records").mkdir()
        named = ("--source", f"../{name}", "--key", "number", "--text", "says", "--no-index")
        assert counts(read_json(folder, "records", "refresh", *named), "bronze") == (2, 0, 0)
        found = rows(folder, "bronze")
        assert [tuple(found[key][name] for name in columns) for key in ("007", "8")] == table


def test_b2_named_patterns_and_steps_clean_texts_and_a_pattern_is_one_line(own: Path) -> None:
    silver = rows(own, "silver")
    assert silver["1"]["text"] == "Please donate $5 tonight!!! Clinics need you"
    assert silver["2"]["text"] == "Volunteer for our clinics and schools."
    assert len(silver["7"]["text"]) == 1099
    assert rows(own, "left_out")["6"]["left_out"] == "too long: 1,100 characters (limit 1,100)"
    changed = CLEANING.replace("  - strip", "  - friends: [' friends']\n  - strip")
    (own / "records/cleaning.yaml").write_text(f"max_characters: 1101\n{changed}", "utf-8")
    report = read_json(own, "records", "refresh", "--no-index")
    assert counts(report, "silver") == (1, 1, 6)
    silver = rows(own, "silver")
    assert (silver["8"]["text"], len(silver["6"]["text"])) == ("Hello.", 1100)
    limited = read_json(own, "records", "refresh", "--no-index", "--max-chars", "100")
    assert limited["left_out"]["too long"] == 2
    assert counts(read_json(own, "records", "refresh", "--no-index"), "silver")[0] == 2
    found = read_json(own, "records", "check")["patterns"]
    used = {one["name"]: one["rows"] for one in found if one["use"] == "cleaning"}
    assert used == {"odd unicode": 1, "links": 2, "max_repeat": 2, "friends": 1, "strip": 2}


def test_b3_the_name_of_a_tag_says_its_kind(own: Path) -> None:
    assert rows(own, "silver")["1"]["tags"] == ["donation ask", "urgent tone", "health care hook"]
    one = rows(own, "gold")["1"]
    kinds = ("ask_type", "tone", "topic")
    assert [one[kind] for kind in kinds] == [["donation"], ["urgent"], ["health care"]]
    (own / "records/tags.yaml").write_text(f"{TAGS}  sunny weather: 'sun'\n", "utf-8")
    said = ragwright(own, "records", "refresh", code=1).stderr
    assert lacking(said, "records/tags.yaml:11", "'sunny weather'") == []
    more = "  small gift ask: 'one dollar'\n  warm hook tone: 'warm'\n  my ask hook: 'ask'\n"
    (own / "records/tags.yaml").write_text(TAGS + more, "utf-8")
    assert "'small gift ask'" in ragwright(own, "records", "refresh", code=1).stderr
    (own / "records/tags.yaml").write_text(TAGS + more.partition("\n")[2], "utf-8")
    execute(own, "update messages set body = 'We ask for warm coats.' where id = 8")
    read_json(own, "records", "refresh", "--no-index")
    eighth = rows(own, "gold")["8"]
    assert [eighth[kind] for kind in kinds] == [["my hook"], ["warm hook"], []]


def test_b4_gold_has_rules_lengths_and_no_duplicates(desk: Path) -> None:
    report = json.loads((desk / "first.json").read_text("utf-8"))
    assert [counts(report, name)[0] for name in ("bronze", "silver", "gold")] == [8, 7, 5]
    gold, left = rows(desk, "gold"), rows(desk, "left_out")
    assert list(gold) == ["1", "2", "5", "7", "8"]
    assert (left["3"]["stage"], left["3"]["left_out"]) == ("gold", "contradiction: angry thanks")
    assert (left["4"]["left_out"], gold["2"]["ask_type"]) == ("duplicate of 1", ["mentoring"])
    assert [row["fundraising_type"] for row in gold.values()] == [None, None, "monthly", None, None]
    assert [row["length"] for row in gold.values()] == ["short", "short", "short", "long", "short"]


def test_b5_a_template_loses_the_piece_of_a_variable_without_value(own: Path) -> None:
    gold = rows(own, "gold")
    assert gold["1"]["document"] == (
        "A short donation text message from Jane Doe about health care written with an emphasis"
        " on urgent:\n\nPlease donate $5 tonight!!! Clinics need you"
    )
    head, text = gold["5"]["document"].split("\n\n")
    assert head == "A short donation text message from Rosa Lima about schools:"
    assert text == "Give $10 a month for schools."
    assert gold["8"]["document"] == "A short text message from Tom Ash:\n\nHello friends."
    ragwright(own, "records", "export", "gold", "-o", "gold.chat.jsonl")
    chats = read_rows(own / "gold.chat.jsonl")
    assert len(chats) == 5
    *_, request, reply = chats[-1]["messages"]
    assert request["role"] == "user"
    assert "short text message from Tom Ash" in request["content"]
    assert reply == {"role": "assistant", "content": "Hello friends."}
    faulty = FORMAT.replace("tone, text]", "text]")
    (own / "records/text_formats/message.yaml").write_text(faulty, "utf-8")
    said = ragwright(own, "records", "refresh", code=1).stderr
    assert "prompt_structure has 6 %s, prompt_variables has 5 names" in said
    assert "records/text_formats/message.yaml:2" in said


def test_b6_rollups_biographies_and_definitions_are_files(own: Path) -> None:
    clients = [row["client"] for row in rows(own, "gold").values()]
    assert clients == ["Jane Doe", "Jane Doe", "Rosa Lima", "Tom Ash", "Tom Ash"]
    words = ("draft", "--client", "DOE, JANE", "--bio", "--show-prompt", *FEW)
    system = read_json(own, *words)["prompts"][0]["messages"][0]["content"]
    assert "Jane Doe is a nurse." in system
    (own / "records/tags.yaml").write_text(TAGS.replace("definition:", "defintion:"), "utf-8")
    said = ragwright(own, "records", "refresh", code=1).stderr
    assert lacking(said, "records/tags.yaml:9", "did you mean", "definition?") == []


def test_b7_a_refresh_merges_by_key_and_hash(own: Path, server: ScriptedServer) -> None:
    execute(own, "update messages set body = 'Hello, dear friends.' where id = 8")
    execute(own, "update messages set channel = 'mail' where id = 5")
    execute(own, "insert into messages values (?, ?, ?, ?)", (10, "Tom Ash", "sms", "Good night."))
    execute(own, "delete from messages where id = 7")
    report = read_json(own, "records", "refresh")
    assert (counts(report, "bronze"), counts(report, "gold")) == ((1, 2, 6), (1, 2, 3))
    assert report["index"]["embedded"] == 2  # of the third, only a field has changed
    gold = rows(own, "gold")
    assert list(gold) == ["1", "2", "5", "7", "8", "10"]  # nothing is deleted
    assert (gold["8"]["text"], gold["5"]["channel"]) == ("Hello, dear friends.", "mail")
    before = len(server.requests)
    again = read_json(own, "records", "refresh", "--full")
    assert counts(again, "bronze")[:2] == counts(again, "gold")[:2] == (0, 0)
    assert (again["index"]["embedded"], again["index"]["written"]) == (0, 0)
    assert again["version"] == report["version"]
    assert not embedded(server, before)
    (own / "records/source.yaml").write_text(f"{SOURCE}hash: [body]\n", "utf-8")
    read_json(own, "records", "refresh", "--no-index")
    execute(own, "update messages set channel = 'fax' where id = 5")
    assert counts(read_json(own, "records", "refresh", "--no-index"), "bronze") == (0, 0, 9)


def test_b7_a_watermark_reads_rows_at_or_above_the_last_value(own: Path) -> None:
    source = SOURCE.replace("body from", "body, id as seen from") + "watermark: seen\n"
    (own / "records/source.yaml").write_text(source, "utf-8")
    read_json(own, "records", "refresh", "--no-index")
    execute(own, "update messages set body = 'Not seen.' where id = 8")
    execute(own, "insert into messages values (?, ?, ?, ?)", (10, "Tom Ash", "sms", "Good night."))
    report = read_json(own, "records", "refresh", "--no-index")
    assert (report["read"], counts(report, "bronze")[:2]) == (2, (1, 0))  # rows 9 and 10
    report = read_json(own, "records", "refresh", "--no-index", "--full")
    assert (report["read"], counts(report, "bronze")[:2]) == (10, (0, 1))


def test_b8_then_only_changes_are_embedded(own: Path, server: ScriptedServer) -> None:
    shutil.rmtree(own / ".ragwright")
    before = len(server.requests)
    report = read_json(own, "records", "refresh")["index"]
    assert (report["embedded"], report["written"]) == (5, 5)
    made = [text for text in embedded(server, before) if "text message from" in text]
    assert sorted(made) == sorted(row["document"] for row in rows(own, "gold").values())
    execute(own, "update messages set body = 'Hello, dear friends.' where id = 8")
    before = len(server.requests)
    report = read_json(own, "records", "refresh")["index"]
    assert (report["embedded"], report["written"], report["unchanged"]) == (1, 1, 4)
    [text] = embedded(server, before)
    assert text.endswith("Hello, dear friends.")
    [first, *_] = read_json(own, "retrieve", "dear friends", "--filter", "kind=record")["hits"]
    assert first["document_id"] == "record:8"


WEIGHTS = {
    ("client", "Maya Delgado"): 8.0,
    ("ask_type", "donation"): 5.0,
    ("tone", "urgent"): 1.0,
    ("topic", "health care"): 3.0,
    ("topic", "housing"): 3.0,
    ("length", "short"): 2.0,
}


def weight(metadata: dict[str, Any]) -> float:
    """Sum of the weights that a record meets."""
    met = 0.0
    for (field, value), worth in WEIGHTS.items():
        have = metadata.get(field) or []
        met += worth if value in ([have] if isinstance(have, str) else have) else 0
    return met


def test_b9_soft_filters_rank_by_weight_and_then_by_similarity(template: Path) -> None:
    soft = [f"{field}={value}^{worth}" for (field, value), worth in WEIGHTS.items()]
    named = [word for one in soft for word in ("--soft", one)]
    search = ("retrieve", "nurses at night", *named, "--set", "retrieve.search=dense")
    hits = read_json(template, *search, "-k", "58")["hits"]
    assert len({hit["document_id"] for hit in hits}) == len(hits) == 58
    ranked = [(hit["rung"]["weight"], hit["score"]) for hit in hits]
    assert ranked == sorted(ranked, reverse=True)
    assert [hit["rung"]["weight"] for hit in hits] == [weight(hit["metadata"]) for hit in hits]
    assert ranked[0][0] >= 18
    assert ranked[-1][0] == 0
    best = [(hit["document_id"], *rank) for hit, rank in zip(hits, ranked, strict=True)]

    def found(*more: str) -> list[str]:
        return [hit["document_id"] for hit in read_json(template, *search, *more)["hits"]]

    assert found("-k", "7") == [name for name, _, _ in best[:7]]
    least = sorted(hit["score"] for hit in hits)[30]
    near = [name for name, _, score in best if score >= least]
    assert found("-k", "58", "--set", f"retrieve.threshold={least}") == near
    strict = [name for name, met, _ in best if met > 0]
    assert found("-k", "58", "--set", "retrieve.unfiltered=false") == strict


def test_b10_a_second_index_answers(desk: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    search = ("retrieve", "clinics", "--soft", "client=Tom Ash^2", "-k", "3")
    before = read_json(desk, *search)

    def gone(*_: object, **__: object) -> None:
        raise StoreError("the view is gone")

    for way in ("view", "rebuild_view"):
        monkeypatch.setattr(SqliteStore, way, gone)
    after = read_json(desk, *search)
    assert after["hits"] == before["hits"]
    assert not before["notes"]
    assert lacking(after["notes"][0], "the view is gone", "a second index") == []


def test_b11_the_biography_is_told_when_it_is_asked_for(template: Path) -> None:
    for more, told_of in (((), False), (("--bio",), True)):
        [prompt] = read_json(template, *asked("--show-prompt", *more))["prompts"]
        system = prompt["messages"][0]
        assert system["role"] == "system"
        assert ("a nurse's daughter and a union organiser" in system["content"]) is told_of


def test_b12_examples_are_turns_and_every_request_states_its_length(template: Path) -> None:
    headed = asked("-n", "3", "--headline", "Clinic hours cut", "--show-prompt")
    drafted = read_json(template, *headed)
    assert len(drafted["hits"]) == 30
    [prompt] = drafted["prompts"]
    roles = [message["role"] for message in prompt["messages"]]
    assert roles == ["system", *["user", "assistant"] * 15, "user"]
    assert len(set(prompt["examples"]) & {hit["chunk_id"] for hit in drafted["hits"]}) == 15
    *examples, request = [m["content"] for m in prompt["messages"] if m["role"] == "user"]
    assert all("(short: under 160" in one or "characters" in one for one in examples)
    assert lacking(request, "under 160 characters", "Write 3", "Clinic hours cut") == []
    many = read_json(template, *asked("--length", "medium", "-n", "15", "--show-prompt"))["prompts"]
    assert [one["wanted"] for one in many] == [15]
    long = read_json(template, *asked("--length", "long", "-n", "2", "--show-prompt"))["prompts"]
    assert [(one["wanted"], len(one["examples"])) for one in long] == [(1, 15), (1, 15)]
    assert set(long[0]["examples"]) != set(long[1]["examples"])
    said = ragwright(template, *asked("--pool", "2", "--examples", "3", "--show-prompt"), code=1)
    assert "a pool of 2 records cannot give 3 examples" in said.stderr


def test_b13_several_models_write_and_all_is_kept(template: Path, server: ScriptedServer) -> None:
    models = (f"{server.url}#one", f"{server.url}#two")
    drafted = read_json(template, *asked("-n", "3", "-m", models[0], "-m", models[1]))
    assert [(text["model"], text["text"]) for text in drafted["texts"]] == [
        (model, text) for model in models for text in ("Give now.", "Give today.", "Chip in.")
    ]
    batch = str(drafted["batch"])
    kept = read_json(template, "outputs", "show", batch)["outputs"]
    assert len({(one["batch"], one["at"]) for one in kept}) == 1
    assert sorted(one["source"] for one in kept) == sorted([*models * 3, "prompt", "prompt"])
    prompts = [json.loads(one["text"]) for one in kept if one["kind"] == "prompt"]
    assert prompts == [prompt["messages"] for prompt in drafted["prompts"]]
    ragwright(template, "outputs", "export", "--batch", batch, "-o", "batch.csv")
    assert len(csv_rows(template / "batch.csv")) == 8


def test_b14_jobs_refresh_on_schedule_and_generate_by_hand(own: Path) -> None:
    with web_hook() as hook:
        notify = f"notify: {{failure: ['{hook.address}/bad'], success: ['{hook.address}/good']}}"
        jobs = (
            "jobs:\n  refresh:\n    steps: [records refresh -q --no-index]\n"
            f"    schedule: 30 7 * * mon-fri\n    timezone: Europe/Paris\n    {notify}\n"
            f"  generate:\n    flags: {{refresh: false}}\n    {notify}\n    steps:\n"
            "      - {run: records refresh -q --no-index, when: refresh}\n      - cache show\n"
        )
        settings = (own / "ragwright.yaml").read_text("utf-8")
        (own / "ragwright.yaml").write_text(settings + jobs, "utf-8")
        listed = {job["name"]: job for job in read_json(own, "job", "list")["jobs"]}
        assert "T07:30:00+0" in listed["refresh"]["next_run"]
        assert not listed["generate"]["next_run"]
        execute(own, "update messages set body = 'Hello, dear friends.' where id = 8")
        run = read_json(own, "job", "run", "generate")
        assert [step["outcome"] for step in run["steps"]] == ["skipped", "succeeded"]
        assert rows(own, "gold")["8"]["text"] == "Hello friends."
        assert read_json(own, "job", "run", "refresh")["outcome"] == "succeeded"
        assert rows(own, "gold")["8"]["text"] == "Hello, dear friends."
        (own / "records/text_formats/message.yaml").write_text("prompt_variables: 3\n", "utf-8")
        run = read_json(own, "job", "run", "generate", "--flag", "refresh", code=1)
        assert (run["outcome"], run["steps"][0]["outcome"]) == ("failed", "failed")
    assert [path.rpartition("/")[2] for path in hook.paths] == ["good", "good", "bad"]
    assert "records refresh" in json.dumps(hook.posted[2])


def test_b15_drafts_over_http_are_kept_and_measured(template: Path, server: ScriptedServer) -> None:
    body = {"client": "Maya Delgado", "ask_type": "donation", "topics": ["housing"], "count": 3}
    with served(template, f"answer.model={server.url}#writer") as running:
        reply = running.http.post("/v1/drafts", json=body)
        assert reply.status_code == 200, reply.text
        texts = reply.json()["texts"]
        assert [text["text"] for text in texts] == ["Give now.", "Give today.", "Chip in."]
        rating = {"id": texts[0]["id"], "verdict": "accepted"}
        assert running.http.post("/v1/feedback", json=rating).status_code == 200
        wrong = running.http.post("/v1/drafts", json={**body, "client": "Maya Delgad"})
        assert wrong.status_code in {400, 422}
        assert "Maya Delgado" in wrong.text
    [kept] = read_json(template, "outputs", "list", "--verdict", "accepted")["outputs"]
    assert (kept["id"], kept["text"]) == (texts[0]["id"], "Give now.")
    ragwright(template, "outputs", "export", "--verdict", "accepted", "-o", "ok.chat.jsonl")
    chat = json.loads((template / "ok.chat.jsonl").read_text("utf-8"))
    assert chat["messages"][-1]["content"] == "Give now."
    found = read_json(template, "outputs", "evaluate", "--sample", "2", "--measures", "KPrecision")
    [scores] = found["measures"].values()
    assert (scores["n"], scores["states"]) == (2, {"scored": 2})


def test_b15_a_better_configuration_is_promoted(tmp_path: Path, server: ScriptedServer) -> None:
    parts = ["brake", "belt", "lamp", "horn", "door", "tyre", "pump", "valve", "seat", "key"]
    texts = {f"{p}.md": f"# The {p}\n\nThe {p} is changed yearly.\n" for p in parts}
    make_project(tmp_path, texts, with_vectors(server))
    rows = [
        {"user_input": f"When is the {p} changed?", "reference_ids": [f"docs/{p}.md"]}
        for p in parts
    ]
    write_rows(tmp_path / "rows.jsonl", rows)
    measure = ("--testset", "rows.jsonl", "--measures", "HitRate@1", "--retrieval-only")
    runs = {"first": "retrieve.top_k=5", "worse": "retrieve.max_query_chars=4"}
    for name, setting in {**runs, "equal": "chunk.head.headings=false"}.items():
        ragwright(tmp_path, "ingest", "-q", "--set", setting)
        ragwright(tmp_path, "eval", "-q", *measure, "--name", name, "--set", setting)
    assert read_json(tmp_path, "promote", "first", "--gate", "HitRate@1>=0.9")["promoted"] is True
    for name in ("worse", "equal"):  # equal rows prove no gain
        assert read_json(tmp_path, "promote", name, code=100)["promoted"] is False
    found = read_json(tmp_path, "promote", "equal", "--gate", "HitRate@1>=baseline-0.5")
    assert (found["promoted"], found["served"]["number"]) == (True, 2)
    before = len(server.requests)
    ragwright(tmp_path, "promote", "--back", "--reason", "headings help")
    [hit] = read_json(tmp_path, "retrieve", "brake changed", "--served", "-k", "1")["hits"]
    assert (hit["document_id"], embedded(server, before)) == ("docs/brake.md", ["brake changed"])
    changes = read_json(tmp_path, "promote", "--history")["changes"]
    done = [(one["action"], one["number"]) for one in changes]
    assert done == [("promote", 1), ("promote", 2), ("back", 1)]
