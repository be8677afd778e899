"""Debian's nginx in front of a server, with a configuration of the guide."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from waiting import free_port

GUIDE = Path(__file__).resolve().parents[2] / "docs/guide/operations.md"
NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
FRAME = """
daemon off;
worker_processes 1;
pid nginx.pid;
error_log stderr;
{user}
events {{ }}
http {{
    access_log off;
    client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi; scgi_temp_path scgi;
    {server}
}}
"""


def guide_configuration(which: str) -> str:
    """The configuration of the guide whose text holds a word."""
    blocks = re.findall(r"```nginx\n(.*?)```", GUIDE.read_text("utf-8"), re.DOTALL)
    [block] = [block for block in blocks if which in block]
    return str(block)


@contextmanager
def nginx(configuration: str, ports: dict[int, int]) -> Iterator[str]:
    """The address of a running nginx, without TLS, with other ports of what it speaks to."""
    port = free_port()
    server = re.sub(r"\n *ssl_certificate[^\n]*", "", configuration)
    server = server.replace("listen 443 ssl;", f"listen 127.0.0.1:{port};")
    for documented, used in ports.items():
        server = server.replace(f"127.0.0.1:{documented}", f"127.0.0.1:{used}")
    folder = Path(tempfile.mkdtemp(prefix="nginx"))
    user = "user root;" if Path("/proc/self").stat().st_uid == 0 else ""
    (folder / "nginx.conf").write_text(FRAME.format(user=user, server=server), "utf-8")
    assert NGINX is not None, "needs_nginx: install nginx"
    process = subprocess.Popen(
        [NGINX, "-p", str(folder), "-c", "nginx.conf", "-e", "stderr"], stderr=subprocess.PIPE
    )
    try:
        _wait_for_port(port, process)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.communicate(timeout=20)
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for_port(port: int, process: subprocess.Popen[bytes]) -> None:
    while True:
        with socket.socket() as link:
            if link.connect_ex(("127.0.0.1", port)) == 0:
                return
        if process.poll() is not None:
            assert process.stderr is not None
            raise AssertionError(process.stderr.read().decode())
