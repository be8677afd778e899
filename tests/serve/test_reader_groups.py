"""Readers see what their groups see; nothing of other groups passes any door."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest
from command_line import ragwright
from served import served

from ragwright import Workbench
from ragwright.core import ConfigError
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys

QUESTION = "What is the door code?"


def grouped(folder: Path, settings: str = "") -> Path:
    """A project with a document for everyone, one for hr, one for the board."""
    docs = folder / "docs"
    (docs / "board").mkdir(parents=True)
    texts = {
        "open.md": "# Plan\n\nThe door code is at the reception.\n",
        "hr.md": "---\ngroups: [hr]\n---\n# Plan\n\nThe door code is MAGNOLIA.\n",
        "board/minutes.md": "# Plan\n\nThe door code is QUARTZ.\n",
    }
    for name, text in texts.items():
        (docs / name).write_text(text, "utf-8")
    rules = "" if "groups:" in settings else "groups: {rules: [{match: board, groups: [board]}]}\n"
    (folder / "ragwright.yaml").write_text(f"sources: [docs/]\n{rules}{settings}", "utf-8")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def key(folder: Path, name: str, *groups: str, role: str = "reader") -> str:
    """A key of these groups."""
    serve_key = ServeKey(name, role, groups=groups)  # type: ignore[arg-type]
    return ServeKeys(ProjectFolder(folder)).add(serve_key, again=True)


def test_a_reader_sees_what_its_groups_see(tmp_path: Path) -> None:
    """Passages, answers, lists and documents; hidden ones are as if they did not exist."""
    folder = grouped(tmp_path)
    keys = {
        "nobody": key(folder, "nobody"),
        "hr": key(folder, "hr", "hr"),
        "both": key(folder, "both", "hr", "board"),
        "owner": key(folder, "owner", role="owner"),
    }
    seen = {
        "nobody": {"open.md"},
        "hr": {"open.md", "hr.md"},
        "both": {"open.md", "hr.md", "board/minutes.md"},
        "owner": {"open.md", "hr.md", "board/minutes.md"},
    }
    told = {"open.md": "reception", "hr.md": "MAGNOLIA", "board/minutes.md": "QUARTZ"}
    with served(folder) as running:
        for name, secret in keys.items():
            client = running.client(secret)
            hits = client.post("/v1/retrieve", json={"query": QUESTION}).json()["hits"]
            assert {hit["document_id"].removeprefix("docs/") for hit in hits} == seen[name]
            listed = client.get("/sources").text
            for document in seen["owner"]:
                allowed = document in seen[name]
                assert (document in listed) == allowed
                page = client.get("/source", params={"id": f"docs/{document}"})
                assert page.status_code == (200 if allowed else 404)
                absent = client.get("/source", params={"id": f"docs/no-{document}"})
                assert allowed or page.text == absent.text.replace(f"no-{document}", document)
            asked = [{"role": "user", "content": QUESTION}]
            answer = client.post("/v1/chat/completions", json={"messages": asked}).text
            assert {document for document, word in told.items() if word in answer} == seen[name]


def test_ungrouped_documents_can_be_those_of_owners_alone(tmp_path: Path) -> None:
    """A project can say that documents without groups are nobody's but its owners'."""
    folder = grouped(tmp_path, "groups: {ungrouped: owners}\n")
    hr, owner = key(folder, "hr", "hr"), key(folder, "owner", role="owner")
    with served(folder) as running:
        for secret, ids in ((hr, ["hr.md"]), (owner, ["board/minutes.md", "hr.md", "open.md"])):
            hits = running.client(secret).post("/v1/retrieve", json={"query": QUESTION}).json()
            assert sorted(h["document_id"].removeprefix("docs/") for h in hits["hits"]) == ids


def test_rights_of_a_key_hold_at_its_next_request(tmp_path: Path) -> None:
    """A key that is revoked and made again with other groups sees what these see."""
    folder = grouped(tmp_path)
    keys = ServeKeys(ProjectFolder(folder))
    with served(folder) as running:
        for groups in (("hr",), (), ("board",)):
            client = running.client(key(folder, "reader", *groups))
            text = client.post("/v1/retrieve", json={"query": QUESTION}).text
            assert ("MAGNOLIA" in text) == ("hr" in groups)
            assert ("QUARTZ" in text) == ("board" in groups)
            keys.revoke("reader")


def test_rights_of_a_key_are_changed_without_a_new_secret(tmp_path: Path) -> None:
    """``keys change`` holds at the next request, also for who signed in with the key."""
    folder = grouped(tmp_path)
    secret = key(folder, "reader", "hr")
    with served(folder) as running:
        client = running.client(secret)
        pages = running.client()
        pages.post("/login", data={"key": secret})

        def seen() -> tuple[bool, bool, bool]:
            sent = client.post("/v1/retrieve", json={"query": QUESTION})
            assert sent.status_code == 200, sent.text
            listed = "minutes.md" in pages.get("/sources").text
            return "MAGNOLIA" in sent.text, "QUARTZ" in sent.text, listed

        assert seen() == (True, False, False)
        for words, expected in (
            (("--groups", "board"), (False, True, True)),
            (("--per-minute", "500"), (False, True, True)),
            (("--groups", ""), (False, False, False)),
            (("--role", "owner"), (True, True, True)),
        ):
            ragwright(folder, "keys", "change", "reader", *words)
            assert seen() == expected
    [listed] = json.loads(ragwright(folder, "keys", "list", "--json").stdout)["keys"]
    assert (listed["role"], listed["per_minute"], listed["groups"]) == ("owner", 500, [])
    events = json.loads(ragwright(folder, "log", "--kind", "changed", "--json").stdout)["events"]
    changes = [(e["action"], e["subject"]) for e in events if e["action"].startswith("keys")]
    assert changes == [("keys change", "reader")] * 4


@pytest.mark.parametrize(
    ("words", "refusal"),
    [
        (("reader",), "nothing to change"),
        (("reeder", "--groups", "hr"), "did you mean 'reader'"),
        (("reader", "--groups", "a|b"), "group"),
        (("reader", "--role", "root"), "is not a role"),
        (("reader", "--daily-budget", "-1"), "must be above 0"),
        (("tenant", "--role", "owner"), "takes no filters"),
    ],
)
def test_impossible_rights_change_nothing(
    tmp_path: Path, words: tuple[str, ...], refusal: str
) -> None:
    folder = grouped(tmp_path)
    keys = ServeKeys(ProjectFolder(folder))
    key(folder, "reader", "hr")
    keys.add(ServeKey("tenant", filters=("document_id=docs/open.md",)))
    before = keys.all()
    assert refusal in ragwright(folder, "keys", "change", *words, code=1).stderr
    assert keys.all() == before


@pytest.mark.parametrize("name", ["", " ", "a|b", "a=b", "x" * 101, "\u202ehr"])
def test_odd_names_of_groups_are_refused(tmp_path: Path, name: str) -> None:
    """A key takes names that documents can name."""
    with pytest.raises(ConfigError, match="group"):
        key(grouped(tmp_path), "reader", name)


def test_a_project_may_close_what_has_no_groups_while_it_is_served(tmp_path: Path) -> None:
    """``groups.ungrouped`` holds within a second, also under a promoted configuration."""
    folder = grouped(tmp_path)
    secret = key(folder, "hr", "hr")
    with served(folder, own=False) as running:
        client = running.client(secret)

        def seen() -> bool:
            return "reception" in client.post("/v1/retrieve", json={"query": QUESTION}).text

        assert seen()
        file = folder / "ragwright.yaml"
        text = file.read_text("utf-8")
        file.write_text(text.replace("groups: {", "groups: {ungrouped: owners, "), "utf-8")
        for _ in range(400):
            if not seen():
                break
            time.sleep(0.05)
        assert not seen()


def test_a_reviewer_from_whom_groups_hide_documents_sees_no_testset(tmp_path: Path) -> None:
    """Rows quote documents, so their reviewer has to be in every group."""
    folder = grouped(tmp_path)
    (folder / "testsets").mkdir()
    row = {"id": "q1", "user_input": QUESTION, "reference_contexts": ["The code is MAGNOLIA."]}
    (folder / "testsets" / "main.jsonl").write_text(json.dumps(row), "utf-8")
    hr = key(folder, "hr", "hr", role="reviewer")
    both = key(folder, "both", "hr", "board", role="reviewer")
    with served(folder) as running:
        for path in ("/testsets", "/testsets/main.jsonl"):
            refused = running.client(hr).get(path)
            assert refused.status_code == 403
            assert "MAGNOLIA" not in refused.text
            assert running.client(both).get(path).status_code == 200
        for path in ("decide", "undo"):
            sent = running.client(hr).post(f"/testsets/main.jsonl/{path}", data={"row": "q1"})
            assert sent.status_code == 403
        assert "MAGNOLIA" in running.client(both).get("/testsets/main.jsonl").text
