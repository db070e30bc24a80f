"""A cell's change of profile or sandbox: who has to agree, what changes in place, and what a fresh sandbox takes along.

Nothing of the old sandbox is given up before it was said what is lost, and agreed to: by a word behind the magic
(``--fresh``, ``--carry``), by the person's answer, or because nothing has run in it yet; nor before what can be told
of the next one's start was tried.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sentinel_kernel.kernel.cell_calls import CELL_SECONDS
from sentinel_kernel.kernel.lifecycle import State
from sentinel_kernel.kernel.profile_change import changed, why_fresh
from sentinel_kernel.kernel.questions import HOW, YES
from sentinel_kernel.kernel.supervisor_process import PersonsOwn, start_request
from sentinel_kernel.kernel.switch_words import SwitchWords
from sentinel_kernel.kernel.unavailable import Problem
from sentinel_kernel.record import Record
from sentinel_kernel.supervisor import protocol

if TYPE_CHECKING:
    from collections.abc import Callable

    from sentinel_kernel.kernel.carrying import Cargo
    from sentinel_kernel.kernel.cells import Cell
    from sentinel_kernel.kernel.host import Host
    from sentinel_kernel.kernel.magics import Switch
    from sentinel_kernel.kernel.wire import Json


class Turn(Record):
    """One switch under way in a cell; ``done`` goes on with the cell, ``refuse`` ends it with a reason."""

    cell: Cell
    switch: Switch
    done: Callable[[], None]
    refuse: Callable[[str], None]
    current: Callable[[Callable[..., None]], Callable[..., None]]
    """Makes a call void for the case that the cell's beginning is called off before."""


class ProfileSwitch:
    """Carries out the switches that cells ask for."""

    def __init__(self, host: Host) -> None:
        self._host = host
        self._words = SwitchWords(host.settings.language)

    def unreachable(self, cell: Cell, switch: Switch) -> str:
        """Return why a profile beyond the ceiling can't be had in ``cell``: nobody is asked there ("": one can)."""
        if self._host.questions.reaches(cell):
            return ""
        return self._words.nobody(switch.profile, self._host.magics.ceiling_name)

    def begin(self, turn: Turn) -> None:
        """Ask the person, where the profile is beyond the ceiling; then change over."""
        if not turn.switch.beyond:
            self._change(turn)
            return
        profile = turn.switch.profile
        if why := self.unreachable(turn.cell, turn.switch):
            turn.refuse(why)
            return

        def answered(answer: str) -> None:
            if answer == "yes":
                self._change(turn)
            else:
                turn.refuse(self._words.declined(profile))

        from sentinel_kernel.kernel.ceiling import Ceiling  # noqa: PLC0415 - not on the start path

        ceiling = Ceiling(self._host.settings)
        prompt = self._words.beyond(profile, ceiling.name, ceiling.exceeded(profile))
        self._host.questions.ask(turn.cell, prompt, YES, turn.current(answered))

    def _change(self, turn: Turn) -> None:
        """Change in place, or where that can't be done, or is not what was asked, start afresh."""
        lifecycle = self._host.lifecycle
        asked = turn.switch.how == "fresh" and turn.switch.profile == lifecycle.profile
        if (
            asked
            or turn.switch.reason != "profile"
            or lifecycle.state is not State.READY
            or lifecycle.link is None
        ):
            self._start_afresh(turn, "", None)
            return

        def answered(told: Json) -> None:
            if told.get("message"):
                turn.refuse(str(told["message"])[:500])
                return
            if told.get("live") is not True:
                self._if_it_starts(turn, lambda: self._not_in_place(turn, told))
                return
            lifecycle.profile = turn.switch.profile
            sizes = told.get("after") or {}
            lifecycle.ready = {**lifecycle.ready, "profile": turn.switch.profile, "sizes": sizes}
            chinese = self._host.settings.language == "zh"
            held = self._host.files.held[0]
            turn.cell.displays.append(changed(turn.switch.profile, told, held, chinese=chinese))
            turn.done()

        fields: Json = {"profile": turn.switch.profile}
        lifecycle.link.request(protocol.OP_PROFILE, fields, turn.current(answered), CELL_SECONDS)

    def afresh(self, turn: Turn, why: str, *, asks: bool) -> None:
        """Take a fresh sandbox as ``turn`` says, because of ``why``; ``asks`` whether what stays behind is asked about.

        Nobody is asked about anything else: who calls this has.
        """
        if turn.switch.how == "carry":
            self._carry(turn, why, asks=asks)
        else:
            self._start_afresh(turn, why, None)

    # --- what can't be changed in place

    def _not_in_place(self, turn: Turn, told: Json) -> None:
        """Let it be chosen what becomes of the variables; the start of a fresh sandbox was just found to be well."""
        why = why_fresh(told, chinese=self._host.settings.language == "zh")
        held = self._host.files.held[0]
        if turn.switch.how == "fresh" or self._host.execution.last_cell is None:
            self._replace(turn, why, None)
        elif turn.switch.how == "carry":
            self._carry(turn, why, asks=False)
        elif self._host.questions.reaches(turn.cell):

            def chosen(how: str) -> None:
                if how == "fresh":
                    self._start_afresh(turn, why, None)
                elif how == "carry":
                    self._carry(turn, why, asks=True)
                else:
                    turn.refuse(self._words.stays(turn.switch.profile, why))

            self._host.questions.ask(
                turn.cell, self._words.choice(turn.switch.profile, why, held), HOW, turn.current(chosen)
            )
        else:
            turn.refuse(self._words.choose(turn.switch.profile, why, held))

    def _if_it_starts(self, turn: Turn, then: Callable[[], None]) -> None:
        """Go on with ``then`` where nothing is known that the start of the fresh sandbox fails by; else all stays."""
        host, lifecycle = self._host, self._host.lifecycle
        if lifecycle.state is not State.READY or lifecycle.link is None:
            then()
            return

        def tried(told: Json) -> None:
            problem = told.get("problem")
            if told.get("ok") is not True or not isinstance(problem, dict):
                turn.refuse(self._words.untried(turn.switch.profile))
                return
            if not problem:
                then()
                return
            _, cause, remedy = Problem.from_event(problem).describe(host.settings.language)
            turn.refuse(self._words.no_start(turn.switch.profile, cause, remedy))

        hosts = (*lifecycle.granted_hosts, *turn.switch.hosts)
        own = PersonsOwn(dict(lifecycle.own_limits), lifecycle.granted_limits, hosts)
        fields = start_request(host.settings, 0, turn.switch.profile, turn.switch.reason, own=own)
        lifecycle.link.request(protocol.OP_TRY, fields, turn.current(tried), CELL_SECONDS)

    def _carry(self, turn: Turn, why: str, *, asks: bool) -> None:
        """Save the variables first; the old sandbox goes only once that has worked, and what is left is agreed to."""

        def saved(cargo: Cargo) -> None:
            if cargo.fault is not None:
                turn.refuse(self._words.not_saved(cargo.fault))
            elif cargo.left and asks:

                def agreed(answer: str) -> None:
                    if answer == "yes":
                        self._start_afresh(turn, why, cargo)
                    else:
                        turn.refuse(self._words.stays(turn.switch.profile, why, turn.switch.hosts))

                self._host.questions.ask(turn.cell, self._words.leaves(cargo), YES, turn.current(agreed))
            else:
                self._start_afresh(turn, why, cargo)

        self._host.carrying.save(self._progress(turn.cell, "saved"), turn.current(saved))

    def _start_afresh(self, turn: Turn, why: str, cargo: Cargo | None) -> None:
        self._if_it_starts(turn, lambda: self._replace(turn, why, cargo))

    def _replace(self, turn: Turn, why: str, cargo: Cargo | None) -> None:
        host, former = self._host, self._host.lifecycle.profile
        lost = host.lifecycle.state is State.READY
        before = host.lifecycle.granted_hosts
        shown = list(host.lifecycle.ready.get("mounts") or ())
        host.lifecycle.granted_hosts = tuple(dict.fromkeys((*before, *turn.switch.hosts)))
        host.give_up_worker(keep=turn.cell, reason=turn.switch.reason)

        def gone() -> None:
            if shown:
                from sentinel_kernel.kernel.mount_words import MountWords  # noqa: PLC0415 - few have folders shown

                turn.cell.displays.append(MountWords(host.settings.language).gone(shown))

        def done(succeeded: bool) -> None:
            if not succeeded:
                host.lifecycle.granted_hosts = before
                self._failed(turn, former if lost else "")
                return
            if cargo is not None:

                def loaded(taken: Cargo) -> None:
                    turn.cell.displays.append(host.magics.switched(turn.switch, why, taken))
                    gone()
                    turn.done()

                host.carrying.load(cargo, self._progress(turn.cell, "loaded"), turn.current(loaded))
                return
            turn.cell.displays.append(host.magics.switched(turn.switch, why))
            gone()
            turn.done()

        host.lifecycle.switch(
            turn.switch.profile, turn.switch.reason, host.execution.last_count + 1, turn.current(done)
        )

    def _failed(self, turn: Turn, former: str) -> None:
        """Fail the cell whose fresh sandbox could not be set up, in place of the one under ``former`` ("": none)."""
        host = self._host
        problem = host.lifecycle.problem
        if problem is None:
            turn.done()
            return
        error = problem.error(host.settings.language)
        if former:
            gone = self._words.gone(former, again=former != turn.switch.profile)
            error["evalue"] += f" {gone}"
            error["traceback"].append(gone)
        host.cell_start.refuse(turn.cell, error)

    def _progress(self, cell: Cell, what: str) -> Callable[[int, int, int], None]:
        """Return what shows how far it is, in one display of the cell; nothing is shown of what is done at once."""
        display_id = ""

        def tell(done: int, total: int, size_bytes: int) -> None:
            nonlocal display_id
            update = bool(display_id)
            display_id = display_id or self._host.displays.new_id()
            bundle = self._words.progress(what, done, total, size_bytes)
            self._host.outbox.display(bundle, cell.request.header, display_id, update=update)

        return tell
