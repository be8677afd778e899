"""Files on object stores and in archives as sources of a project."""

from __future__ import annotations

import json
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import ragwright

from ragwright.workbench import Workbench


def told(folder: Path, *words: str, code: int = 0) -> Any:
    return json.loads(ragwright(folder, "ingest", "--json", *words, code=code).stdout)


def ids(folder: Path) -> list[str]:
    with Workbench.open(folder) as bench:
        return sorted(document.id for document in bench.documents())


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    with zipfile.ZipFile(tmp_path / "manuals.zip", "w") as file:
        file.writestr("pump.md", "The pump is checked weekly.")
        file.writestr("deep/belt.md", "The belt is changed yearly.")
        file.writestr(".hidden/secret.md", "Hidden.")
    (tmp_path / "ragwright.yaml").write_text("sources: ['zip://::manuals.zip']\n")
    return tmp_path


def test_files_of_an_archive_have_its_name_in_their_ids(archive: Path) -> None:
    assert told(archive)["documents"]["added"] == 2
    assert ids(archive) == ["manuals.zip#deep/belt.md", "manuals.zip#pump.md"]
    assert told(archive)["documents"]["unchanged"] == 2
    with zipfile.ZipFile(archive / "manuals.zip", "w") as file:
        file.writestr("pump.md", "The pump is checked daily.")
    found = told(archive, "--prune")["documents"]
    assert (found["changed"], found["removed"]) == (1, 1)


@pytest.mark.slow
@pytest.mark.parametrize("written", ["manuals.zip", "zip://manuals.zip"])
def test_an_archive_by_its_plain_name_is_told_its_address(archive: Path, written: str) -> None:
    [failure] = told(archive, written, code=1)["failures"]
    assert "zip://::manuals.zip" in failure["do"]


def test_names_that_lead_out_of_an_archive_are_refused(archive: Path) -> None:
    with zipfile.ZipFile(archive / "manuals.zip", "a") as file:
        file.writestr("../../escape.md", "Out of here.")
    found = told(archive)
    assert found["documents"]["added"] == 2
    [failure] = found["failures"]
    assert "leads out of the source" in failure["reason"]
    assert not (archive.parent.parent / "escape.md").exists()


def test_an_archive_that_is_a_bomb_or_damaged_removes_nothing(archive: Path) -> None:
    told(archive)
    with zipfile.ZipFile(archive / "manuals.zip", "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("zeros.txt", "0" * 2_000_000)
    text = "sources: [{source: 'zip://::manuals.zip', max_unpacked_bytes: 1000000}]\n"
    (archive / "ragwright.yaml").write_text(text)
    found = told(archive, "--prune", code=1)
    assert "unpacks to more than" in found["failures"][0]["reason"]
    assert found["documents"]["removed"] == 0
    (archive / "manuals.zip").write_bytes(b"PK\x03\x04 not an archive")
    found = told(archive, "--prune", code=1)
    assert found["documents"]["removed"] == 0
    assert len(ids(archive)) == 2


@pytest.fixture(scope="module")
def s3(needs_s3: None) -> Iterator[str]:
    """Address of a server that speaks the S3 protocol."""
    from moto.server import ThreadedMotoServer

    server = ThreadedMotoServer(port=0)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


@pytest.fixture
def bucket(s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    import boto3

    for name, value in (("ACCESS_KEY_ID", "testing"), ("SECRET_ACCESS_KEY", "hush-hush")):
        monkeypatch.setenv(f"AWS_{name}", value)
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    client = boto3.client("s3", endpoint_url=s3)
    client.create_bucket(Bucket="manuals")
    client.put_object(Bucket="manuals", Key="docs/pump.md", Body=b"The pump is checked weekly.")
    client.put_object(Bucket="manuals", Key="docs/belt.md", Body=b"The belt is changed yearly.")
    client.put_object(Bucket="manuals", Key="other/valve.md", Body=b"Elsewhere.")
    where(tmp_path, s3)
    yield client
    for item in client.list_objects(Bucket="manuals").get("Contents", []):
        client.delete_object(Bucket="manuals", Key=item["Key"])


def where(folder: Path, address: str, more: str = "") -> None:
    (folder / "ragwright.yaml").write_text(
        "sources:\n  - source: s3://manuals/docs\n"
        f"    arguments: {{endpoint_url: '{address}'{more}}}\n"
    )


@pytest.mark.slow
def test_a_bucket_is_read_and_unchanged_objects_are_not_fetched(
    bucket: Any, tmp_path: Path
) -> None:
    assert told(tmp_path)["documents"]["added"] == 2
    assert ids(tmp_path) == ["s3://manuals/docs/belt.md", "s3://manuals/docs/pump.md"]
    bucket.put_object(Bucket="manuals", Key="docs/pump.md", Body=b"The pump is checked daily.")
    found = told(tmp_path)["documents"]
    assert (found["changed"], found["unchanged"]) == (1, 1)
    bucket.delete_object(Bucket="manuals", Key="docs/belt.md")
    assert told(tmp_path, "--prune")["documents"]["removed"] == 1


@pytest.mark.slow
def test_a_store_that_is_away_or_refuses_removes_nothing(
    bucket: Any, s3: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told(tmp_path)
    quick = ", config_kwargs: {connect_timeout: 1, retries: {max_attempts: 0}}"
    where(tmp_path, "http://127.0.0.1:9", quick)
    found = told(tmp_path, "--prune", code=1)
    assert found["documents"]["removed"] == 0
    assert "cannot be read" in found["failures"][0]["reason"]
    monkeypatch.setenv("STORE_SECRET", "very-secret-value")
    where(tmp_path, s3, ", nosuchoption: {env: STORE_SECRET}")
    found = told(tmp_path, "--prune", code=1)
    assert found["documents"]["removed"] == 0
    assert "very-secret" not in json.dumps(found)
    assert len(ids(tmp_path)) == 2


def test_a_password_in_an_address_is_refused_and_not_shown(tmp_path: Path) -> None:
    (tmp_path / "ragwright.yaml").write_text("sources: ['sftp://me:hushhush@host/docs']\n")
    done = ragwright(tmp_path, "ingest", code=1)
    assert "must not contain a password" in done.stdout
    assert "hushhush" not in done.stdout + done.stderr


def test_a_repository_is_not_taken_for_a_password(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("http_proxy", "https_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")  # nothing leaves the machine
    (tmp_path / "ragwright.yaml").write_text("sources: ['github://org:repo@main/docs']\n")
    [failure] = told(tmp_path, code=1)["failures"]
    assert failure["source"] == "github://org:repo@main/docs"
    assert "cannot be read" in failure["reason"]
