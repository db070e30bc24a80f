"""A cell's way to the worker: its magics, the workspace's refresh, and then the request as it came."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.cell_calls import CELL_SECONDS
from sentinel_kernel.kernel.cell_record import begin_fields, end_fields
from sentinel_kernel.kernel.cells import Stage
from sentinel_kernel.kernel.files_arguments import FilesWanted
from sentinel_kernel.kernel.lifecycle import State
from sentinel_kernel.kernel.limit_magic import LimitChange
from sentinel_kernel.kernel.magics import Switch, UsageError
from sentinel_kernel.kernel.mount_arguments import MountWanted
from sentinel_kernel.kernel.network_arguments import NetworkWanted
from sentinel_kernel.kernel.page_arguments import EXPLAIN, PageWanted
from sentinel_kernel.kernel.preflight_magic import PreflightChange
from sentinel_kernel.kernel.trust_arguments import TrustWanted
from sentinel_kernel.kernel.unavailable import answer_cell
from sentinel_kernel.kernel.wire import unsigned
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.magics import Action
    from sentinel_kernel.kernel.mounting import Mounting
    from sentinel_kernel.kernel.network_magics import NetworkMagics
    from sentinel_kernel.kernel.wire import Json


_FOR_A_SANDBOX = (FilesWanted, LimitChange, MountWanted, NetworkWanted)
"""What can't be done where there is none."""


class CellStart:
    """Starts cells. A step that waited for an answer is void when the beginning was called off meanwhile."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._mounts: Mounting | None = None

    def begin(self, cell: Cell) -> None:
        """Begin a cell whose turn it is."""
        cell.displays.clear()
        if not cell.magics:
            self._open(cell)
            return
        try:
            actions = self._host.magics.check(cell.magics)
        except UsageError as error:
            self._refuse_usage(cell, str(error))
            return
        if self._nobody_to_ask(cell, actions):
            return
        changes = [action for action in actions if isinstance(action, LimitChange)]
        switches = [action for action in actions if isinstance(action, Switch) and action.beyond]
        beyond = [self._host.profile_switch.unreachable(cell, switch) for switch in switches]
        if why := next(
            filter(None, [*(self._host.limits.unreachable(cell, one) for one in changes), *beyond]), ""
        ):
            self._refuse_usage(cell, why)
            return
        self._act(cell, actions)

    def _nobody_to_ask(self, cell: Cell, actions: list[Action]) -> bool:
        """Refuse a cell with a line that takes an answer where nobody gives one, before any of its lines acts."""
        if self._host.lifecycle.problem is not None:
            return False  # which is said first
        for action in actions:
            if isinstance(action, NetworkWanted):
                ename, why = "NetworkError", self._network_magics().unreachable(cell, action)
            elif isinstance(action, MountWanted):
                ename, why = "MountError", self._mounting().unreachable(cell, action)
            else:
                continue
            if why:
                self._refusing(cell, ename, cell.magics)(why)
                return True
        return False

    def _refusing(self, cell: Cell, ename: str, rest: Sequence[object]) -> Callable[[str], None]:
        """Return what refuses ``cell`` at the line that has ``rest`` below it, and says what those above have done."""

        def refuse(why: str) -> None:
            from sentinel_kernel.kernel.magic_effects import in_effect  # noqa: PLC0415 - for lines that are refused

            above = cell.magics[: max(0, len(cell.magics) - len(rest) - 1)]
            text = why + in_effect(above, chinese=self._host.settings.language == "zh")
            self.refuse(cell, {"ename": ename, "evalue": text, "traceback": [f"{ename}: {text}"]})

        return refuse

    def _refuse_usage(self, cell: Cell, text: str) -> None:
        self.refuse(cell, {"ename": "UsageError", "evalue": text, "traceback": [f"UsageError: {text}"]})

    def _act(self, cell: Cell, actions: list[Action]) -> None:  # noqa: C901, PLR0911, PLR0912 - one branch a kind of magic
        """Carry out the magics in order; a switch waits for its sandbox."""
        while actions:
            action = actions.pop(0)
            problem = self._host.lifecycle.problem
            if problem is not None and isinstance(action, _FOR_A_SANDBOX):
                self.refuse(cell, problem.error(self._host.settings.language))
                return
            if isinstance(action, Switch):
                self._switch(cell, action, actions)
                return
            if isinstance(action, LimitChange):
                self._limit(cell, action, actions)
                return
            if isinstance(action, PageWanted):
                self._violations(cell, action, actions)
                return
            if isinstance(action, FilesWanted):
                self._files(cell, action, actions)
                return
            if isinstance(action, MountWanted):
                self._mount(cell, action, actions)
                return
            if isinstance(action, NetworkWanted):
                self._network(cell, action, actions)
                return
            if isinstance(action, TrustWanted):
                self._trust(cell, action, actions)
                return
            if action == "gauge":
                self._host.gauge.want(cell)
                continue
            if action == "audit":
                self._audit(cell, actions, self._host.audit.page)
                return
            if action in ("summary on", "summary off"):
                self._host.summary.turn(on=action == "summary on")
                continue
            if isinstance(action, PreflightChange):
                cell.displays.append(self._host.preflight.change(action))
                continue
            cell.displays.append(
                self._host.live_status.show(cell.request.header)
                if action == "live"
                else self._host.magics.page(action)
            )
        self._open(cell)

    def _violations(self, cell: Cell, wanted: PageWanted, rest: list[Action]) -> None:
        from sentinel_kernel.kernel import explain_page, violations_page  # noqa: PLC0415 - not on the start path

        host = self._host
        if wanted.name == EXPLAIN:
            self._audit(cell, rest, lambda state: explain_page.ExplainPage(host, state).page(wanted.number))
            return
        told, chinese = host.outbox.told, host.settings.language == "zh"
        cell.displays.append(
            violations_page.violations_data(told, wanted.number)
            if wanted.as_data
            else violations_page.violations_page(told, wanted.number, chinese=chinese)
        )
        self._act(cell, rest)

    def _files(self, cell: Cell, wanted: FilesWanted, rest: list[Action]) -> None:
        def done(page: Json) -> None:
            cell.displays.append(page)
            self._act(cell, rest)

        def current(call: Callable[..., None]) -> Callable[..., None]:
            return self._current(cell, call)

        self._host.files.run(cell, wanted, current, done, self._refusing(cell, "FilesError", rest))

    def _mount(self, cell: Cell, wanted: MountWanted, rest: list[Action]) -> None:
        def done(page: Json) -> None:
            cell.displays.append(page)
            self._act(cell, rest)

        refuse = self._refusing(cell, "MountError", rest)
        self._mounting().run(cell, wanted, lambda call: self._current(cell, call), done, refuse)

    def _network(self, cell: Cell, wanted: NetworkWanted, rest: list[Action]) -> None:
        def done(page: Json) -> None:
            cell.displays.append(page)
            self._act(cell, rest)

        refuse = self._refusing(cell, "NetworkError", rest)
        self._network_magics().run(cell, wanted, lambda call: self._current(cell, call), done, refuse)

    def _network_magics(self) -> NetworkMagics:
        from sentinel_kernel.kernel.network_magics import NetworkMagics  # noqa: PLC0415 - few ask for it

        return NetworkMagics(self._host)

    def _trust(self, cell: Cell, wanted: TrustWanted, rest: list[Action]) -> None:
        from sentinel_kernel.kernel.trust_output import TrustOutput  # noqa: PLC0415 - few ask for it

        def done(page: Json) -> None:
            cell.displays.append(page)
            self._act(cell, rest)

        refuse = self._refusing(cell, "OutputError", rest)
        TrustOutput(self._host).run(cell, wanted, lambda call: self._current(cell, call), done, refuse)

    def _mounting(self) -> Mounting:
        if self._mounts is None:
            from sentinel_kernel.kernel.mounting import Mounting  # noqa: PLC0415 - few ask for it

            self._mounts = Mounting(self._host)
        return self._mounts

    def _audit(self, cell: Cell, rest: list[Action], page: Callable[[Json], Json]) -> None:
        """Show a page that needs the audit's state, once all that was reported so far is written."""

        def answered(told: Json) -> None:
            cell.displays.append(page(told.get("audit") or {}))
            self._act(cell, rest)

        link = self._host.lifecycle.link
        if link is None or link.gone:
            answered({})
        else:
            link.request(protocol.OP_AUDIT, {}, self._current(cell, answered), CELL_SECONDS)

    def _limit(self, cell: Cell, change: LimitChange, rest: list[Action]) -> None:
        def done(page: Json) -> None:
            if page:
                cell.displays.append(page)
            self._act(cell, rest)

        refuse = self._refusing(cell, "UsageError", rest)

        def permitted(why: str) -> None:
            if why:
                refuse(why)
            else:
                self._host.limits.change(change, self._current(cell, done), self._current(cell, refuse))

        self._host.limits.permit(cell, change, self._current(cell, permitted))

    def _switch(self, cell: Cell, switch: Switch, rest: list[Action]) -> None:
        from sentinel_kernel.kernel.profile_switch import Turn  # noqa: PLC0415 - not on the start path

        def current(call: Callable[..., None]) -> Callable[..., None]:
            return self._current(cell, call)

        refuse = self._refusing(cell, "UsageError", rest)
        turn = Turn(cell, switch, lambda: self._act(cell, rest), refuse, current)
        self._host.profile_switch.begin(turn)

    def _current(self, cell: Cell, call: Callable[..., None]) -> Callable[..., None]:
        """Return ``call`` made void for the case that the cell's beginning is called off before."""
        attempt = cell.attempt

        def guarded(*arguments: object) -> None:
            if cell.attempt == attempt and cell.stage is Stage.OPENING:
                call(*arguments)

        return guarded

    def _open(self, cell: Cell) -> None:
        host = self._host
        if host.lifecycle.state is State.UNAVAILABLE:
            problem = host.lifecycle.problem
            only_magics = bool(cell.magics) and not cell.code[_block_end(cell.code) :].strip()
            error: Json = {} if only_magics or problem is None else problem.error(host.settings.language)
            self.refuse(cell, error)
            return
        if host.lifecycle.ready.get("writable"):
            self._mounting().settle(cell, lambda call: self._current(cell, call), lambda: self._open(cell))
            return
        if host.dry_runs is not None and (why := host.dry_runs.forbids(cell)):
            self.refuse(cell, {"ename": "DryRunError", "evalue": why, "traceback": [f"DryRunError: {why}"]})
            return
        preflight = host.preflight
        if preflight.refuses and (error := preflight.examine(cell)):
            self.refuse(cell, error)
            return

        def begin() -> None:
            forward = self._current(cell, lambda: self._forward(cell))
            host.cell_calls.begin_cell(begin_fields(cell), forward)

        if cell.dry_run is None:
            begin()
        else:
            self._dry_run(cell, begin)

    def _forward(self, cell: Cell) -> None:
        host, inner = self._host, self._host.lifecycle.inner
        if inner is None:
            if host.lifecycle.state is State.UNAVAILABLE:
                self._open(cell)  # which answers it
            return
        inner[cell.request.channel].send(unsigned(cell.request.identities, cell.request.parts))
        host.execution.sent(cell)
        host.summary.begins(cell)
        if not host.preflight.refuses:
            host.preflight.examine(cell)  # the worker has it: no cell waits for what is advice alone

    def _dry_run(self, cell: Cell, begin: Callable[[], None]) -> None:
        from sentinel_kernel.kernel.dry_run import DryRuns  # noqa: PLC0415 - few cells are one

        def refuse(ename: str, why: str) -> None:
            self.refuse(cell, {"ename": ename, "evalue": why, "traceback": [f"{ename}: {why}"]})

        if self._host.dry_runs is None:
            self._host.dry_runs = DryRuns(self._host)
        self._host.dry_runs.begin(cell, lambda call: self._current(cell, call), begin, refuse)

    def refuse(self, cell: Cell, error: Json) -> None:
        """Answer a cell in the host, with an error (or, where it is empty, as done)."""
        execution = self._host.execution
        if error and cell.stop_on_error and not cell.silent:
            self._host.clients.take_waiting()
            execution.abort_behind(cell)
        # The worker counts the cells; one that it never saw takes no number away from the next.
        count = execution.last_count + 1
        if self._host.lifecycle.state is State.UNAVAILABLE and not cell.silent:
            execution.last_count = count
        cell.ename = str(error.get("ename") or "")
        self._host.cell_calls.answered({**begin_fields(cell), **end_fields(cell)})
        self._host.limits.show_late(cell)
        self._host.files.hand_over(cell)
        self._host.displays.hand_over(cell)
        answer_cell(self._host.outbox, cell, error, count)
        execution.finish(cell)


def _block_end(code: str) -> int:
    from sentinel_kernel.worker.leading_block import parse_leading_block  # noqa: PLC0415 - only when unavailable

    return parse_leading_block(code).end_offset
