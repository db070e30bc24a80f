"""Other ways to start a kernel than Jupyter's own: an editor that reads the kernelspec, and JupyterHub."""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import signal
import sys
import uuid
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import requests
import websocket
from free_ports import free_ports
from jupyter_client.blocking import BlockingKernelClient
from waiting import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from subprocess import Popen

    from ordinary_user import Identity

pytestmark = [
    pytest.mark.sandbox,
    pytest.mark.requires("user_namespaces", "overlay", "fresh_proc", "notifications"),
]

HERE = Path(__file__).parent


@contextlib.contextmanager
def _started_as_an_editor_does(
    identity: Identity, folder: Path, environment: dict[str, str]
) -> Iterator[tuple[Popen[bytes], BlockingKernelClient, dict[str, Any]]]:
    """Start the kernel as VS Code does: the kernelspec's argv, spawned with ports that the editor chose."""
    spec = json.loads((Path(environment["JUPYTER_PATH"]) / "kernels/sentinel/kernel.json").read_text())
    names = ("shell_port", "iopub_port", "stdin_port", "control_port", "hb_port")
    connection = {
        "key": str(uuid.uuid4()),
        "signature_scheme": "hmac-sha256",
        "transport": "tcp",
        "ip": "127.0.0.1",
        "kernel_name": "sentinel",
        **dict(zip(names, free_ports(5), strict=True)),
    }
    file = folder / "kernel-v3 1.json"
    file.write_text(json.dumps(connection))
    file.chmod(0o600)
    os.chown(file, identity.uid, -1)
    argv = [part.replace("{connection_file}", str(file)) for part in spec["argv"]]
    editor = {**environment, **spec.get("env", {}), "VSCODE_PID": "1", "PYTHONUNBUFFERED": "1"}
    process = identity.popen(*argv, cwd=folder, env=editor)
    client = BlockingKernelClient()
    client.load_connection_info(connection)
    client.start_channels(hb=False)  # else one that has not bound yet counts as dead
    try:
        client.wait_for_ready(timeout=90)
        yield process, client, spec
    finally:
        client.stop_channels()
        client.context.destroy(linger=0)
        if process.poll() is None:
            process.kill()
        process.wait()


def _run(client: BlockingKernelClient, code: str) -> str:
    printed: list[str] = []

    def output(message: dict[str, Any]) -> None:
        if message["msg_type"] == "stream":
            printed.append(message["content"]["text"])
        elif message["msg_type"] == "error":
            printed.append(message["content"]["ename"])

    client.execute_interactive(code, output_hook=output, timeout=90)
    return "".join(printed)


@pytest.mark.parametrize(
    "end", [signal.SIGTERM, signal.SIGKILL, None], ids=["SIGTERM", "SIGKILL", "shutdown"]
)
def test_an_editor_starts_interrupts_and_ends_it(
    end: signal.Signals | None, identity: Identity, folder: Path, environment: dict[str, str]
) -> None:
    with _started_as_an_editor_does(identity, folder, environment) as (process, client, spec):
        assert _run(client, "import os\nvalue = 6 * 7\nprint(value, os.getcwd())") == f"42 {folder}\n"
        asked = client.execute("import time\nprint('runs', flush=True)\ntime.sleep(600)")
        while client.get_iopub_msg(timeout=60)["msg_type"] != "stream":
            pass
        if spec.get("interrupt_mode", "signal") == "signal":
            process.send_signal(signal.SIGINT)
        else:
            client.control_channel.send(client.session.msg("interrupt_request", {}))
        while (reply := client.get_shell_msg(timeout=60))["parent_header"]["msg_id"] != asked:
            pass
        assert reply["content"]["ename"] == "KeyboardInterrupt"
        assert _run(client, "print(value)") == "42\n"
        if end is None:
            client.shutdown()
        else:
            process.send_signal(end)
        assert process.wait(60) in (0, -int(end or 0), 128 + int(end or 0))
    # `sandbox` looks that nothing of it lives on.


@contextlib.contextmanager
def _hub(
    identity: Identity, folder: Path, environment: dict[str, str]
) -> Iterator[tuple[str, requests.Session]]:
    """Start JupyterHub, and yield its API's address and a session with an administrator's token."""
    public, hub = free_ports(2)
    token = secrets.token_hex(16)
    settings = {
        "public_port": public,
        "hub_port": hub,
        "token": token,
        "folder": str(folder),
        "command": [str(Path(identity.python).parent / "jupyterhub-singleuser")],
        "environment": {
            "JUPYTER_PATH": environment["JUPYTER_PATH"],
            "SENTINEL_PROFILE": "datascience",
            "SENTINEL_LANG": "en",
        },
    }
    with (folder / "hub.log").open("wb") as log, requests.Session() as session:
        process = identity.popen(
            *(identity.python, "-m", "jupyterhub", "-f", str(HERE / "drivers" / "hub_config.py")),
            cwd=folder,
            env={**environment, "ECOSYSTEM_HUB": json.dumps(settings)},
            stdout=log,
            stderr=log,
        )
        session.trust_env = False
        session.headers["Authorization"] = f"token {token}"
        api = f"http://127.0.0.1:{hub}/hub/api"

        def answers() -> bool:
            assert process.poll() is None, (folder / "hub.log").read_text()
            with contextlib.suppress(requests.ConnectionError):
                return session.get(f"{api}/", timeout=10).ok
            return False

        try:
            wait_until(answers, "the hub answers", 90)
            yield api, session
        finally:
            process.terminate()
            process.wait(60)


def _cell(server: str, token: str, kernel: str, code: str) -> str:
    address = f"{server}api/kernels/{kernel}/channels".replace("http:", "ws:", 1)
    connection = websocket.create_connection(
        address, header=[f"Authorization: token {token}"], timeout=90, suppress_origin=True
    )
    header = {
        "msg_id": "cell",
        "msg_type": "execute_request",
        "session": "s",
        "username": "",
        "version": "5.4",
    }
    content = {"code": code, "silent": False, "store_history": True, "allow_stdin": False}
    request = {"header": header, "parent_header": {}, "metadata": {}, "content": content, "channel": "shell"}
    printed = ""
    with contextlib.closing(connection):
        connection.send(json.dumps(request))
        while True:
            message = json.loads(connection.recv())
            if message["parent_header"].get("msg_id") != "cell":
                continue
            printed += message["content"].get("text", "") + message["content"].get("evalue", "")
            if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return printed


_LOOK = """
import glob, os
seen = list(os.environ.items())
for path in glob.glob('/proc/*/environ'):
    try:
        seen.append((path, open(path).read()))
    except OSError:
        pass
print([name for name, value in seen if 'JUPYTERHUB' in name + value or 'JPY_API' in name + value])
print(os.path.basename(os.getcwd()), os.uname().nodename)
"""


def test_jupyterhub_starts_it_and_no_token_of_the_hub_is_inside(
    own_user: Identity,
    make_folder: Callable[[Identity, str], Path],
    jupyter_environment: Callable[..., dict[str, str]],
) -> None:
    folder = make_folder(own_user, "hub")
    (folder / "ada").mkdir()
    with _hub(own_user, folder, jupyter_environment(own_user)) as (api, hub):
        assert hub.post(f"{api}/users/ada", timeout=30).ok
        assert hub.post(f"{api}/users/ada/server", json={}, timeout=120).ok

        def server() -> dict[str, Any] | None:
            model = hub.get(f"{api}/users/ada?include_stopped_servers", timeout=30).json()["servers"].get("")
            return model if model and model["ready"] else None

        wait_until(lambda: server() is not None, "the server of ada is ready", 120)
        model = server()
        assert model is not None
        pid = model["state"]["pid"] if model.get("state") else _single_user(folder)
        outside = Path(f"/proc/{pid}/environ").read_text()
        assert "JUPYTERHUB_API_TOKEN=" in outside  # what there is to take
        variables = dict(line.split("=", 1) for line in outside.split("\0") if "=" in line)
        address = variables["JUPYTERHUB_SERVICE_URL"]
        token = str(hub.headers["Authorization"]).split()[1]
        kernel = hub.post(f"{address}api/kernels", json={"name": "sentinel"}, timeout=120).json()["id"]
        assert _cell(address, token, kernel, _LOOK) == "[]\nada sentinel\n"
        assert hub.delete(f"{address}api/kernels/{kernel}", timeout=60).ok
        assert hub.delete(f"{api}/users/ada/server", timeout=120).ok


def _single_user(folder: Path) -> int:
    """Return the process id of the user's server: the one whose home is there."""
    for path in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            text = path.read_text()
            if f"HOME={folder}/ada\0" in text and "JUPYTERHUB_API_TOKEN=" in text:
                return int(path.parent.name)
    raise AssertionError(f"no server in {folder}, {sys.executable}")
