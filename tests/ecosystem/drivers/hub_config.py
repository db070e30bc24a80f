"""A small real JupyterHub: one user, whose server is a local process; its proxy only remembers the routes."""

from __future__ import annotations

import json
import os
from typing import Any

from jupyterhub.proxy import Proxy

settings = json.loads(os.environ["ECOSYSTEM_HUB"])


class Routes(Proxy):
    """The routes that a proxy would have: the test speaks to the user's server itself."""

    should_start = False
    routes: dict[str, Any] = {}  # noqa: RUF012 - one for the hub

    async def add_route(self, routespec: str, target: str, data: dict[str, Any]) -> None:
        self.routes[routespec] = {"routespec": routespec, "target": target, "data": data}

    async def delete_route(self, routespec: str) -> None:
        self.routes.pop(routespec, None)

    async def get_all_routes(self) -> dict[str, Any]:
        return self.routes


c = get_config()  # type: ignore[name-defined] # noqa: F821 - traitlets puts it here
c.JupyterHub.proxy_class = Routes
c.JupyterHub.bind_url = f"http://127.0.0.1:{settings['public_port']}"
c.JupyterHub.hub_bind_url = f"http://127.0.0.1:{settings['hub_port']}"
c.JupyterHub.db_url = "sqlite:///hub.sqlite"
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.spawner_class = "simple"
c.SimpleLocalProcessSpawner.home_dir_template = settings["folder"] + "/{username}"
c.Spawner.args = ["--allow-root"] if os.geteuid() == 0 else []
c.Spawner.cmd = settings["command"]
c.Spawner.environment = settings["environment"]
c.Spawner.start_timeout = c.Spawner.http_timeout = 120
c.JupyterHub.services = [{"name": "test", "api_token": settings["token"]}]
c.JupyterHub.load_roles = [
    {"name": "test", "scopes": ["admin:users", "admin:servers", "access:servers"], "services": ["test"]}
]
