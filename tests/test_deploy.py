"""The files of deploy/: what compose.yaml runs, without Docker; and what linters say of the rest.

No container was started for these tests: the commands are run as another user in an empty folder.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx2
import pytest
import yaml
from waiting import wait_until

from ragwright import Workbench
from ragwright.project import load_settings

ROOT = Path(__file__).resolve().parents[1]
DEPLOY = ROOT / "deploy"
COMPOSE: dict[str, Any] = yaml.safe_load((DEPLOY / "compose.yaml").read_text("utf-8"))
MANIFESTS = sorted(
    path for path in (DEPLOY / "kubernetes").glob("*.yaml") if path.stem != "kustomization"
)
OBJECTS: dict[tuple[str, str], dict[str, Any]] = {
    (manifest["kind"], manifest["metadata"]["name"]): manifest
    for path in MANIFESTS
    for manifest in yaml.safe_load_all(path.read_text("utf-8"))
}
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
    definition = SERVICES[service]
    given = [*definition.get("entrypoint", ["ragwright"]), *definition["command"]]
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

        def ready() -> bool:
            assert process.poll() is None, "the server ended"
            with suppress(httpx2.TransportError):
                return httpx2.get(f"{address}/readyz").status_code == 200
            return False

        wait_until(ready)
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
    assert "the folder is empty" in done.stdout + done.stderr


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
    assert all(
        service["read_only"] and service["cap_drop"] == ["ALL"] for service in SERVICES.values()
    )


@pytest.mark.needs_linters
def test_the_files_pass_their_linters() -> None:
    folder = Path(sys.executable).parent
    schema = "--builtin-schema"
    composed = str(DEPLOY / "compose.yaml")
    workflow = str(ROOT / "examples" / "github" / "gate.yml")
    relaxed = "{extends: relaxed, rules: {line-length: disable}}"
    checks = [
        ["hadolint", str(ROOT / "Dockerfile")],
        ["check-jsonschema", schema, "vendor.compose-spec", composed],
        ["check-jsonschema", schema, "vendor.github-workflows", workflow],
        ["kubernetes-validate", "--strict", *map(str, MANIFESTS)],
        ["yamllint", "-s", "-d", relaxed, str(DEPLOY)],
    ]
    for name, *words in checks:
        done = subprocess.run(
            [folder / name, *words], capture_output=True, text=True, timeout=120, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


def pod_of(kind: str, name: str) -> dict[str, Any]:
    spec: dict[str, Any] = OBJECTS[kind, name]["spec"]
    template = spec["jobTemplate"]["spec"]["template"] if kind == "CronJob" else spec["template"]
    pod: dict[str, Any] = template["spec"]
    return pod


READERS = ("Deployment", "ragwright-readers")
WRITER = ("CronJob", "ragwright-writer")


@pytest.mark.parametrize("workload", [READERS, WRITER])
def test_pods_meet_the_restricted_standard_and_hold_no_secret(workload: tuple[str, str]) -> None:
    pod = pod_of(*workload)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    [container] = pod["containers"]
    rights = container["securityContext"]
    assert rights["allowPrivilegeEscalation"] is False
    assert rights["readOnlyRootFilesystem"] is True
    assert rights["capabilities"] == {"drop": ["ALL"]}
    assert "memory" in container["resources"]["limits"]
    assert container["envFrom"] == [{"secretRef": {"name": "ragwright-secrets"}}]
    assert all("value" not in variable for variable in container["env"])
    assert not any(kind == "Secret" for kind, _ in OBJECTS)
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert {"/project", "/project/ragwright.yaml", "/tmp"} <= mounted


def test_readers_drain_and_the_writer_is_one() -> None:
    readers, writer = OBJECTS[READERS]["spec"], OBJECTS[WRITER]["spec"]
    assert readers["replicas"] > 1
    assert readers["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert writer["concurrencyPolicy"] == "Forbid"
    pod = pod_of(*READERS)
    [serve] = pod["containers"]
    assert serve["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert serve["livenessProbe"]["httpGet"]["path"] == "/healthz"
    pause = serve["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] > pause + 30, "answers may take 30 s to end"
    labels = OBJECTS[READERS]["spec"]["template"]["metadata"]["labels"]
    for kind, name in (("Service", "ragwright"), ("PodDisruptionBudget", "ragwright-readers")):
        selector = OBJECTS[kind, name]["spec"]["selector"]
        assert selector.get("matchLabels", selector) == labels
    budget = OBJECTS["PodDisruptionBudget", "ragwright-readers"]["spec"]["minAvailable"]
    assert budget < readers["replicas"], "a node can be emptied"


def project_file() -> str:
    data: dict[str, str] = OBJECTS["ConfigMap", "ragwright-settings"]["data"]
    return data["ragwright.yaml"]


def test_the_project_file_of_the_cluster_can_be_read(tmp_path: Path) -> None:
    (tmp_path / "ragwright.yaml").write_text(project_file(), "utf-8")
    settings = load_settings(tmp_path / "ragwright.yaml")
    assert settings.store.kind == "lance"
    assert settings.shared.address.startswith("postgresql://")
    assert settings.value("serve.proxy.addresses"), "else the headers would not be believed"


def test_what_one_folder_ingests_another_one_finds(tmp_path: Path) -> None:
    store = f"sources: [documents/]\nstore: {{kind: lance, path: {tmp_path / 'index'}}}\n"
    writer, reader = tmp_path / "writer", tmp_path / "reader"
    for folder in (writer, reader):
        folder.mkdir()
        (folder / "ragwright.yaml").write_text(store, "utf-8")
    (writer / "documents").mkdir()
    text = "The brake fluid must be changed every two years.\n"
    (writer / "documents/a.md").write_text(text, "utf-8")
    with Workbench.open(writer) as bench:
        bench.ingest()
    with Workbench.open(reader) as bench:
        assert "two years" in bench.retrieve("brake fluid").hits[0].text
