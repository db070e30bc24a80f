"""The host's parts around the file magics, with a supervisor and a person of the test's."""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from sentinel_kernel.kernel.files_entry import FilesEntry
from sentinel_kernel.supervisor import protocol
from sentinel_kernel.workspace.request import read_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.files_arguments import FilesWanted

Json = dict[str, Any]


class Bench:
    """A host's parts around the file magics; ``answer`` plays the supervisor."""

    def __init__(
        self,
        answer: Callable[[Json], Json],
        *,
        person: str = "yes",
        profile: str = "datascience",
        commit: str = "",
    ) -> None:
        self.asked: list[Json] = []
        self.prompts: list[str] = []
        self.shown: list[tuple[str, Json, bool]] = []
        self.page: Json = {}
        self.refused = ""
        self._answer = answer
        self._person = person
        self.cell = SimpleNamespace(
            request=SimpleNamespace(header=b"{}"),
            silent=False,
            idle=False,
            allow_stdin=bool(person),
            is_read=True,
            client_answers=bool(person),
        )
        host: Any = SimpleNamespace(
            settings=SimpleNamespace(
                language="en", profile_directories=(), workspace=os.getcwd(), commit=commit
            ),
            lifecycle=SimpleNamespace(
                told={},
                generation=3,
                profile=profile,
                link=SimpleNamespace(gone=False, request=self._request),
            ),
            displays=SimpleNamespace(new_id=lambda: f"id-{len(self.shown)}"),
            outbox=SimpleNamespace(display=self._display),
            questions=SimpleNamespace(reaches=lambda _cell: bool(person), ask=self._ask),
            execution=SimpleNamespace(newest=lambda: self.cell),
            gauge=SimpleNamespace(refresh_soon=lambda: None),
        )
        self.files = host.files = FilesEntry(host)
        self.tell = host.lifecycle.told[protocol.EVENT_FILES]

    def _request(
        self, operation: str, fields: Json, on_reply: Callable[[Json], None], _seconds: float
    ) -> None:
        assert operation == protocol.OP_FILES
        read_request(fields)  # the supervisor takes it
        self.asked.append(fields)
        on_reply(self._answer(fields))

    def _ask(self, _cell: Any, prompt: str, _answers: Any, done: Callable[[str], None]) -> None:
        self.prompts.append(prompt)
        done(self._person)

    def _display(self, bundle: Json, _parent: bytes, display_id: str = "", *, update: bool = False) -> None:
        self.shown.append((display_id, bundle, update))

    def run(self, wanted: FilesWanted) -> None:
        """Run one line to its end."""
        cell: Any = self.cell
        self.files.run(cell, wanted, lambda call: call, self._done, self._refuse)

    def _done(self, page: Json) -> None:
        self.page = page

    def _refuse(self, why: str) -> None:
        self.refused = why

    @property
    def said(self) -> list[str]:
        """What was asked of the supervisor."""
        return [fields["do"] for fields in self.asked]
