"""Sources on the pages: listed and searched, uploaded, read from an address."""

from __future__ import annotations

import errno
import html
import time
from pathlib import Path
from typing import Any

import pytest
from served import Running, served
from small_project import MakeProject

from ragwright import Workbench
from ragwright.project import ProjectFolder
from ragwright.serve import ServeKey, ServeKeys

TYRES = ("tyres.md", b"# Tyres\n\nThe tyres must be changed every six years.\n")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = MakeProject(tmp_path)("serve: {name: handbook}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    return folder


def ended(http: Any) -> str:
    """The state of the job once it has ended."""
    for _ in range(400):
        shown = html.unescape(http.get("/sources/adding").text)
        if "hx-get" not in shown:
            return shown
        time.sleep(0.05)
    raise AssertionError("it did not end")


def upload(http: Any, *files: tuple[str, bytes], **fields: str) -> Any:
    return http.post("/sources/upload", files=[("files", file) for file in files], data=fields)


def answers(running: Running, text: str) -> bool:
    """True once an answer holds a text: the server looks for a new index now and then."""
    for _ in range(100):
        if text in running.ask("When must the tyres be changed?").text:
            return True
        time.sleep(0.05)
    return False


def test_files_are_uploaded_read_and_answered_from(project: Path) -> None:
    with served(project) as running:
        http = running.http
        assert "they go to <code>docs</code>" in http.get("/sources").text
        reply = upload(http, ("../../../evil/tyres.md", TYRES[1]), ("broken.pdf", b"no PDF"))
        assert (reply.status_code, reply.headers["location"]) == (303, "/sources")
        shown = ended(http)
        assert "1 added" in shown
        assert "docs/broken.pdf" in shown
        assert "download it again or rename it." in shown, "what to do"
        assert (project / "docs/tyres.md").read_bytes() == TYRES[1]
        assert not (project.parent / "evil").exists()
        assert answers(running, "every six years")
        again = upload(http, ("tyres.md", b"other"))
        assert again.status_code == 409
        assert (project / "docs/tyres.md").read_bytes() == TYRES[1]
        assert upload(http, ("tyres.md", b"# Tyres\n\nSeven."), replace="true").status_code == 303
        assert "1 changed" in ended(http)
        assert not list((project / "docs").glob(".upload*"))


@pytest.mark.parametrize("name", ["..", "/", "con.md", ".md/..", "\\\\"])
def test_a_name_that_cannot_be_a_file_is_refused(project: Path, name: str) -> None:
    before = sorted(project.rglob("*.md"))
    with served(project) as running:
        assert upload(running.http, (name, b"a")).status_code == 400
    assert sorted(project.rglob("*.md")) == before


def test_names_longer_than_a_disk_takes_are_cut(project: Path) -> None:
    longest = 255
    with served(project) as running:
        for name in ("日" * 200 + ".md", "n" * 300 + ".md", "x." + "é" * 60):
            assert upload(running.http, (name, TYRES[1])).status_code == 303
            ended(running.http)
    names = [path.name for path in (project / "docs").iterdir()]
    assert len(names) == 5
    assert all(len(name.encode()) <= longest for name in names)


def test_a_full_disk_is_said_and_leaves_no_part(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    with served(project) as running:
        with monkeypatch.context() as patch:
            patch.setattr("tempfile.mkstemp", full)
            reply = upload(running.http, TYRES)
        assert reply.status_code == 507
        assert "The disk is full" in reply.text
        assert upload(running.http, TYRES).status_code == 303
        assert "1 added" in ended(running.http)


def test_addresses_of_private_networks_are_refused(project: Path) -> None:
    with served(project) as running:
        for url in ("file:///etc/passwd", "ftp://a.example/", "http://a:b@c.example/", "docs/", ""):
            assert running.http.post("/sources/address", data={"url": url}).status_code == 400
        sent = running.http.post("/sources/address", data={"url": f"{running.address}/healthz"})
        assert sent.status_code == 303
        assert "this machine" in ended(running.http)


def test_only_owners_add_sources_and_only_where_it_is_allowed(tmp_path: Path) -> None:
    folder = MakeProject(tmp_path)("serve: {max_upload: 2000}\n")
    with Workbench.open(folder) as bench:
        bench.ingest()
    kept = ServeKeys(ProjectFolder(folder))
    reader, owner = kept.add(ServeKey("reader")), kept.add(ServeKey("owner", "owner"))
    with served(folder) as running:
        http = running.client(reader)
        assert "Add sources" not in http.get("/sources").text
        assert upload(http, TYRES).status_code == 403
        assert http.post("/sources/address", data={"url": "https://a.example"}).status_code == 403
        assert http.get("/sources/adding").status_code == 403
        assert upload(running.client(owner), TYRES).status_code == 403, "no folder is named"
        assert "serve.uploads" in running.client(owner).get("/sources").text
    with served(folder, "serve.uploads=docs/new") as running:
        http = running.client(owner)
        assert upload(http, ("long.md", b"a" * 3_000)).status_code == 413
        bounded = ("serve.uploads=docs/new", "serve.max_upload=90000", "serve.max_body=5000")
        with served(folder, *bounded) as other:
            large = ("long.md", b"a" * 9_000)
            replies = [upload(other.client(secret), large) for secret in (reader, owner)]
            assert [reply.status_code for reply in replies] == [413, 303], "only owners send files"
            ended(other.client(owner))
        assert upload(http, TYRES).status_code == 303
        assert "1 added" in ended(http)
        assert (folder / "docs/new/tyres.md").is_file()
        crossed = {"origin": "https://other.example"}
        files = [("files", TYRES)]
        sent = running.client().post("/sources/upload", files=files, headers=crossed)
        assert sent.status_code in {401, 403}
    for outside in ("serve.uploads=..", "serve.uploads=."):
        with served(folder, outside, "sources=[.]") as running:
            sent = upload(running.client(owner), ("ragwright.yaml", b"{}"), replace="true")
            assert sent.status_code == 400
    assert "max_upload" in (folder / "ragwright.yaml").read_text("utf-8")


def test_thousands_of_documents_are_listed_once_and_searched(tmp_path: Path) -> None:
    texts = {
        f"{n:04}.md": f"---\ndate: 2024-01-{n % 28 + 1:02}\ngroups: [g{n % 2}]\n---\n"
        f"# Part {n}\n\nA.\n"
        for n in range(300)
    }
    folder = MakeProject(tmp_path)("", **texts, **{"notes.txt": "Notes."})
    with Workbench.open(folder) as bench:
        bench.ingest()
    with served(folder) as running:
        http = running.http
        first = http.get("/sources").text
        assert "1 to 100 of 301 documents" in first
        assert "2024-01-01" in first
        assert '<span class="badge">g1</span>' in first
        assert "Markdown (300)" in first
        last = http.get("/sources", params={"page": 4}).text
        assert "301 to 301 of 301" in last
        listed = http.get("/sources", params={"find": "PART 29", "group": "g1"}).text
        assert "1 to 6 of 6 documents that match, 301 in all" in listed
        assert "notes.txt" in http.get("/sources", params={"kind": "text"}).text
        assert "under these filters" in http.get("/sources?find=notes&group=g1").text
        kept = ServeKeys(ProjectFolder(folder))
        some = running.client(kept.add(ServeKey("some", groups=("g1",)))).get("/sources").text
        assert "of 151 documents" in some
        assert '<span class="badge">g1</span>' in some
        assert "g0" not in some, "readers do not learn of other groups"
